r"""Intervals: how far a number could be off because these rows, and not others of the same kind, were tested.

Three kinds, each where it covers what it promises (``benchmarks/interval_coverage.md`` has the measurements):

* **A rate**, of one group or (the accuracy) of all rows, is a binomial share: Wilson's interval, which has a width
  even at 10 of 10, where every resample gives 1.
* **A gap** is a maximum of differences, cannot be negative, and is biased upward. The percentiles of its bootstrap
  never reach zero, and with a small group near 0 or 1 even those of the signed difference cover 80 % in place of
  95 %. So a gap gets the signed differences of its rates with Newcombe's square-and-add limits around Wilson's
  intervals, and from them the interval of the largest one (:func:`gap_interval`).
* **Any other function of counts** is bootstrapped. Drawing rows with replacement and counting them gives a
  multinomial draw over the cells group × label × prediction, so the counts are drawn directly
  (:func:`draw_counts`): the same distribution, at a cost that does not depend on the number of rows.

By default a draw is over all cells, as new rows from the same population would be, so the group sizes vary too.
``stratified=True`` keeps each group's size, which is right when the groups were sampled separately, and cannot lose
a small group. A draw in which a value is undefined is counted and left out; with more than 5 % of such draws there is
no interval, and neither is there one if all draws are equal, which shows a lack of data and not of doubt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.evaluation.rates import (
    RATES,
    CountArray,
    FloatArray,
    GroupCounts,
    Metric,
    Value,
    divide,
    get_metric,
    mean_value,
    measure,
    resolve_positive,
)

MAX_UNDEFINED_DRAWS = 0.05
# Draws are made in blocks of at most this many cells: 32 MB of counts at a time.
CELLS_PER_BLOCK = 4_000_000

# Resolution of the unified interval, in standard errors.
_GRID_STEP = 0.01

Method = Literal["percentile", "basic", "bca", "envelope"]
Limits = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Interval:
    """A confidence interval, or NaN ends with the reason why there is none.

    Attributes:
        low: Lower end.
        high: Upper end.
        level: The share of data sets in which such an interval covers the true value.
        method: How it was made.
        num_draws: Bootstrap draws behind it; 0 for a formula.
        undefined_draws: Draws that had to be left out because the value was undefined in them.
        reason: Why there is no interval.
    """

    low: float
    high: float
    level: float = 0.95
    method: str = "percentile"
    num_draws: int = 0
    undefined_draws: int = 0
    reason: str = ""

    @classmethod
    def undefined(cls, reason: str, level: float, method: str = "") -> Interval:
        """No interval, and why."""
        return cls(float("nan"), float("nan"), level, method, reason=reason)

    @property
    def defined(self) -> bool:
        """Whether there is an interval."""
        return not (np.isnan(self.low) or np.isnan(self.high))

    def contains(self, value: float) -> bool:
        """Whether the value lies in the interval, ends included; never in an undefined one."""
        return bool(self.low <= value <= self.high)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: NaN becomes null."""
        return {
            "low": float(self.low) if self.defined else None,
            "high": float(self.high) if self.defined else None,
            "level": self.level,
            "method": self.method,
            "num_draws": self.num_draws,
            "undefined_draws": self.undefined_draws,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Difference:
    """The signed difference ``minuend - subtrahend`` behind a gap between two groups.

    Attributes:
        minuend: Name of the group from which is subtracted.
        subtrahend: Name of the group that is subtracted.
        value: The difference.
        interval: Its interval, which may contain zero.
    """

    minuend: str
    subtrahend: str
    value: float
    interval: Interval

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "minuend": self.minuend,
            "subtrahend": self.subtrahend,
            "value": float(self.value),
            "interval": self.interval.to_dict(),
        }


@dataclass(frozen=True)
class Estimate:
    """A value with its interval.

    Attributes:
        value: The value and, where it needs one, its reason.
        interval: Its interval; None if none was asked for.
        difference: For a gap in one rate between two groups, the signed difference.
    """

    value: Value
    interval: Interval | None = None
    difference: Difference | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        content = self.value.to_dict() | {"interval": self.interval.to_dict() if self.interval else None}
        return content | ({"difference": self.difference.to_dict()} if self.difference else {})


def check_level(level: float) -> float:
    """The level itself.

    Raises:
        DataError: Unless it lies strictly between 0 and 1.
    """
    if not 0 < level < 1:
        raise DataError(f"level is {level}; expected a share between 0 and 1. Pass 0.95 for a 95 % interval.")
    return level


# --------------------------------------------------------------------------------------------------------------
# Closed forms


def normal_quantile(level: float) -> float:
    """The z that a standard normal number exceeds in absolute value with probability 1 - level."""
    from scipy.special import ndtri  # not needed to import this module, and slower than all of it

    return float(ndtri((1 + level) / 2))


def wilson_limits(hits: npt.ArrayLike, cases: npt.ArrayLike, z: float) -> Limits:
    """Wilson's score limits of binomial shares; NaN where there are no cases.

    Args:
        hits: Cases with the property.
        cases: All cases, of the same shape.
        z: The normal quantile of the level.
    """
    hits, cases = np.asarray(hits, dtype=np.float64), np.asarray(cases, dtype=np.float64)
    share = divide(hits, cases)
    centre = (hits + z**2 / 2) / (cases + z**2)
    half = z / (cases + z**2) * np.sqrt(hits * (1 - share) + z**2 / 4)
    # At 0 and at all of the cases one end is the share itself; rounding must not move it past.
    return np.minimum(centre - half, share), np.maximum(centre + half, share)


def wilson_interval(hits: int, cases: int, level: float = 0.95) -> Interval:
    """Wilson's interval of one binomial share."""
    if not cases:
        return Interval.undefined("the value is undefined", level, "Wilson")
    low, high = wilson_limits(hits, cases, normal_quantile(check_level(level)))
    return Interval(float(low), float(high), level, "Wilson")


def difference_limits(values: FloatArray, limits: Limits) -> Limits:
    """Newcombe's square-and-add limits of ``values[i] - values[j]`` for independent groups.

    Args:
        values: [groups].
        limits: Lower and upper limits of each value, each [groups].

    Returns:
        Lower and upper limits, each [groups (i), groups (j)].
    """
    low, high = limits
    difference = values[:, None] - values[None, :]
    below = np.hypot((values - low)[:, None], (high - values)[None, :])
    above = np.hypot((high - values)[:, None], (values - low)[None, :])
    return difference - below, difference + above


def range_quantile(num_groups: Sequence[int], level: float) -> float:
    r"""The z that all standardised pairwise differences stay below with probability ``level`` (Tukey).

    Args:
        num_groups: Number of groups in each of several independent families of pairs.
        level: Probability that no pair of any family exceeds it.

    Returns:
        A multiple of the standard error of a difference; for one pair the usual normal quantile.
    """
    from scipy.special import ndtr

    points = np.linspace(-8, 8, 1601)
    density = np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi) * (points[1] - points[0])

    def probability(quantile: float) -> float:
        spread = ndtr(points) - ndtr(points - quantile * np.sqrt(2))
        return float(np.prod([number * (density @ spread ** (number - 1)) for number in num_groups]))

    low, high = 0.0, 12.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < level else (low, middle)
    return high


@functools.lru_cache(maxsize=1)
def _folded_normal_grid() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Gaps, observations, probability of each observation at each gap, and log likelihood ratio to the best gap."""
    gaps = np.arange(0.0, 10.0, _GRID_STEP)
    observed = np.arange(_GRID_STEP / 2, 15.0, _GRID_STEP)
    # Maximum likelihood for |x|: gap = x tanh(gap x), which is zero up to x = 1. Repeating it from x falls to the
    # root; it is slow just above 1 only, where the likelihood is flat, so 200 rounds are plenty.
    best = observed.copy()
    for _ in range(200):
        best = observed * np.tanh(best * observed)

    def log_likelihood(gap: FloatArray) -> FloatArray:
        return np.logaddexp(-((observed - gap) ** 2) / 2, -((observed + gap) ** 2) / 2)

    log_probability = log_likelihood(gaps[:, None])
    ratio = log_probability - log_likelihood(best)
    return gaps, observed, np.exp(log_probability) * _GRID_STEP / np.sqrt(2 * np.pi), ratio


def unified_limits(size: float, level: float) -> tuple[float, float]:
    r"""Limits of \|δ\| from one observation of \|N(δ, 1)\|, after Feldman and Cousins (1998).

    The test of each \|δ\| accepts the observations in order of likelihood ratio, and the interval is what is not
    rejected. It covers with probability ``level`` at every \|δ\|, where folding the usual interval at zero covers up to
    (1 + level) / 2; it starts at zero exactly when the usual interval of δ contains zero, and far from zero it is that
    interval.

    Args:
        size: The observed \|difference\| in standard errors.
        level: Confidence level.
    """
    quantile = normal_quantile(level)
    gaps, observed, probability, ratio = _folded_normal_grid()
    if size > quantile + 3 or size + quantile + 1 > gaps[-1]:  # far from zero, or a level beyond the grid
        return max(size - quantile, 0.0), size + quantile
    # No gap further away than this can be accepted.
    nearby = slice(*np.searchsorted(gaps, (size - quantile - 1, size + quantile + 1)))
    gaps, probability, ratio = gaps[nearby], probability[nearby], ratio[nearby]
    position = np.clip((size - observed[0]) / (observed[1] - observed[0]), 0, len(observed) - 1)
    left = min(int(position), len(observed) - 2)
    own = ratio[:, left] + (position - left) * (ratio[:, left + 1] - ratio[:, left])
    p_values = (probability * (ratio <= own[:, None])).sum(axis=1)
    accepted = gaps[p_values > 1 - level]
    low = 0.0 if size <= quantile else max(accepted.min(), _GRID_STEP)
    return float(low), float(accepted.max())


def gap_interval(
    values: Sequence[FloatArray], limits: Sequence[Callable[[float], Limits]], level: float = 0.95
) -> Interval:
    r"""Interval of the largest difference between two groups in any of several rates.

    With one difference δ only (two groups, one rate): its :func:`unified_limits`, each side in units of its own
    square-and-add half-width. With several: the upper end is the largest upper limit of a single difference, and the
    lower end is the largest lower limit at the level that holds for all differences at once (:func:`range_quantile`),
    because picking the largest would otherwise make a gap out of noise. That interval is conservative.

    Args:
        values: For each rate, its value in each group [groups], NaN where undefined.
        limits: For each rate, a function from a normal quantile to the limits of its values.
        level: Confidence level.

    Returns:
        The interval; its lower end is 0 exactly if no gap at all is compatible with the data.
    """
    quantile = normal_quantile(check_level(level))
    defined = [~np.isnan(rate) for rate in values]
    sizes = [int(mask.sum()) for mask in defined]
    if min(sizes) < 2:
        return Interval.undefined("the gap is undefined", level, "score")

    def extremes(z: float) -> list[tuple[float, float, float]]:
        """For each rate the largest difference and the largest lower and upper limit over ordered pairs."""
        found = []
        for rate, mask, limit in zip(values, defined, limits, strict=True):
            low, high = limit(z)
            lower, upper = difference_limits(rate[mask], (low[mask], high[mask]))
            off_diagonal = ~np.eye(len(lower), dtype=bool)
            size = rate[mask].max() - rate[mask].min()
            found.append((size, lower[off_diagonal].max(), upper[off_diagonal].max()))
        return found

    single = extremes(quantile)
    upper_end = max(upper for _, _, upper in single)
    if np.isnan(upper_end):
        return Interval.undefined("a group's rate has no interval of its own", level, "score")
    if sizes == [2]:
        ((size, lower, upper),) = single
        below, above = (size - lower) / quantile, (upper - size) / quantile
        low = below * unified_limits(size / below, level)[0] if lower > 0 else 0.0
        # While the sign is open, the wider side is the one that has to hold.
        above = max(below, above) if lower <= 0 else above
        high = above * unified_limits(size / above, level)[1] if above > 0 else size
        return Interval(low, min(high, 1.0), level, "score, unified")
    joint = extremes(range_quantile(sizes, level))
    return Interval(max(0.0, *(lower for _, lower, _ in joint)), min(upper_end, 1.0), level, "score, simultaneous")


def signed_difference(
    values: FloatArray, limits: Callable[[float], Limits], names: Sequence[str], level: float = 0.95
) -> Difference | None:
    """The later minus the earlier group, if there are exactly two groups in which the rate is defined."""
    defined = np.flatnonzero(~np.isnan(values))
    if len(defined) != 2:
        return None
    low, high = limits(normal_quantile(check_level(level)))
    lower, upper = difference_limits(values[defined], (low[defined], high[defined]))
    first, second = map(int, defined)
    interval = Interval(float(lower[1, 0]), float(upper[1, 0]), level, "score")
    return Difference(names[second], names[first], float(values[second] - values[first]), interval)


def estimate_gap(metric: Metric, counts: GroupCounts, positive: int | None = None, level: float = 0.95) -> Estimate:
    """A gap in rates with its closed-form interval and, for two groups and one rate, the signed difference.

    Of more than two classes without a positive one it is the mean of the classes' gaps, and its interval is the mean
    of their intervals at the level that holds for all of them (Bonferroni), which is conservative.
    """
    positive = resolve_positive(positive, counts.class_names)
    if positive is None and metric.per_class:
        classes = range(len(counts.class_names))
        each_level = 1 - (1 - level) / len(classes)
        return mean_estimate(
            [estimate_gap(metric, counts, label, each_level) for label in classes], counts.class_names, level
        )
    parts = [RATES[name].parts(counts.counts, positive or 0) for name in metric.rates]
    values = [divide(hits, cases) for hits, cases in parts]
    limits = [functools.partial(wilson_limits, hits, cases) for hits, cases in parts]
    single = len(parts) == 1
    return Estimate(
        measure(metric, counts, positive),
        gap_interval(values, limits, level),
        signed_difference(values[0], limits[0], counts.group_names, level) if single else None,
    )


def mean_estimate(each: Sequence[Estimate], names: Sequence[str], level: float) -> Estimate:
    """Mean over the classes in which the value is defined, with the mean of their (jointly valid) intervals."""
    value = mean_value([estimate.value for estimate in each], names)
    intervals = [estimate.interval for estimate in each if estimate.value.defined and estimate.interval]
    without = [interval.reason for interval in intervals if not interval.defined]
    if without or not intervals:
        reason = "; ".join(dict.fromkeys(without)) or "the value is undefined in every class"
        return Estimate(value, Interval.undefined(reason, level))
    low = float(np.mean([interval.low for interval in intervals]))
    high = float(np.mean([interval.high for interval in intervals]))
    return Estimate(value, Interval(low, high, level, "mean over classes, Bonferroni"))


# --------------------------------------------------------------------------------------------------------------
# Bootstrap over rows, as draws over cells


def draw_counts(
    counts: CountArray, num_draws: int, generator: np.random.Generator, *, stratified: bool = False
) -> npt.NDArray[np.int64]:
    """Counts of ``num_draws`` resamples of the rows, [draws, groups, classes, classes].

    Args:
        counts: [groups, classes, classes].
        num_draws: How many.
        generator: Source of randomness.
        stratified: Whether each group keeps its size.
    """
    shape = counts.shape
    cells = counts.reshape(shape[0] if stratified else 1, -1)
    sizes = cells.sum(axis=1)
    shares = np.where(sizes[:, None] > 0, divide(cells, sizes[:, None]), 0.0)
    return generator.multinomial(sizes, shares, size=(num_draws, len(sizes))).reshape(num_draws, *shape)


def _blocks_of_draws(
    counts: GroupCounts, num_draws: int, generator: np.random.Generator, stratified: bool
) -> Iterator[npt.NDArray[np.int64]]:
    size = max(1, CELLS_PER_BLOCK // max(1, counts.counts.size))
    for start in range(0, num_draws, size):
        yield draw_counts(counts.counts, min(size, num_draws - start), generator, stratified=stratified)


def bootstrap_draws(
    counts: GroupCounts,
    metrics: Sequence[Metric | str],
    positive: int | None = None,
    *,
    num_draws: int = 10_000,
    stratified: bool = False,
    seed: int = 0,
) -> dict[str, FloatArray]:
    """Values of several metrics in the same resamples, by name, each [draws].

    A gap over fewer groups would be another quantity, so a draw that loses the last case of a group is NaN.
    """
    chosen = [get_metric(metric) if isinstance(metric, str) else metric for metric in metrics]
    positive = resolve_positive(positive, counts.class_names)
    generator = np.random.default_rng(seed)
    values: dict[str, list[FloatArray]] = {metric.name: [] for metric in chosen}
    for block in _blocks_of_draws(counts, num_draws, generator, stratified):
        for metric in chosen:
            values[metric.name].append(values_in_draws(metric, block, counts.counts, positive))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def values_in_draws(metric: Metric, draws: CountArray, observed: CountArray, positive: int | None) -> FloatArray:
    """The metric of each draw [..., groups, classes, classes], NaN where a group lost the cases it has in the data."""
    values = metric(draws, positive)
    classes = range(observed.shape[-1]) if positive is None and metric.per_class else [positive or 0]
    for name in metric.rates if metric.kind == "gap" else ():
        for label in classes:
            had_cases = RATES[name].parts(observed, label)[1] > 0
            lost = ((RATES[name].parts(draws, label)[1] == 0) & had_cases).any(axis=-1)
            values = np.where(lost, np.nan, values)
    return values


def interval_of_draws(
    draws: FloatArray,
    estimate: float,
    *,
    level: float = 0.95,
    method: Method = "percentile",
    acceleration: float = 0.0,
) -> Interval:
    """Interval from the bootstrap draws of a value.

    Args:
        draws: [draws], NaN where undefined.
        estimate: The value in the data.
        level: Confidence level.
        method: ``"percentile"``; ``"basic"``, the percentiles reflected at the estimate; ``"envelope"``, the wider of
            the two on each side; ``"bca"``, corrected for bias and acceleration.
        acceleration: For ``"bca"``: skewness of the jackknife values, divided by six.
    """
    tail = (1 - check_level(level)) / 2
    defined = draws[~np.isnan(draws)]
    undefined_draws = len(draws) - len(defined)
    if np.isnan(estimate):
        return Interval.undefined("the value is undefined", level, method)
    if undefined_draws > MAX_UNDEFINED_DRAWS * len(draws) or not len(defined):
        reason = (
            f"the value is undefined in {undefined_draws} of {len(draws)} resamples, so there are too few cases for an "
            "interval"
        )
        return Interval(float("nan"), float("nan"), level, method, len(draws), undefined_draws, reason)
    if np.ptp(defined) == 0:
        reason = "every resample gives the same value, so resampling cannot tell how far it could be off"
        return Interval(float("nan"), float("nan"), level, method, len(draws), undefined_draws, reason)
    tails = np.array([tail, 1 - tail])
    if method == "bca":
        from scipy.special import ndtr, ndtri

        # Ties count half, or counts on a coarse grid would look biased.
        below = (np.mean(defined < estimate) + np.mean(defined <= estimate)) / 2
        bias = float(ndtri(np.clip(below, 1e-6, 1 - 1e-6)))
        shifted = bias + ndtri(tails)
        tails = ndtr(bias + shifted / (1 - acceleration * shifted))
    low, high = np.quantile(defined, tails)
    reflected = 2 * estimate - high, 2 * estimate - low
    if method == "basic":
        low, high = reflected
    elif method == "envelope":
        low, high = min(low, reflected[0]), max(high, reflected[1])
    return Interval(float(low), float(high), level, method, len(draws), undefined_draws)


def bootstrap(
    metric: Metric | str,
    counts: GroupCounts,
    positive: int | None = None,
    *,
    level: float = 0.95,
    num_draws: int = 10_000,
    method: Method = "percentile",
    stratified: bool = False,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of any metric on counts.

    For a gap in rates use :func:`estimate_gap`: near zero the percentiles of a gap do not cover it.

    Example:
        >>> counts = GroupCounts(np.array([[[40, 10], [10, 40]]]), ("all",), ("0", "1"))
        >>> interval = bootstrap("accuracy", counts)
        >>> interval.low, interval.high
        (0.72, 0.88)
    """
    metric = get_metric(metric) if isinstance(metric, str) else metric
    draws = bootstrap_draws(counts, [metric], positive, num_draws=num_draws, stratified=stratified, seed=seed)
    estimate = measure(metric, counts, positive).value
    acceleration = _acceleration(metric, counts, positive) if method == "bca" else 0.0
    return interval_of_draws(draws[metric.name], estimate, level=level, method=method, acceleration=acceleration)


def bootstrap_estimates(
    metrics: Sequence[Metric],
    counts: GroupCounts,
    positive: int | None = None,
    *,
    level: float = 0.95,
    num_draws: int = 10_000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Several metrics by name: those that are one rate with Wilson's interval, the others with percentiles of draws."""
    drawn = [metric for metric in metrics if not metric.rates]
    draws = bootstrap_draws(counts, drawn, positive, num_draws=num_draws, seed=seed) if drawn else {}
    estimates = {}
    for metric in metrics:
        value = measure(metric, counts, positive)
        if metric.rates:
            hits, cases = RATES[metric.rates[0]].parts(counts.counts.sum(axis=0, keepdims=True), positive or 0)
            estimates[metric.name] = Estimate(value, wilson_interval(int(hits[0]), int(cases[0]), level))
        else:
            estimates[metric.name] = Estimate(value, interval_of_draws(draws[metric.name], value.value, level=level))
    return estimates


def _acceleration(metric: Metric, counts: GroupCounts, positive: int | None) -> float:
    """Skewness of the values that leave one row out, a sixth of it; all rows of a cell give the same value."""
    positive = resolve_positive(positive, counts.class_names)
    cells = np.flatnonzero(counts.counts)
    weights = counts.counts.reshape(-1)[cells]
    without = np.repeat(counts.counts[None], len(cells), axis=0).reshape(len(cells), -1)
    without[np.arange(len(cells)), cells] -= 1
    values = metric(without.reshape(-1, *counts.counts.shape), positive)
    defined = ~np.isnan(values)
    values, weights = values[defined], weights[defined]
    deviation = np.average(values, weights=weights) - values if len(values) else np.zeros(0)
    scale = float(weights @ deviation**2)
    return float(weights @ deviation**3) / (6 * scale**1.5) if scale > 0 else 0.0


# --------------------------------------------------------------------------------------------------------------
# Over seeds


def mean_std(values: npt.ArrayLike, ddof: int = 0) -> tuple[float, float]:
    """Mean and standard deviation over seeds, of the values that are defined.

    The paper's ± divides by the number of seeds (``ddof=0``), which is the default here; it describes those seeds and
    is not an interval of the mean.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    if len(array) <= ddof:
        return (float(array.mean()) if len(array) else float("nan")), float("nan")
    return float(array.mean()), float(array.std(ddof=ddof))


def mean_interval(values: npt.ArrayLike, level: float = 0.95) -> Interval:
    """Student's t interval of the mean over seeds.

    With three to ten seeds the bootstrap of the mean is too narrow (it covers about 84 % with five), so this is the
    interval for seeds alone. It speaks of other seeds on these same rows; for other rows too, see
    :func:`fairsad.evaluation.pairing.hierarchical_bootstrap`.
    """
    array = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    check_level(level)
    if len(array) < 2:
        return Interval.undefined(f"{len(array)} value(s); a spread needs at least two", level, "t")
    from scipy.special import stdtrit

    half = float(stdtrit(len(array) - 1, (1 + level) / 2)) * array.std(ddof=1) / np.sqrt(len(array))
    return Interval(float(array.mean() - half), float(array.mean() + half), level, "t")
