r"""Metrics of scores rather than of decisions: AUC of all rows and per group, and calibration per group.

An AUC gets the exact variance of DeLong, DeLong and Clarke-Pearson (1988), computed from mid-ranks in O(n log n), and
from it an interval on the logit scale, which stays inside (0, 1). It is used at every size; :func:`bootstrap_auc`
resamples rows instead, agrees with it, and costs O(n) per draw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.evaluation.intervals import (
    Estimate,
    Interval,
    Limits,
    check_level,
    gap_interval,
    interval_of_draws,
    normal_quantile,
    signed_difference,
    wilson_limits,
)
from fairsad.evaluation.rates import FloatArray, Gap, Metric, Value, count_metrics, divide, gap, load_plugins
from fairsad.groups import Groups

BoolArray = npt.NDArray[np.bool_]
ScoreFunction = Callable[[BoolArray, FloatArray, Groups], float]

EVERYONE = "all"
# A metric without a formula for its interval is resampled row by row, as long as that stays a matter of seconds.
RESAMPLED_ROWS = 100_000_000
MAX_ROW_DRAWS, MIN_ROW_DRAWS = 1000, 200


# --------------------------------------------------------------------------------------------------------------
# AUC


@dataclass(frozen=True, eq=False)
class Auc:
    """The area under the ROC curve, and what each row contributes to its sampling error.

    Attributes:
        value: P(score of a positive > score of a negative), ties counting half; NaN without both.
        num_positives: Rows with a positive label.
        num_negatives: Rows with a negative label.
        influence: float64 [n]: the sum of squares is DeLong's variance, and for two scores of the same rows the scalar
            product is DeLong's covariance.
    """

    value: float
    num_positives: int
    num_negatives: int
    influence: FloatArray

    @property
    def variance(self) -> float:
        """DeLong's variance; NaN with fewer than two positives or two negatives."""
        return float(self.influence @ self.influence)

    @property
    def reason(self) -> str:
        """Why there is no AUC, or nothing."""
        rows = self.num_positives + self.num_negatives
        if not rows:
            return "no scored rows"
        missing = "positive" if not self.num_positives else "negative" if not self.num_negatives else ""
        return f"no {missing} labels (0 of {rows} scored rows)" if missing else ""


def auc_with_influence(is_positive: BoolArray, scores: FloatArray) -> Auc:
    """AUC and DeLong's influence of each row, from one sort.

    Args:
        is_positive: bool [n].
        scores: [n], without NaN; higher means more likely positive.
    """
    num_positives = int(is_positive.sum())
    num_negatives = len(is_positive) - num_positives
    if not (num_positives and num_negatives):
        return Auc(float("nan"), num_positives, num_negatives, np.full(len(scores), np.nan))
    order = np.argsort(scores, kind="stable")  # linear on scores that are sorted already
    ranked, positive = scores[order], is_positive[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])  # first row of each distinct score
    tie_sizes = np.diff(np.r_[starts, len(ranked)])
    positives = np.add.reduceat(positive.astype(np.int64), starts)
    negatives = tie_sizes - positives
    # Share of the other class that a row beats (a positive) or loses to (a negative), per distinct score.
    beaten = (np.cumsum(negatives) - negatives / 2) / num_negatives
    lost_to = (num_positives - np.cumsum(positives) + positives / 2) / num_positives
    value = float(positives @ beaten) / num_positives
    with np.errstate(invalid="ignore", divide="ignore"):  # one positive alone has no variance: 0 / 0 = NaN
        of_positives = (beaten - value) / np.sqrt(num_positives * (num_positives - 1))
        of_negatives = (lost_to - value) / np.sqrt(num_negatives * (num_negatives - 1))
    influence = np.empty(len(scores))
    influence[order] = np.where(positive, np.repeat(of_positives, tie_sizes), np.repeat(of_negatives, tie_sizes))
    return Auc(value, num_positives, num_negatives, influence)


def auc(is_positive: BoolArray, scores: FloatArray) -> float:
    """Area under the ROC curve; NaN without positives or without negatives.

    Example:
        >>> auc(np.array([True, False, True]), np.array([0.9, 0.4, 0.4]))
        0.75
    """
    return auc_with_influence(is_positive, scores).value


def auc_limits(values: FloatArray, variances: FloatArray, z: float) -> Limits:
    """DeLong limits of AUCs on the logit scale; NaN where the classes are separated and the variance is therefore 0."""
    inside = (values > 0) & (values < 1)
    safe = np.where(inside, values, 0.5)
    logit = np.log(safe / (1 - safe))
    half = np.where(inside, z * np.sqrt(variances) / (safe * (1 - safe)), np.nan)
    return 1 / (1 + np.exp(half - logit)), 1 / (1 + np.exp(-half - logit))


def auc_estimate(result: Auc, level: float = 0.95) -> Estimate:
    """An AUC with its DeLong interval, and the reason where there is none."""
    value = Value(result.value, result.reason and f"there are {result.reason}")
    if not value.defined:
        return Estimate(value, Interval.undefined("the value is undefined", level, "DeLong, logit"))
    low, high = auc_limits(np.array([result.value]), np.array([result.variance]), normal_quantile(check_level(level)))
    if np.isnan(low[0]):
        reason = (
            "there is only one positive or one negative label"
            if min(result.num_positives, result.num_negatives) < 2
            else "the scores separate the classes without an error, so DeLong's variance is 0 and gives no interval"
        )
        return Estimate(value, Interval.undefined(reason, level, "DeLong, logit"))
    return Estimate(value, Interval(float(low[0]), float(high[0]), level, "DeLong, logit"))


def auc_by_group(is_positive: BoolArray, scores: FloatArray, groups: Groups) -> list[Auc]:
    """The AUC within each group; rows of unknown group are left out.

    The order of the rows is kept within each group, so sorted scores are sorted only once for all groups.
    """
    # Codes in few bytes are sorted by counting, which keeps this linear.
    codes = groups.codes.astype(np.int16 if len(groups) < 2**15 else np.int64)
    by_group = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[by_group], np.arange(len(groups) + 1))
    rows = [by_group[ends[group] : ends[group + 1]] for group in range(len(groups))]
    return [auc_with_influence(is_positive[part], scores[part]) for part in rows]


def auc_gap_estimate(results: list[Auc], names: tuple[str, ...], level: float = 0.95) -> Estimate:
    """Largest difference of the AUC between groups, with interval and, for two groups, the signed difference."""
    values = np.array([result.value for result in results])
    variances = np.array([result.variance for result in results])
    limits = functools.partial(auc_limits, values, variances)
    missing = [
        f"group {name} has {result.reason}" for name, result in zip(names, results, strict=True) if result.reason
    ]
    undefined = tuple(name for name, result in zip(names, results, strict=True) if result.reason)
    size = float(gap(values))
    if np.isnan(size):
        reason = f"fewer than two groups have an AUC: {'; '.join(missing)}" if missing else "there is only one group"
        value = Gap(size, reason, rate="auc", undefined=undefined)
    else:
        defined = np.flatnonzero(~np.isnan(values))
        cases = [min(result.num_positives, result.num_negatives) for result in results]
        high = min(defined, key=lambda group: (-values[group], cases[group]))
        low = min((group for group in defined if group != high), key=lambda group: (values[group], cases[group]))
        value = Gap(
            size,
            f"left out: {'; '.join(missing)}" if missing else "",
            rate="auc",
            highest=names[high],
            lowest=names[low],
            highest_cases=cases[high],
            lowest_cases=cases[low],
            undefined=undefined,
        )
    return Estimate(value, gap_interval([values], [limits], level), signed_difference(values, limits, names, level))


def bootstrap_auc(
    is_positive: BoolArray,
    scores: FloatArray,
    *,
    level: float = 0.95,
    num_draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of the AUC by resampling rows, for checking DeLong's.

    Rows with equal score and label are interchangeable, so whole cells are drawn (a multinomial); O(n) per draw.
    """
    levels, cells = np.unique(scores, return_inverse=True)
    counts = np.bincount(cells * 2 + is_positive, minlength=2 * len(levels))
    generator = np.random.default_rng(seed)
    draws = np.full(num_draws, np.nan)
    for draw in range(num_draws):
        negatives, positives = generator.multinomial(len(scores), counts / len(scores)).reshape(-1, 2).T
        pairs = float(negatives.sum()) * float(positives.sum())
        if pairs:
            draws[draw] = positives @ (np.cumsum(negatives) - negatives / 2) / pairs
    return interval_of_draws(draws, auc(is_positive, scores), level=level)


# --------------------------------------------------------------------------------------------------------------
# Calibration


@dataclass(frozen=True, eq=False)
class Calibration:
    """Reliability of scores as probabilities: score against share of positives, bin by bin.

    Attributes:
        edges: [bins + 1]; a bin excludes its lower and includes its upper edge (the first includes both).
        counts: Rows in each bin.
        mean_score: Mean score in each bin, NaN in an empty one.
        positive_share: Share of positive labels in each bin, NaN in an empty one.
        low: Lower Wilson limit of that share.
        high: Upper Wilson limit of that share.
        error: Expected calibration error: mean over rows of the absolute difference between the bin's mean score and
            its share of positives.
        expected_error: The error that perfectly calibrated scores of the same values would show by chance; an error is
            an absolute value, so it is never zero, and the smaller the group the larger.
        reason: Why there is no error.
    """

    edges: FloatArray
    counts: npt.NDArray[np.int64]
    mean_score: FloatArray
    positive_share: FloatArray
    low: FloatArray
    high: FloatArray
    error: float
    expected_error: float
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the bins that have rows."""

        def number(value: float) -> float | None:
            return None if np.isnan(value) else float(value)

        return {
            "error": number(self.error),
            "expected_error_if_calibrated": number(self.expected_error),
            "reason": self.reason,
            "bins": [
                {
                    "from": float(self.edges[i]),
                    "to": float(self.edges[i + 1]),
                    "rows": int(self.counts[i]),
                    "mean_score": float(self.mean_score[i]),
                    "positive_share": float(self.positive_share[i]),
                    "low": float(self.low[i]),
                    "high": float(self.high[i]),
                }
                for i in np.flatnonzero(self.counts)
            ],
        }


def calibration(is_positive: BoolArray, scores: FloatArray, *, num_bins: int = 10, level: float = 0.95) -> Calibration:
    r"""Reliability table and expected calibration error, sum_b (n_b / n) abs(mean score_b - share of positives_b).

    Undefined, with a reason, without rows and for scores outside [0, 1], which are no probabilities.
    """
    edges = np.linspace(0, 1, num_bins + 1)
    rows = len(scores)
    reason = "there are no scored rows" if not rows else ""
    if rows and not (scores.min() >= 0 and scores.max() <= 1):
        reason = f"scores range from {scores.min():.4g} to {scores.max():.4g}, and probabilities from 0 to 1"
    if reason:
        empty = np.full(num_bins, np.nan)
        zero = np.zeros(num_bins, dtype=np.int64)
        return Calibration(edges, zero, empty, empty, empty, empty, float("nan"), float("nan"), reason)
    bins = np.searchsorted(edges[1:-1], scores)
    counts = np.bincount(bins, minlength=num_bins)
    positives = np.bincount(bins, weights=is_positive, minlength=num_bins)
    score_sums = np.bincount(bins, weights=scores, minlength=num_bins)
    low, high = wilson_limits(positives, counts, normal_quantile(check_level(level)))
    # E|N(0, v)| = sqrt(2 v / pi), with v the variance of a bin's positives if each score were its probability.
    variances = np.bincount(bins, weights=scores * (1 - scores), minlength=num_bins)
    return Calibration(
        edges,
        counts,
        divide(score_sums, counts),
        divide(positives, counts),
        low,
        high,
        float(np.abs(score_sums - positives).sum() / rows),
        float(np.sqrt(2 * variances / np.pi).sum() / rows),
    )


# --------------------------------------------------------------------------------------------------------------
# Registry


@dataclass(frozen=True)
class ScoreMetric:
    """A function of labels, scores and groups, with what tables have to know about it.

    Attributes:
        name: Key in tables and in JSON.
        function: Function of (is_positive, scores, groups) that returns a number, or NaN where undefined.
        title: Words for a heading.
        better: ``"higher"`` or ``"lower"``.
        kind: ``"utility"`` (of all rows) or ``"gap"`` (between groups).
        estimator: Function of (is_positive, scores, groups, level) that also knows the interval and the reasons;
            without it the interval is made by resampling rows.
        symbol: Short form.
    """

    name: str
    function: ScoreFunction
    title: str
    better: Literal["higher", "lower"]
    kind: Literal["utility", "gap"]
    estimator: Callable[[BoolArray, FloatArray, Groups, float], Estimate] | None = None
    symbol: str = ""

    def estimate(
        self,
        is_positive: BoolArray,
        scores: FloatArray,
        groups: Groups,
        *,
        level: float = 0.95,
        intervals: bool = True,
        seed: int = 0,
    ) -> Estimate:
        """The value with its interval.

        Args:
            is_positive: bool [n].
            scores: [n], without NaN.
            groups: The partition of the rows; for a utility usually one group.
            level: Confidence level.
            intervals: Whether to make an interval where that means resampling.
            seed: Seed of the resampling.
        """
        if self.estimator is not None:
            return self.estimator(is_positive, scores, groups, level)
        value = float(self.function(is_positive, scores, groups))
        interval = self._resample(is_positive, scores, groups, value, level, seed) if intervals else None
        return Estimate(Value(value, "" if value == value else "it is not defined on these scores"), interval)

    def _resample(
        self, is_positive: BoolArray, scores: FloatArray, groups: Groups, value: float, level: float, seed: int
    ) -> Interval:
        rows = len(scores)
        num_draws = min(MAX_ROW_DRAWS, RESAMPLED_ROWS // max(rows, 1))
        if num_draws < MIN_ROW_DRAWS:
            return Interval.undefined(f"resampling {rows} rows {MIN_ROW_DRAWS} times would take too long", level)
        generator = np.random.default_rng(seed)
        draws = np.empty(num_draws)
        for draw in range(num_draws):
            drawn = generator.integers(0, max(rows, 1), size=rows)
            draws[draw] = self.function(is_positive[drawn], scores[drawn], Groups(groups.codes[drawn], groups.names))
        return interval_of_draws(draws, value, level=level)


_SCORE_METRICS: dict[str, ScoreMetric] = {}


def register_score_metric(
    name: str,
    *,
    better: Literal["higher", "lower"],
    kind: Literal["utility", "gap"] | None = None,
    title: str | None = None,
    symbol: str = "",
    estimator: Callable[[BoolArray, FloatArray, Groups, float], Estimate] | None = None,
) -> Callable[[ScoreFunction], ScoreMetric]:
    """Register a function of (is_positive, scores, groups) as a metric; see :class:`ScoreMetric`.

    Raises:
        DataError: If the name is taken.
    """

    def register(function: ScoreFunction) -> ScoreMetric:
        if name in _SCORE_METRICS:
            raise DataError(f"a metric called '{name}' exists already; expected a new name. Rename yours.")
        _SCORE_METRICS[name] = ScoreMetric(
            name=name,
            function=function,
            title=title or name.replace("_", " "),
            better=better,
            kind=kind or ("gap" if name.endswith("_gap") else "utility"),
            estimator=estimator,
            symbol=symbol,
        )
        return _SCORE_METRICS[name]

    return register


def score_metrics(kind: Literal["utility", "gap"] | None = None) -> tuple[ScoreMetric, ...]:
    """All metrics on scores, or those of one kind, in order of registration."""
    load_plugins()
    return tuple(metric for metric in _SCORE_METRICS.values() if kind in (None, metric.kind))


def find_metric(name: str) -> Metric | ScoreMetric:
    """The metric of that name, whether on counts or on scores.

    Raises:
        DataError: If there is none.
    """
    everything: list[Metric | ScoreMetric] = [*count_metrics(), *score_metrics()]
    known = {metric.name: metric for metric in everything}
    if name not in known:
        raise DataError(f"no metric is called '{name}'; expected one of: {', '.join(known)}. Check the name.")
    return known[name]


def _estimate_auc(is_positive: BoolArray, scores: FloatArray, groups: Groups, level: float) -> Estimate:
    return auc_estimate(auc_with_influence(is_positive, scores), level)


def _estimate_auc_gap(is_positive: BoolArray, scores: FloatArray, groups: Groups, level: float) -> Estimate:
    return auc_gap_estimate(auc_by_group(is_positive, scores, groups), groups.names, level)


def _estimate_calibration_error(is_positive: BoolArray, scores: FloatArray, groups: Groups, level: float) -> Estimate:
    table = calibration(is_positive, scores, level=level)
    reason = table.reason or (
        f"an absolute error is biased upward; perfectly calibrated scores would show {table.expected_error:.4f} here"
    )
    return Estimate(Value(table.error, table.reason), Interval.undefined(reason, level))


@register_score_metric("auc", better="higher", title="AUC", estimator=_estimate_auc)
def auc_metric(is_positive: BoolArray, scores: FloatArray, groups: Groups) -> float:
    """Area under the ROC curve of all rows."""
    return auc(is_positive, scores)


@register_score_metric("calibration_error", better="lower", estimator=_estimate_calibration_error)
def calibration_error(is_positive: BoolArray, scores: FloatArray, groups: Groups) -> float:
    """Expected calibration error of all rows, in ten bins."""
    return calibration(is_positive, scores).error


@register_score_metric("auc_gap", better="lower", title="AUC gap", estimator=_estimate_auc_gap)
def auc_gap(is_positive: BoolArray, scores: FloatArray, groups: Groups) -> float:
    """Largest difference between the AUCs within the groups."""
    return float(gap(np.array([result.value for result in auc_by_group(is_positive, scores, groups)])))
