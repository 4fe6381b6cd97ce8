r"""Counts per group, label and prediction; rates from counts; gaps from rates.

Everything here is a function of one integer array ``counts[..., group, label, prediction]``. The leading axes are
free, so ten thousand bootstrap draws are one call. A rate without cases is NaN, never 0 and never 1, and
:func:`measure` says in words why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.groups import Groups

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
# Draws may come as floats (they are sums of indicator products), so the functions accept any real counts.
CountArray = npt.NDArray[Any]
CountFunction = Callable[[CountArray, int], FloatArray]

ENTRY_POINT_GROUP = "fairsad.metrics"


@dataclass(frozen=True)
class Value:
    """A number, or NaN with the reason why there is none.

    Attributes:
        value: The number, or NaN where it is undefined.
        reason: Why it is undefined; beside a number, what had to be left out of it.
    """

    value: float
    reason: str = ""

    @property
    def defined(self) -> bool:
        """Whether there is a number."""
        return not np.isnan(self.value)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: NaN becomes null, and the reason stands beside it."""
        return {"value": float(self.value) if self.defined else None, "reason": self.reason}


@dataclass(frozen=True)
class Share(Value):
    """A rate of one group, with the counts it is the quotient of.

    Attributes:
        hits: Cases with the property.
        cases: All cases.
    """

    hits: int = 0
    cases: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the counts."""
        return super().to_dict() | {"hits": self.hits, "cases": self.cases}


@dataclass(frozen=True)
class Gap(Value):
    """The largest difference of a rate between two groups, and the groups that carry it.

    Attributes:
        rate: The rate in which the groups differ.
        highest: Group with the highest rate.
        lowest: Group with the lowest rate.
        highest_cases: Cases (the rate's denominator) of the highest group.
        lowest_cases: Cases of the lowest group.
        undefined: Groups in which the rate has no cases, and which the gap therefore says nothing about.
    """

    rate: str = ""
    highest: str = ""
    lowest: str = ""
    highest_cases: int = 0
    lowest_cases: int = 0
    undefined: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the groups that carry the gap."""
        return super().to_dict() | {
            "rate": self.rate,
            "highest": {"group": self.highest, "cases": self.highest_cases} if self.highest else None,
            "lowest": {"group": self.lowest, "cases": self.lowest_cases} if self.lowest else None,
            "undefined_groups": list(self.undefined),
        }


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """How often each prediction met each label in each group, and what could not be counted.

    A row that cannot be counted is booked once, under the first that applies: unknown label, unknown prediction,
    unknown group.

    Attributes:
        counts: int64 [groups, classes (label), classes (prediction)].
        group_names: One name per group.
        class_names: One name per class.
        unknown_label: Rows left out because the label is unknown.
        unknown_prediction: Rows left out because there is no prediction.
        unknown_group: Rows left out because the sensitive value is unknown.
    """

    counts: IntArray
    group_names: tuple[str, ...]
    class_names: tuple[str, ...]
    unknown_label: int = 0
    unknown_prediction: int = 0
    unknown_group: int = 0

    def __post_init__(self) -> None:
        expected = (len(self.group_names), len(self.class_names), len(self.class_names))
        if self.counts.shape != expected:
            raise DataError(
                f"counts have shape {self.counts.shape}; expected {expected} for {expected[0]} groups and "
                f"{expected[1]} classes. Pass one name per group and per class."
            )

    @classmethod
    def from_codes(
        cls,
        labels: npt.ArrayLike,
        predictions: npt.ArrayLike,
        groups: Groups | None = None,
        class_names: Sequence[str] | None = None,
    ) -> GroupCounts:
        """Count integer codes; -1 means unknown.

        Args:
            labels: Integer codes [n].
            predictions: Integer codes [n].
            groups: The partition of the rows; None counts all rows as one group called ``all``.
            class_names: One name per class (default: the codes themselves, at least ``0`` and ``1``).

        Raises:
            DataError: If the lengths differ, or a code has no name.
        """
        label_codes, prediction_codes = as_codes(labels, "labels"), as_codes(predictions, "predictions")
        groups = groups or Groups(np.zeros(len(label_codes), dtype=np.int64), ("all",))
        for name, column in (("predictions", prediction_codes), ("groups", groups.codes)):
            if len(column) != len(label_codes):
                raise DataError(
                    f"{name} have {len(column)} rows and labels have {len(label_codes)}; expected one row per node "
                    "in the same order. Pass columns of one table."
                )
        highest = max(label_codes.max(initial=-1), prediction_codes.max(initial=-1))
        names = tuple(class_names) if class_names is not None else tuple(map(str, range(max(2, highest + 1))))
        if highest >= len(names):
            raise DataError(
                f"class code {highest} found, but there are names for {len(names)} classes only: {', '.join(names)}. "
                "Pass one name per class."
            )
        if groups.codes.max(initial=-1) >= len(groups):
            raise DataError(
                f"group code {groups.codes.max()} found, but there are names for {len(groups)} groups only. "
                "Pass one name per group."
            )
        known_label = label_codes >= 0
        known_pair = known_label & (prediction_codes >= 0)
        known = known_pair & (groups.codes >= 0)
        num_classes, num_groups = len(names), len(groups)
        cells = (groups.codes * num_classes + label_codes) * num_classes + prediction_codes
        counts = np.bincount(cells[known], minlength=num_groups * num_classes**2).astype(np.int64)
        return cls(
            counts.reshape(num_groups, num_classes, num_classes),
            groups.names,
            names,
            unknown_label=int((~known_label).sum()),
            unknown_prediction=int((known_label & ~known_pair).sum()),
            unknown_group=int((known_pair & ~known).sum()),
        )

    @property
    def num_rows(self) -> int:
        """Rows that are counted."""
        return int(self.counts.sum())

    @property
    def coverage(self) -> float:
        """Share of all rows that are counted; NaN without rows."""
        left_out = self.unknown_label + self.unknown_prediction + self.unknown_group
        return _share(self.num_rows, self.num_rows + left_out)

    @property
    def group_coverage(self) -> float:
        """Share of the rows with label and prediction whose group is known; NaN without rows."""
        return _share(self.num_rows, self.num_rows + self.unknown_group)

    @property
    def label_counts(self) -> IntArray:
        """Rows per group and label, int64 [groups, classes]."""
        counts: IntArray = self.counts.sum(axis=2)
        return counts

    @property
    def prediction_counts(self) -> IntArray:
        """Rows per group and prediction, int64 [groups, classes]."""
        counts: IntArray = self.counts.sum(axis=1)
        return counts

    def pooled(self) -> GroupCounts:
        """All groups together, as one group called ``all``."""
        return replace(self, counts=self.counts.sum(axis=0, keepdims=True), group_names=("all",))

    def only(self, group: int) -> GroupCounts:
        """One group alone."""
        return replace(self, counts=self.counts[group : group + 1], group_names=self.group_names[group : group + 1])

    def constant(self, prediction: int) -> GroupCounts:
        """The same rows under a predictor that always answers ``prediction``."""
        counts = np.zeros_like(self.counts)
        counts[:, :, prediction] = self.label_counts
        return replace(self, counts=counts)


def as_codes(values: npt.ArrayLike, name: str) -> IntArray:
    """Integer codes of one column, or an error that says what was found instead.

    Raises:
        DataError: If the values are not one column of integers (or booleans).
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise DataError(
            f"{name} are an array of {array.dtype} with shape {array.shape}; expected one column of integer codes, "
            "-1 for unknown. Use fairsad.audit for tables with strings, floats or missing values."
        )
    return array.astype(np.int64)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


# --------------------------------------------------------------------------------------------------------------
# Rates


def divide(numerator: CountArray, denominator: CountArray) -> FloatArray:
    """Quotient with 0 / 0 = NaN; a numerator here never exceeds its denominator."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.true_divide(numerator, denominator), dtype=np.float64)


@dataclass(frozen=True)
class Rate:
    """A share of cases in each group, for one class against the rest.

    Attributes:
        name: Name in tables.
        cases: What the denominator counts, in words; ``{positive}`` and ``{negative}`` stand for class and rest.
        parts: Function of (counts, positive) that returns numerator and denominator, each [..., groups].
        per_class: Whether the rate depends on which class is the positive one.
    """

    name: str
    cases: str
    parts: Callable[[CountArray, int], tuple[CountArray, CountArray]]
    per_class: bool = True

    def __call__(self, counts: CountArray, positive: int = 1) -> FloatArray:
        """The rate of each group, [..., groups]; NaN where a group has no cases."""
        return divide(*self.parts(counts, positive))

    def cases_in_words(self, class_names: Sequence[str], positive: int) -> str:
        """What the denominator counts, with the classes' names when there are more than two."""
        if len(class_names) == 2:
            return self.cases.format(positive="positive", negative="negative")
        name = class_names[positive]
        return self.cases.format(positive=f"'{name}'", negative=f"non-'{name}'")


RATES: dict[str, Rate] = {}


def rate(
    name: str, *, cases: str, per_class: bool = True
) -> Callable[[Callable[[CountArray, int], tuple[CountArray, CountArray]]], Rate]:
    """Register a function that returns numerator and denominator as a rate."""

    def register(parts: Callable[[CountArray, int], tuple[CountArray, CountArray]]) -> Rate:
        if name in RATES:
            raise DataError(f"a rate called '{name}' exists already; expected a new name. Rename yours.")
        RATES[name] = Rate(name, cases, parts, per_class)
        return RATES[name]

    return register


@rate("accuracy", cases="rows", per_class=False)
def accuracy_rate(counts: CountArray, positive: int) -> tuple[CountArray, CountArray]:
    """P(prediction = label) in each group."""
    return np.trace(counts, axis1=-2, axis2=-1), counts.sum(axis=(-2, -1))


@rate("selection_rate", cases="rows")
def selection_rate(counts: CountArray, positive: int) -> tuple[CountArray, CountArray]:
    """P(prediction = positive)."""
    return counts[..., positive].sum(axis=-1), counts.sum(axis=(-2, -1))


@rate("true_positive_rate", cases="{positive} labels")
def true_positive_rate(counts: CountArray, positive: int) -> tuple[CountArray, CountArray]:
    """P(prediction = positive | label = positive)."""
    return counts[..., positive, positive], counts[..., positive, :].sum(axis=-1)


@rate("false_positive_rate", cases="{negative} labels")
def false_positive_rate(counts: CountArray, positive: int) -> tuple[CountArray, CountArray]:
    """P(prediction = positive | label = negative)."""
    hits, cases = true_positive_rate.parts(counts, positive)
    return counts[..., positive].sum(axis=-1) - hits, counts.sum(axis=(-2, -1)) - cases


@rate("precision", cases="{positive} predictions")
def precision(counts: CountArray, positive: int) -> tuple[CountArray, CountArray]:
    """P(label = positive | prediction = positive)."""
    return counts[..., positive, positive], counts[..., positive].sum(axis=-1)


def gap(rates: FloatArray) -> FloatArray:
    """Largest minus smallest over the last axis, leaving NaN out; NaN unless two entries are defined."""
    undefined = np.isnan(rates)
    highest = np.where(undefined, -np.inf, rates).max(axis=-1, initial=-np.inf)
    lowest = np.where(undefined, np.inf, rates).min(axis=-1, initial=np.inf)
    enough = (~undefined).sum(axis=-1) >= 2
    return np.where(enough, np.where(enough, highest, 0.0) - np.where(enough, lowest, 0.0), np.nan)


def mean_of_defined(values: FloatArray) -> FloatArray:
    """Mean over the last axis of the entries that are defined; NaN if none is."""
    defined = ~np.isnan(values)
    return divide(np.where(defined, values, 0.0).sum(axis=-1), defined.sum(axis=-1))


# --------------------------------------------------------------------------------------------------------------
# Metrics and their registry


@dataclass(frozen=True)
class Metric:
    """A function of counts, with what tables, intervals and selection rules have to know about it.

    Attributes:
        name: Key in tables and in JSON.
        function: Function of (counts [..., groups, classes, classes], positive) that returns [...].
        title: Words for a heading.
        better: ``"higher"`` or ``"lower"``.
        kind: ``"utility"`` (of all rows, whatever their group) or ``"gap"`` (between groups).
        symbol: Short form, such as the paper's ΔDP.
        rates: For a gap that is the largest difference between two groups in any of these rates, their names; for a
            utility that is one rate of all rows, its name. They give it a closed-form interval and its reasons; any
            other function leaves them out and is bootstrapped.
        per_class: Whether the value depends on which class is the positive one.
        undefined: When it is undefined, in words.
    """

    name: str
    function: CountFunction
    title: str
    better: Literal["higher", "lower"]
    kind: Literal["utility", "gap"]
    symbol: str = ""
    rates: tuple[str, ...] = ()
    per_class: bool = True
    undefined: str = "it is not defined on these counts"

    def __call__(self, counts: CountArray, positive: int | None = None) -> FloatArray:
        """The metric of each leading index; ``positive=None`` is the mean over the classes, each against the rest."""
        counts = np.asarray(counts)
        if positive is not None or not self.per_class:
            return self.function(counts, positive or 0)
        each = [self.function(counts, label) for label in range(counts.shape[-1])]
        return mean_of_defined(np.stack(each, axis=-1))


_METRICS: dict[str, Metric] = {}


def register_metric(
    name: str,
    *,
    better: Literal["higher", "lower"],
    kind: Literal["utility", "gap"] | None = None,
    title: str | None = None,
    symbol: str = "",
    rates: Sequence[str] = (),
    per_class: bool = True,
    undefined: str = Metric.undefined,
) -> Callable[[CountFunction], Metric]:
    """Register a function of counts as a metric; a report, an interval and the command line pick it up by its name.

    Other packages do the same in a module that they name in the entry-point group ``fairsad.metrics``.

    Args:
        name: Its key.
        better: Which direction is better.
        kind: ``"utility"`` or ``"gap"`` (default: a gap if the name ends in ``_gap``).
        title: Words for a heading (default: the name with spaces).
        symbol: Short form.
        rates: See :class:`Metric`.
        per_class: Whether the value depends on the positive class.
        undefined: When it is undefined, in words.

    Raises:
        DataError: If the name is taken.

    Example:
        >>> @register_metric("error_rate", better="lower", per_class=False)
        ... def error_rate(counts, positive):
        ...     return 1 - _METRICS["accuracy"](counts)
        >>> float(error_rate(np.array([[[3, 1], [0, 4]]])))
        0.125
        >>> _ = _METRICS.pop("error_rate")
    """

    def register(function: CountFunction) -> Metric:
        if name in _METRICS:
            raise DataError(f"a metric called '{name}' exists already; expected a new name. Rename yours.")
        _METRICS[name] = Metric(
            name=name,
            function=function,
            title=title or name.replace("_", " "),
            better=better,
            kind=kind or ("gap" if name.endswith("_gap") else "utility"),
            symbol=symbol,
            rates=tuple(rates),
            per_class=per_class,
            undefined=undefined,
        )
        return _METRICS[name]

    return register


@functools.cache
def load_plugins() -> None:
    """Import the modules that other packages name in the entry-point group ``fairsad.metrics``, once.

    Raises:
        DataError: If one of them cannot be imported.
    """
    from importlib.metadata import entry_points  # a tenth of the import time of this package, and rarely needed

    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            entry_point.load()
        except Exception as error:
            raise DataError(
                f"the metrics plug-in '{entry_point.name}' ({entry_point.value}) failed to load: {error}; expected a "
                "module that registers metrics. Repair or uninstall the package that provides it."
            ) from error


def count_metrics(kind: Literal["utility", "gap"] | None = None) -> tuple[Metric, ...]:
    """All metrics on counts, or those of one kind, in order of registration."""
    load_plugins()
    return tuple(metric for metric in _METRICS.values() if kind in (None, metric.kind))


def get_metric(name: str) -> Metric:
    """The metric on counts of that name.

    Raises:
        DataError: If there is none.
    """
    load_plugins()
    if name not in _METRICS:
        raise DataError(
            f"no metric on counts is called '{name}'; expected one of: {', '.join(_METRICS)}. Check the name."
        )
    return _METRICS[name]


@register_metric("accuracy", better="higher", rates=("accuracy",), per_class=False, undefined="there are no rows")
def accuracy(counts: CountArray, positive: int) -> FloatArray:
    """Share of all rows with prediction = label."""
    pooled: FloatArray = accuracy_rate(counts.sum(axis=-3, keepdims=True))[..., 0]
    return pooled


@register_metric("balanced_accuracy", better="higher", per_class=False, undefined="a class has no labels")
def balanced_accuracy(counts: CountArray, positive: int) -> FloatArray:
    """Mean over the classes of P(prediction = class | label = class).

    Undefined as soon as one class has no labels: the mean over the other classes would be another quantity (for two
    classes, the true positive or the true negative rate under a name that promises both).
    """
    pooled = counts.sum(axis=-3)
    recalls = divide(np.diagonal(pooled, axis1=-2, axis2=-1), pooled.sum(axis=-1))
    return np.asarray(recalls.mean(axis=-1))


@register_metric("f1", better="higher", title="F1", undefined="nothing is positive, neither by label nor by prediction")
def f1(counts: CountArray, positive: int) -> FloatArray:
    r"""Harmonic mean of precision and recall of the positive class, 2 TP / (2 TP + FP + FN)."""
    pooled = counts.sum(axis=-3)
    hits = pooled[..., positive, positive]
    return divide(2 * hits, pooled[..., positive, :].sum(axis=-1) + pooled[..., positive].sum(axis=-1))


@register_metric("demographic_parity_gap", better="lower", symbol="ΔDP", rates=("selection_rate",))
def demographic_parity_gap(counts: CountArray, positive: int) -> FloatArray:
    r"""Largest difference of P(prediction = positive) between groups; the paper's ΔDP for two groups."""
    return gap(selection_rate(counts, positive))


@register_metric("equal_opportunity_gap", better="lower", symbol="ΔEO", rates=("true_positive_rate",))
def equal_opportunity_gap(counts: CountArray, positive: int) -> FloatArray:
    r"""Largest difference of the true positive rate between groups; the paper's ΔEO for two groups."""
    return gap(true_positive_rate(counts, positive))


@register_metric("equalised_odds_gap", better="lower", rates=("true_positive_rate", "false_positive_rate"))
def equalised_odds_gap(counts: CountArray, positive: int) -> FloatArray:
    """The larger of the gaps in true and in false positive rate; undefined if either is."""
    return np.maximum(gap(true_positive_rate(counts, positive)), gap(false_positive_rate(counts, positive)))


@register_metric("predictive_parity_gap", better="lower", rates=("precision",))
def predictive_parity_gap(counts: CountArray, positive: int) -> FloatArray:
    """Largest difference of the precision between groups."""
    return gap(precision(counts, positive))


@register_metric("accuracy_gap", better="lower", rates=("accuracy",), per_class=False)
def accuracy_gap(counts: CountArray, positive: int) -> FloatArray:
    """Largest difference of the accuracy between groups."""
    return gap(accuracy_rate(counts, positive))


# --------------------------------------------------------------------------------------------------------------
# Values with their reasons


def resolve_positive(positive: int | None, class_names: Sequence[str]) -> int | None:
    """The class the rates are about: the given one, class 1 of two, or None (all in turn, and their mean).

    Raises:
        DataError: If there is no such class.
    """
    if positive is None:
        return 1 if len(class_names) == 2 else None
    if not 0 <= positive < len(class_names):
        raise DataError(
            f"positive class {positive} does not exist; expected 0 to {len(class_names) - 1} "
            f"({', '.join(class_names)}). Pass the code of one of them."
        )
    return positive


def measure_rate(rate: Rate, counts: GroupCounts, group: int, positive: int) -> Share:
    """The rate of one group, with its counts, and the reason where it has no cases."""
    hits, cases = (int(part[group]) for part in rate.parts(counts.counts, positive))
    if not cases:
        return Share(float("nan"), undefined_rate(rate, counts, group, positive))
    return Share(hits / cases, hits=hits, cases=cases)


def undefined_rate(rate: Rate, counts: GroupCounts, group: int, positive: int) -> str:
    """Why a group has no such rate, in words with the counts."""
    rows = int(counts.counts[group].sum())
    who = f"group {counts.group_names[group]} has" if counts.group_names != ("all",) else "there are"
    if not rows:
        return f"{who} no rows"
    return f"{who} no {rate.cases_in_words(counts.class_names, positive)} (0 of {rows} rows)"


def measure(metric: Metric | str, counts: GroupCounts, positive: int | None = None) -> Value:
    """The metric on these counts, with its reason where it is undefined.

    Args:
        metric: A metric or its name.
        counts: The counts.
        positive: The positive class (default: class 1 of two; of more, the mean over the classes where it is defined).

    Returns:
        A :class:`Gap` for a difference of rates, otherwise a :class:`Value`.
    """
    metric = get_metric(metric) if isinstance(metric, str) else metric
    positive = resolve_positive(positive, counts.class_names)
    if positive is None and metric.per_class:
        each = [measure(metric, counts, label) for label in range(len(counts.class_names))]
        return mean_value(each, counts.class_names)
    if metric.kind == "gap" and metric.rates:
        return _measure_gap(metric, counts, positive or 0)
    value = float(metric(counts.counts, positive))
    return Value(value) if not np.isnan(value) else Value(value, f"{metric.undefined} ({_in_words(counts)})")


def mean_value(each: Sequence[Value], names: Sequence[str]) -> Value:
    """Mean of the values that are defined, which names the others."""
    value = float(mean_of_defined(np.array([item.value for item in each])))
    missing = [f"class '{name}': {item.reason}" for name, item in zip(names, each, strict=True) if not item.defined]
    return Value(value, "; ".join(missing))


def _measure_gap(metric: Metric, counts: GroupCounts, positive: int) -> Gap:
    reasons: dict[str, None] = {}  # an ordered set: a group without rows is named once, not once per rate
    undefined: dict[str, None] = {}
    widest = Gap(float("nan"))
    short_of_groups = ""
    for name in metric.rates:
        rate = RATES[name]
        cases = rate.parts(counts.counts, positive)[1]
        values = rate(counts.counts, positive)
        defined = np.flatnonzero(~np.isnan(values))
        for group in np.flatnonzero(np.isnan(values)):
            undefined[counts.group_names[group]] = None
            reasons[undefined_rate(rate, counts, int(group), positive)] = None
        if len(defined) < 2:
            short_of_groups = short_of_groups or f"fewer than two groups have a {name.replace('_', ' ')}"
            continue
        # Of groups with equal rates the one with the fewest cases carries the gap; no group carries it alone.
        high = min(defined, key=lambda group: (-values[group], cases[group]))
        low = min((group for group in defined if group != high), key=lambda group: (values[group], cases[group]))
        size = float(values[high] - values[low])
        if not widest.defined or size > widest.value:
            widest = Gap(
                size,
                rate=name,
                highest=counts.group_names[high],
                lowest=counts.group_names[low],
                highest_cases=int(cases[high]),
                lowest_cases=int(cases[low]),
            )
    if short_of_groups:
        reason = ": ".join(filter(None, (short_of_groups, "; ".join(reasons))))
        return Gap(float("nan"), reason, undefined=tuple(undefined))
    left_out = f"left out: {'; '.join(reasons)}" if reasons else ""
    return replace(widest, reason=left_out, undefined=tuple(undefined))


def _in_words(counts: GroupCounts) -> str:
    def listed(numbers: IntArray) -> str:
        return ", ".join(f"{name}: {number}" for name, number in zip(counts.class_names, numbers, strict=True))

    return (
        f"labels {listed(counts.label_counts.sum(axis=0))}; predictions {listed(counts.prediction_counts.sum(axis=0))}"
    )


@dataclass(frozen=True)
class ConstantBaseline:
    """What always giving the same answer would score on the same rows.

    Attributes:
        prediction: The answer: the most frequent label.
        share: Its share of the labels, and therefore the accuracy.
        values: The metrics on counts of that predictor; gaps only where there are groups to compare.
    """

    prediction: str
    share: float
    values: dict[str, Value]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "prediction": self.prediction,
            "share": None if np.isnan(self.share) else self.share,
            "values": {name: value.to_dict() for name, value in self.values.items()},
        }


def constant_baseline(
    counts: GroupCounts, positive: int | None = None, *, prediction: int | None = None
) -> ConstantBaseline:
    """Measure the predictor that always gives the most frequent label (or ``prediction``).

    Example:
        >>> counts = GroupCounts(np.array([[[1, 2], [0, 7]]]), ("all",), ("bad", "good"))
        >>> baseline = constant_baseline(counts)
        >>> baseline.prediction, round(baseline.values["f1"].value, 3)
        ('good', 0.824)
    """
    labels = counts.label_counts.sum(axis=0)
    answer = int(np.argmax(labels)) if prediction is None else prediction
    constant = counts.constant(answer)
    metrics = count_metrics("utility") if len(counts.group_names) == 1 else count_metrics()
    return ConstantBaseline(
        counts.class_names[answer],
        _share(float(labels[answer]), float(labels.sum())),
        {metric.name: measure(metric, constant, positive) for metric in metrics},
    )
