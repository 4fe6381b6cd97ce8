"""The graph card: a TOML file that says what the columns of a user's own tables mean."""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from fairsad.errors import DataError


@dataclass(frozen=True)
class Similarity:
    """Links made from features: each node is linked to those nearly as similar to it as its nearest one.

    Attributes:
        threshold: Share, between 0 and 1, of the similarity of a node's nearest node that a link needs.
        columns: Which feature columns are compared; all where left out.
    """

    threshold: float
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not _is_number(self.threshold):
            raise DataError(f"similarity threshold = {self.threshold!r} is not a number; expected one such as 0.8.")
        if not 0 < self.threshold < 1:
            raise DataError(
                f"similarity threshold = {self.threshold!r} is outside (0, 1); expected a share such as 0.8. "
                "A higher one makes fewer links."
            )
        if self.columns is not None and not self.columns:
            raise DataError("similarity columns is empty; name at least one column, or leave the key out for all.")


@dataclass(frozen=True)
class SplitRule:
    """Which nodes train, validate and test: shares drawn within each class, or a column that says so.

    Attributes:
        train: Share of the labelled nodes that train.
        val: Share that validates; the rest tests.
        seed: Names the draw.
        column: A column with ``train``, ``val`` or ``test`` in each row, or nothing for none of them; takes the
            place of the draw.
    """

    train: float = 0.5
    val: float = 0.25
    seed: int = 20
    column: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise DataError(f"split seed = {self.seed!r}; expected a whole number, such as 20.")


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a node table and an edge table mean; every other column of the node table is a feature.

    Attributes:
        label: The column to predict; a row without a value is unlabelled.
        sensitive: The sensitive attributes; a row without a value is of unknown group.
        id: The column that edges refer to; not needed where links are made by similarity.
        positive: Which of two labels is class 1; the last in sorted order where left out.
        drop: Columns that are no features.
        categorical: Columns whose numbers are names, such as postcodes.
        bins: Where to cut a numeric sensitive attribute into groups: ``{"age": (25, 60)}`` makes under 25,
            25 to under 60, 60 and over.
        sensitive_in_features: Whether a method also sees the sensitive attributes as input.
        missing: ``"error"``, or ``"mean"`` to fill missing numbers by the mean of the training nodes and to
            give missing words no category.
        edge_columns: The two columns of the edge table; its first two where left out.
        similarity: Makes links where there is no edge table.
        split: Which nodes train, validate and test.
    """

    label: str | None = None
    sensitive: tuple[str, ...] = ()
    id: str | None = None
    positive: str | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    sensitive_in_features: bool = False
    missing: Literal["error", "mean"] = "error"
    edge_columns: tuple[str, str] | None = None
    similarity: Similarity | None = None
    split: SplitRule = field(default_factory=SplitRule)

    def __post_init__(self) -> None:
        if self.missing not in ("error", "mean"):
            raise DataError(f"missing = {self.missing!r}; expected 'error' or 'mean'.")
        if self.positive is not None and self.label is None:
            raise DataError(f"positive = {self.positive!r} has no meaning without a label; name the label column.")
        if self.edge_columns is not None and self.edge_columns[0] == self.edge_columns[1]:
            raise DataError(f"edge_columns names {self.edge_columns[0]!r} twice; expected the columns of the two ends.")
        self._check_one_role_each()
        self._check_bins()

    def _check_one_role_each(self) -> None:
        compared = self.similarity.columns if self.similarity and self.similarity.columns else ()
        roles: list[tuple[str, Sequence[str]]] = [
            ("id", (self.id,) if self.id is not None else ()),
            ("label", (self.label,) if self.label is not None else ()),
            ("split column", (self.split.column,) if self.split.column is not None else ()),
            ("drop", self.drop),
            ("sensitive", self.sensitive),
            ("a feature (categorical)", self.categorical),
            ("a feature (similarity columns)", compared),
        ]
        # Numbers that are names may well be sensitive, and a sensitive attribute may be a feature.
        allowed = {("sensitive", roles[5][0]), ("sensitive", roles[6][0]), (roles[5][0], roles[6][0])}
        for position, (role, columns) in enumerate(roles):
            repeated = next((column for column in columns if list(columns).count(column) > 1), None)
            if repeated is not None:
                raise DataError(f"column {repeated!r} is named twice as {role}; name it once.")
            for other, others in roles[position + 1 :]:
                shared = next((column for column in columns if column in others), None)
                if shared is not None and (role, other) not in allowed:
                    raise DataError(f"column {shared!r} is both {role} and {other}; a column has one role. Choose one.")

    def _check_bins(self) -> None:
        for column, cuts in self.bins.items():
            if column not in self.sensitive:
                raise DataError(
                    f"bins names {column!r}, which is not a sensitive attribute; "
                    f"sensitive is [{', '.join(self.sensitive)}]."
                )
            whole = bool(cuts) and all(_is_number(cut) for cut in cuts)
            if not whole or any(high <= low for low, high in pairwise(cuts)):
                raise DataError(f"bins {column} = {list(cuts)!r}; expected numbers in rising order, such as [25, 60].")


@dataclass(frozen=True)
class GraphCard:
    """A card as read: where the tables are, and what their columns mean."""

    path: Path
    name: str
    nodes: Path
    edges: Path | None
    separator: str
    decimal: str
    roles: ColumnRoles


def read_card(path: str | os.PathLike[str]) -> GraphCard:
    """Read and check a graph card; file names in it are relative to the card.

    Raises:
        DataError: The card is missing or not TOML, or one of its entries is not understood.
    """
    card = Path(path)
    try:
        content = tomllib.loads(card.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DataError(f"no graph card at {card}. Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{card} cannot be read ({error}); expected a graph card, a TOML text file.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(
            f"{card.name} is not valid TOML: {error}. Values need quotes around text, "
            'such as id = "person_id", and brackets around lists.'
        ) from None
    try:
        return _card(card, content)
    except DataError as error:
        raise DataError([f"{card.name}: {defect}" for defect in error.defects]) from None


_TABLE_KEYS = ("name", "nodes", "edges", "separator", "decimal")
_ROLE_KEYS = tuple(part.name for part in fields(ColumnRoles))


def _card(path: Path, content: dict[str, Any]) -> GraphCard:
    check_keys(content, (*_TABLE_KEYS, *_ROLE_KEYS), "the card")
    nodes, edges = _text(content, "nodes"), _text(content, "edges")
    if nodes is None:
        raise DataError('the card has no entry nodes; expected the node table, such as nodes = "people.csv".')
    if edges is not None and "similarity" in content:
        raise DataError("the card has both edges and [similarity]; links come from one of them. Remove the other.")
    if edges is None and "similarity" not in content:
        raise DataError(
            'the card says nothing about links; expected edges = "links.csv", '
            "or a table [similarity] with threshold = 0.8 to make them from the features."
        )
    if edges is not None and "id" not in content:
        raise DataError('the card has edges but no id; expected the column they refer to, such as id = "person_id".')
    separator = _text(content, "separator") or ","
    if len(separator) != 1:
        raise DataError(f'separator = {separator!r}; expected one character, such as ";" or "\\t".')
    decimal = _text(content, "decimal") or "."
    if decimal not in (".", ",") or decimal == separator:
        raise DataError(
            f'decimal = {decimal!r} with separator = {separator!r}; expected "." or ",", and another separator.'
        )
    return GraphCard(
        path=path,
        name=_text(content, "name") or path.stem,
        nodes=path.parent / nodes,
        edges=None if edges is None else path.parent / edges,
        separator=separator,
        decimal=decimal,
        roles=_roles(content),
    )


def _roles(content: dict[str, Any]) -> ColumnRoles:
    pair = _texts(content, "edge_columns")
    if pair and len(pair) != 2:
        raise DataError(f'edge_columns = {list(pair)}; expected two column names, such as ["from", "to"].')
    inside = content.get("sensitive_in_features", False)
    if not isinstance(inside, bool):
        raise DataError(f"sensitive_in_features = {inside!r}; expected true or false.")
    return ColumnRoles(
        label=_text(content, "label"),
        sensitive=_texts(content, "sensitive"),
        id=_text(content, "id"),
        positive=_value_name(content.get("positive")),
        drop=_texts(content, "drop"),
        categorical=_texts(content, "categorical"),
        bins={
            column: tuple(cuts) if isinstance(cuts, list) else (cuts,)
            for column, cuts in _section(content, "bins").items()
        },
        sensitive_in_features=inside,
        missing=content.get("missing", "error"),
        edge_columns=(pair[0], pair[1]) if pair else None,
        similarity=_similarity(content),
        split=_split(_section(content, "split")),
    )


def _similarity(content: dict[str, Any]) -> Similarity | None:
    if "similarity" not in content:
        return None
    section = _section(content, "similarity")
    check_keys(section, ("threshold", "columns"), "[similarity]")
    if "threshold" not in section:
        raise DataError("[similarity] has no threshold; expected a share between 0 and 1, such as threshold = 0.8.")
    return Similarity(section["threshold"], _texts(section, "columns") if "columns" in section else None)


def _split(section: dict[str, Any]) -> SplitRule:
    check_keys(section, [part.name for part in fields(SplitRule)], "[split]")
    column = _text(section, "column")
    if column is not None and len(section) > 1:
        raise DataError(
            f"[split] has column = {column!r} and also {', '.join(key for key in section if key != 'column')}; "
            "the column already says which nodes train. Keep one of the two."
        )
    return SplitRule(**section)


def check_keys(given: Iterable[str], known: Sequence[str], where: str) -> None:
    """Refuse a name that is not known, and suggest the one that was probably meant.

    Raises:
        DataError: The first unknown name.
    """
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}."
            raise DataError(f"unknown entry {key!r} in {where}; {hint}")


def _section(content: dict[str, Any], key: str) -> dict[str, Any]:
    section = content.get(key, {})
    if not isinstance(section, dict):
        raise DataError(f"{key} = {section!r}; expected a table, a line [{key}] with its entries below.")
    return section


def _text(content: dict[str, Any], key: str) -> str | None:
    value = content.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise DataError(f'{key} = {value!r}; expected a name in quotes, such as {key} = "{_EXAMPLES.get(key, key)}".')
    return value


def _texts(content: dict[str, Any], key: str) -> tuple[str, ...]:
    value = content.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise DataError(f'{key} = {value!r}; expected a list of column names, such as {key} = ["gender"].')
    return tuple(values)


def _value_name(value: Any) -> str | None:
    """A value as tables spell it: TOML's ``true`` and ``1`` are the words of the column's values."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_EXAMPLES = {
    "nodes": "people.csv",
    "edges": "links.csv",
    "id": "person_id",
    "separator": ";",
    "decimal": ",",
    "column": "split",
}
