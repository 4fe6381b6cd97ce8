"""From columns to features: learnt on the training nodes, stored as plain data, applied to any later table."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fairsad.data.columns import UNSEEN, BoolArray, Column, FloatArray, IntArray, Table, as_table, is_number
from fairsad.errors import DataError
from fairsad.groups import UNKNOWN

logger = logging.getLogger(__name__)

ENCODING_FORMAT = 1
MAX_CATEGORIES = 200
MAX_NUMBERED_GROUPS = 20
MAX_CLASSES = 50  # as an audit
FEW_ROWS = 20  # in so few, every row may well have a word of its own

_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)+", re.ASCII)

Missing = Literal["error", "mean"]
Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NumberFeature:
    """A number scaled to [-1, 1] by the least and the greatest value among the training nodes.

    Later values may lie outside; a column that is constant among the training nodes becomes 0.
    """

    kind: ClassVar[str] = "number"
    column: str
    low: float
    high: float
    mean: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns made."""
        return (self.column,)

    def encode(self, column: Column, missing: Missing) -> Features:
        """The feature columns of a table's column."""
        numbers = _finite_numbers(column, missing)
        if self.high == self.low:
            return np.zeros((len(numbers), 1), dtype=np.float32)
        filled = np.where(column.missing, self.mean, numbers)
        scaled = 2 * (filled - self.low) / (self.high - self.low) - 1
        return scaled[:, None].astype(np.float32)


@dataclass(frozen=True)
class CategoryFeature:
    """One 0/1 column per value that occurs among the training nodes; a value never seen there is all zeros."""

    kind: ClassVar[str] = "category"
    column: str
    values: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns made."""
        return tuple(f"{self.column}={value}" for value in self.values)

    def encode(self, column: Column, missing: Missing) -> Features:
        """The feature columns of a table's column."""
        if missing == "error":
            _refuse_missing(column, column.missing)
        return _one_hot(codes_or_unknown(column, self.values, "category"), len(self.values))


@dataclass(frozen=True)
class AttributeFeature:
    """A sensitive attribute among the features: one 0/1 column for two values, else one column per value.

    An unknown value lies halfway between two values (0.5), or has none of several (all zeros).
    """

    kind: ClassVar[str] = "attribute"
    column: str
    values: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the feature columns made."""
        return (self.column,) if len(self.values) == 2 else tuple(f"{self.column}={value}" for value in self.values)

    def encode(self, column: Column, missing: Missing) -> Features:
        """The feature columns of a table's column; ``missing`` has no say, unknown groups are always allowed."""
        codes = codes_or_unknown(column, self.values, "group")
        if len(self.values) == 2:
            return np.where(codes == UNKNOWN, 0.5, codes)[:, None].astype(np.float32)
        return _one_hot(codes, len(self.values))


Feature = NumberFeature | CategoryFeature | AttributeFeature
_KINDS: dict[str, type[Feature]] = {made.kind: made for made in (NumberFeature, CategoryFeature, AttributeFeature)}


@dataclass(frozen=True)
class Attribute:
    """A sensitive attribute: its values in order, or where its numbers are cut into groups."""

    name: str
    values: tuple[str, ...]
    cuts: tuple[float, ...] = ()

    def encode(self, column: Column) -> IntArray:
        """Value number of each row, -1 where unknown."""
        if not self.cuts:
            return codes_or_unknown(column, self.values, "group")
        numbers = _numbers(column, f"bins cuts {self.name!r}")
        return np.where(column.missing, UNKNOWN, np.searchsorted(self.cuts, numbers, side="right"))


@dataclass(frozen=True)
class TableEncoding:
    """Everything learnt from a table, so that a new one is read the same way.

    Attributes:
        features: How each feature column is made, in order.
        label_values: Names of the classes, by number.
        attributes: The sensitive attributes.
        missing: What to do with missing feature values.
    """

    features: tuple[Feature, ...]
    label_values: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    missing: Missing = "error"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the feature columns made."""
        return tuple(name for feature in self.features for name in feature.names)

    def features_from(self, *columns: str) -> tuple[int, ...]:
        """Positions of the features made from columns of the table."""
        made_from = [feature.column for feature in self.features for _ in feature.names]
        return tuple(position for position, column in enumerate(made_from) if column in columns)

    def encode(self, table: Table) -> Features:
        """The feature matrix of a table with the same columns.

        Raises:
            DataError: A column is missing, or holds what it cannot be encoded from.
        """
        table.require([feature.column for feature in self.features], "a feature of the model")
        x = np.empty((len(table), len(self.feature_names)), dtype=np.float32)
        start = 0
        for feature in self.features:
            stop = start + len(feature.names)
            x[:, start:stop] = feature.encode(table.column(feature.column), self.missing)
            start = stop
        return x

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "format": ENCODING_FORMAT,
            "missing": self.missing,
            "features": [{"kind": feature.kind, **_plain(feature)} for feature in self.features],
            "label_values": list(self.label_values),
            "attributes": [_plain(attribute) for attribute in self.attributes],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TableEncoding:
        """Read what :meth:`to_dict` wrote.

        Raises:
            DataError: Written by another version, or by something else.
        """
        if content.get("format") != ENCODING_FORMAT:
            raise DataError(
                f"table encoding of format {content.get('format')!r}; expected {ENCODING_FORMAT}. "
                "Build the graph again with this version of fairsad."
            )
        return cls(
            features=tuple(_feature(stored) for stored in content["features"]),
            label_values=tuple(content["label_values"]),
            attributes=tuple(
                Attribute(stored["name"], tuple(stored["values"]), tuple(stored["cuts"]))
                for stored in content["attributes"]
            ),
            missing=content["missing"],
        )


def _plain(record: Feature | Attribute) -> dict[str, Any]:
    """Fields with lists for tuples, so that what is stored equals what is read again."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(record).items()}


def _feature(stored: Mapping[str, Any]) -> Feature:
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
    made: Any = _KINDS[str(settings.pop("kind"))]
    feature: Feature = made(**settings)
    return feature


def encode_like(encoding: Mapping[str, Any], frame: Any) -> Features:
    """Encode a new pandas frame as the graph was that ``encoding`` belongs to (``FairGraph.encoding``).

    Raises:
        DataError: A column is missing, or holds what it cannot be encoded from.
    """
    return TableEncoding.from_dict(encoding).encode(as_table(frame, "the frame"))


# -- learning -----------------------------------------------------------------------------------------------


def fit_features(
    table: Table,
    names: Sequence[str],
    train_mask: BoolArray,
    *,
    categorical: Sequence[str],
    attributes: Sequence[Attribute],
    missing: Missing,
) -> tuple[Feature, ...]:
    """Learn from the training nodes how to encode the columns named.

    Raises:
        DataError: A column that no feature can be made from, with its name and what to do.
    """
    uncut = {attribute.name: attribute for attribute in attributes if not attribute.cuts}
    features: list[Feature] = []
    for name in names:
        column = table.column(name)
        if name in uncut:
            features.append(AttributeFeature(name, uncut[name].values))
        elif name in categorical:
            features.append(CategoryFeature(name, _training_values(column, train_mask)))
        elif column.kind == "number":
            features.append(_fit_number(column, train_mask, missing))
        else:
            features.append(_fit_words(column, train_mask, missing))
    return tuple(features)


def _fit_number(column: Column, train_mask: BoolArray, missing: Missing) -> NumberFeature:
    numbers = _finite_numbers(column, missing)[train_mask & ~column.missing]
    if not numbers.size:
        raise DataError(f"{column} has no value among the training nodes. Drop it with drop = [{column.name!r}].")
    return NumberFeature(column.name, float(numbers.min()), float(numbers.max()), float(numbers.mean()))


def _fit_words(column: Column, train_mask: BoolArray, missing: Missing) -> CategoryFeature:
    cure = f"drop it with drop = [{column.name!r}]"
    if column.kind == "date":
        raise DataError(f"{column} holds dates, of which no feature can be made; write them as numbers, or {cure}.")
    if column.kind != "word":
        raise DataError(f"{column} holds {column.kind} values; expected numbers or words. Convert it, or {cure}.")
    if missing == "error":
        _refuse_missing(column, column.missing)
    _refuse_misprints(column)
    values = _training_values(column, train_mask)
    num_training = int((train_mask & ~column.missing).sum())
    if len(values) > MAX_CATEGORIES or (len(values) == num_training and num_training > FEW_ROWS):
        raise DataError(
            f"{column} has {len(values)} different words among {num_training} training nodes and would become as many "
            f"features; is it a name? If so, {cure}; if not, list it under categorical."
        )
    return CategoryFeature(column.name, values)


def _training_values(column: Column, train_mask: BoolArray) -> tuple[str, ...]:
    codes, values = column.words
    present = np.bincount(codes[train_mask & (codes >= 0)], minlength=len(values)) > 0
    return tuple(value for value, occurs in zip(values, present, strict=True) if occurs)


def _refuse_misprints(column: Column) -> None:
    """A column of numbers with a few words in it is a misprint far more often than a list of categories."""
    codes, values = column.words
    if all(_COMMA_NUMBER.fullmatch(value) or is_number(value) for value in values):
        raise DataError(
            f"{column} holds numbers with commas, such as {next(value for value in values if ',' in value)!r}; "
            'add decimal = "," to the card if fractions are meant, else take the commas out.'
        )
    numeric = np.array([is_number(value) for value in values] + [False])
    words = ~numeric[codes] & ~column.missing
    if 0 < words.sum() < numeric[codes].sum() and not any(value[:1] == "0" and len(value) > 1 for value in values):
        word = values[codes[int(np.argmax(words))]]
        raise DataError(
            f"{column} holds numbers, but {word!r} in {column.first(words)} is none (words in all: "
            f"{int(words.sum())}). Correct them, leave them empty, or list the column under categorical."
        )


def fit_attribute(column: Column, *, cuts: Sequence[float], categorical: bool) -> Attribute:
    """The values of a sensitive attribute, from all rows: which groups there are is no secret of the test nodes.

    Raises:
        DataError: The column has one value, none, or so many that they cannot be groups.
    """
    if cuts:
        attribute = Attribute(column.name, _bin_names(cuts), tuple(float(cut) for cut in cuts))
        present = np.unique(attribute.encode(column)[~column.missing])
        _refuse_one_value(column, tuple(attribute.values[code] for code in present), "sensitive")
        return attribute
    _, values = column.words
    _refuse_one_value(column, values, "sensitive")
    if column.kind == "number" and not categorical and len(values) > MAX_NUMBERED_GROUPS:
        raise DataError(
            f"{column} has {len(values)} different numbers, too many for groups; cut it into groups with a table "
            f"[bins] {column.name} = [25, 60], or list it under categorical if its numbers are names."
        )
    if len(values) > MAX_CATEGORIES:
        raise DataError(
            f"{column} has {len(values)} different values, named as sensitive; expected at most {MAX_CATEGORIES} "
            "groups. Merge the values into larger groups first."
        )
    return Attribute(column.name, values)


def fit_label(column: Column, positive: str | None) -> tuple[str, ...]:
    """The classes in order: sorted, or with ``positive`` as the second of two.

    Raises:
        DataError: The column has one value, none, or so many that they cannot be classes.
    """
    _, values = column.words
    _refuse_one_value(column, values, "label")
    if len(values) > MAX_CLASSES:
        raise DataError(
            f"{column} has {len(values)} different values, named as label; expected classes, at most {MAX_CLASSES}. "
            "Cut it into classes first, such as below and above a limit."
        )
    if positive is None:
        return values
    if positive not in values or len(values) != 2:
        raise DataError(
            f"{column} has the values {', '.join(values)}; positive = {positive!r} expects two values, "
            "one of them this. Correct or remove positive."
        )
    return (*(value for value in values if value != positive), positive)


def _bin_names(cuts: Sequence[float]) -> tuple[str, ...]:
    middle = (f"{low:g} to under {high:g}" for low, high in pairwise(cuts))
    return (f"under {cuts[0]:g}", *middle, f"{cuts[-1]:g} and over")


# -- shared -------------------------------------------------------------------------------------------------


def codes_or_unknown(column: Column, values: Sequence[str], what: str) -> IntArray:
    """Number of each row's value, -1 where it is missing or was never seen; the latter are counted in the log."""
    codes = column.codes_in(values)
    unseen = codes == UNSEEN
    if unseen.any():
        word = column.words[1][column.words[0][int(np.argmax(unseen))]]
        logger.warning(
            "%s: %r in %s is a %s that the training data did not have (rows of this kind: %d); treated as unknown.",
            column,
            word,
            column.first(unseen),
            what,
            int(unseen.sum()),
        )
    return np.where(unseen, UNKNOWN, codes)


def _one_hot(codes: IntArray, width: int) -> Features:
    x = np.zeros((len(codes), width), dtype=np.float32)
    known = np.flatnonzero(codes >= 0)
    x[known, codes[known]] = 1
    return x


def _numbers(column: Column, purpose: str) -> FloatArray:
    if column.numbers is None:
        codes, values = column.words
        numeric = np.array([is_number(value) for value in values] + [True])
        words = ~numeric[codes]
        example = f", such as {values[codes[int(np.argmax(words))]]!r} in {column.first(words)}" if words.any() else ""
        raise DataError(f"{column} holds {column.kind}s{example}; {purpose} as numbers. Correct the values.")
    return column.numbers


def _finite_numbers(column: Column, missing: Missing) -> FloatArray:
    numbers = _numbers(column, "the feature is encoded")
    infinite = np.isinf(numbers)
    if infinite.any():
        raise DataError(
            f"{column} is infinite in {column.rows(infinite)}; expected finite numbers. Correct or empty them."
        )
    if missing == "error":
        _refuse_missing(column, column.missing)
    return numbers


def _refuse_missing(column: Column, missing: BoolArray) -> None:
    if missing.any():
        raise DataError(
            f"{column} has no value in {column.rows(missing)}. Fill in what is missing, drop the column with "
            f'drop = [{column.name!r}], or set missing = "mean".'
        )


def _refuse_one_value(column: Column, values: Sequence[str], role: str) -> None:
    if len(values) < 2:
        found = f"only the value {values[0]!r}" if values else "no value at all"
        raise DataError(
            f"{column}, named as {role}, has {found}; expected at least two different values. "
            "Choose another column, or more rows."
        )
