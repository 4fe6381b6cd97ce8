"""Intervals against published examples, scipy, and literal resampling of rows."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy.stats
from scipy.special import ndtr

from benchmarks import interval_coverage
from fairsad.errors import DataError
from fairsad.evaluation.intervals import (
    Interval,
    bootstrap,
    bootstrap_draws,
    bootstrap_estimates,
    difference_limits,
    draw_counts,
    estimate_gap,
    gap_interval,
    interval_of_draws,
    mean_interval,
    mean_std,
    normal_quantile,
    range_quantile,
    unified_limits,
    wilson_interval,
    wilson_limits,
)
from fairsad.evaluation.rates import Gap, GroupCounts, count_metrics, get_metric, register_metric
from fairsad.groups import Groups

COUNTS = GroupCounts(np.array([[[30, 10], [8, 42]], [[12, 9], [4, 5]]]), ("f", "m"), ("0", "1"))


def rows_of(counts: GroupCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups, labels and predictions of rows that have these counts."""
    cells = np.repeat(np.arange(counts.counts.size), counts.counts.ravel())
    groups, labels, predictions = np.unravel_index(cells, counts.counts.shape)
    return groups, labels, predictions


# Wilson and Newcombe


def test_wilson_equals_scipys() -> None:
    for hits, cases in ((0, 1), (0, 12), (3, 7), (10, 10), (50, 80), (999, 1000)):
        expected = scipy.stats.binomtest(hits, cases).proportion_ci(0.95, method="wilson")
        interval = wilson_interval(hits, cases)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
        assert interval.contains(hits / cases)
        assert interval.low < interval.high
    assert not wilson_interval(0, 0).defined
    assert wilson_interval(5, 10, 0.5).high < wilson_interval(5, 10, 0.99).high


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [  # Newcombe (1998), Table II, method 10
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_square_and_add_limits_equal_the_published_ones(
    first: tuple[int, int], second: tuple[int, int], low: float, high: float
) -> None:
    hits, cases = np.array([first, second]).T
    lower, upper = difference_limits(hits / cases, wilson_limits(hits, cases, normal_quantile(0.95)))
    assert lower[0, 1] == pytest.approx(low, abs=6e-5)
    assert upper[0, 1] == pytest.approx(high, abs=6e-5)
    assert lower[1, 0] == pytest.approx(-high, abs=6e-5)  # the other way round


def test_range_quantile_equals_scipys_studentised_range() -> None:
    assert range_quantile([2], 0.95) == pytest.approx(normal_quantile(0.95), abs=1e-6)
    for groups in (3, 12):
        expected = scipy.stats.studentized_range.ppf(0.95, groups, np.inf) / math.sqrt(2)
        assert range_quantile([groups], 0.95) == pytest.approx(expected, abs=1e-4)
    # Two independent families hold together with the product of their probabilities.
    assert range_quantile([3, 3], 0.95) == pytest.approx(range_quantile([3], math.sqrt(0.95)), abs=1e-6)


# The unified interval of an absolute difference


@functools.cache
def unified_table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = np.arange(0.01, 9, 0.02)
    limits = np.array([unified_limits(size, 0.95) for size in sizes])
    return sizes, limits[:, 0], limits[:, 1]


@pytest.mark.parametrize("gap", [0.0, 0.2, 0.7, 1.3, 2.0, 2.6, 3.2, 4.0])
def test_the_unified_interval_covers_as_promised_at_every_gap(gap: float) -> None:
    sizes, low, high = unified_table()
    covered = (low <= gap) & (gap <= high)
    edges = np.r_[sizes - 0.01, sizes[-1] + 0.01]
    probability = np.diff(ndtr(edges - gap) + ndtr(edges + gap))
    assert probability[covered].sum() == pytest.approx(0.95, abs=0.01)


def test_the_unified_interval_starts_at_zero_exactly_where_the_usual_one_contains_zero() -> None:
    sizes, low, high = unified_table()
    np.testing.assert_array_equal(low == 0, sizes <= normal_quantile(0.95))
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) > -1e-9).all()
    assert ((low <= sizes) & (sizes <= high)).all()
    far = sizes > 6
    np.testing.assert_allclose(low[far], sizes[far] - normal_quantile(0.95))
    # At no difference the upper end is the one-sided limit, narrower than the folded interval's.
    assert high[0] == pytest.approx(normal_quantile(0.90), abs=0.03)


def test_a_gap_interval_contains_zero_exactly_if_the_signed_one_does() -> None:
    generator = np.random.default_rng(0)
    seen = set()
    for _ in range(100):
        counts = GroupCounts(generator.integers(1, 30, (2, 2, 2)), ("f", "m"), ("0", "1"))
        for metric in count_metrics("gap"):
            estimate = estimate_gap(metric, counts)
            assert estimate.interval is not None
            assert estimate.interval.contains(estimate.value.value)
            if len(metric.rates) == 1:
                assert estimate.difference is not None
                assert abs(estimate.difference.value) == pytest.approx(estimate.value.value)
                zero = estimate.difference.interval.contains(0)
                assert estimate.interval.contains(0) == zero
                seen.add(zero)
            else:
                assert estimate.difference is None
    assert seen == {True, False}


def test_while_the_sign_is_open_the_wider_side_decides_the_upper_end() -> None:
    # 8 of 8 against 170 of 200: nothing is above 100 %, but the 8 may well be drawn from 70 %.
    hits, cases = np.array([170.0, 8.0]), np.array([200.0, 8.0])
    limits = functools.partial(wilson_limits, hits, cases)
    interval = gap_interval([hits / cases], [limits])
    quantile = normal_quantile(0.95)
    low, high = difference_limits(hits / cases, limits(quantile))
    below, above = (0.15 - low[1, 0]) / quantile, (high[1, 0] - 0.15) / quantile
    assert below > 5 * above
    assert interval.low == 0
    assert interval.high == pytest.approx(below * unified_limits(0.15 / below, 0.95)[1])


def test_just_beyond_the_usual_limit_the_unified_interval_leaves_zero() -> None:
    for level in (0.8, 0.9, 0.95, 0.99):
        quantile = normal_quantile(level)
        assert unified_limits(quantile, level)[0] == 0
        assert unified_limits(np.nextafter(quantile, 9), level)[0] > 0


def test_a_gap_at_the_edge_still_has_a_width() -> None:
    # All of 12 and all of 9 positives found: every resample says "no gap", and 21 cases cannot say that.
    counts = GroupCounts(np.array([[[5, 5], [0, 12]], [[5, 5], [0, 9]]]), ("f", "m"), ("0", "1"))
    interval = estimate_gap(get_metric("equal_opportunity_gap"), counts).interval
    assert interval is not None
    assert interval.low == 0
    assert 0.15 < interval.high < 0.4
    assert not bootstrap("equal_opportunity_gap", counts).defined


def test_more_groups_make_the_lower_end_more_careful_and_never_the_upper_end_smaller() -> None:
    def interval_for(groups: int) -> Interval:
        hits = np.array([20.0] + [30.0] * (groups - 2) + [40.0])
        cases = np.full(groups, 80.0)
        return gap_interval([hits / cases], [functools.partial(wilson_limits, hits, cases)])

    two, six = interval_for(2), interval_for(6)
    assert 0 < six.low < two.low
    assert six.high == pytest.approx(two.high, abs=0.01)
    assert (two.method, six.method) == ("score, unified", "score, simultaneous")


def test_twelve_groups_that_do_not_differ_are_seldom_said_to() -> None:
    generator = np.random.default_rng(0)
    cases = np.full(12, 100.0)
    claimed = 0
    for _ in range(400):
        hits = generator.binomial(100, 0.5, 12).astype(np.float64)
        claimed += gap_interval([hits / cases], [functools.partial(wilson_limits, hits, cases)]).low > 0
    assert 0.02 <= claimed / 400 <= 0.08  # single intervals of the largest difference would claim it in most


def test_a_gap_that_is_undefined_has_no_interval() -> None:
    counts = GroupCounts(np.array([[[5, 5], [0, 0]], [[3, 2], [1, 4]]]), ("f", "m"), ("0", "1"))
    estimate = estimate_gap(get_metric("equal_opportunity_gap"), counts)
    assert not estimate.value.defined
    assert estimate.interval is not None
    assert estimate.interval.to_dict() == {
        "low": None,
        "high": None,
        "level": 0.95,
        "method": "score",
        "num_draws": 0,
        "undefined_draws": 0,
        "reason": "the gap is undefined",
    }
    assert estimate.difference is None
    assert not estimate.interval.contains(0.0)


def test_several_classes_have_the_mean_of_their_gaps_and_a_jointly_valid_interval() -> None:
    counts = GroupCounts(np.random.default_rng(1).integers(5, 40, (2, 3, 3)), ("f", "m"), ("a", "b", "c"))
    metric = get_metric("equal_opportunity_gap")
    estimate = estimate_gap(metric, counts)
    each = [estimate_gap(metric, counts, label, 1 - 0.05 / 3) for label in range(3)]
    assert estimate.value.value == pytest.approx(np.mean([one.value.value for one in each]))
    assert estimate.interval is not None
    assert estimate.interval.low == pytest.approx(np.mean([one.interval.low for one in each if one.interval]))
    assert estimate.interval.level == 0.95
    # The accuracy gap does not depend on a class and keeps the groups that carry it.
    assert isinstance(estimate_gap(get_metric("accuracy_gap"), counts).value, Gap)
    nothing = GroupCounts(np.zeros((2, 3, 3), dtype=np.int64), ("f", "m"), ("a", "b", "c"))
    assert "undefined in every class" in (estimate_gap(metric, nothing).interval or Interval(0, 0)).reason


# The bootstrap


def test_drawing_cells_is_resampling_rows() -> None:
    groups, labels, predictions = rows_of(COUNTS)
    generator = np.random.default_rng(2)
    literal = np.empty((4000, 2, 2, 2))
    for draw in range(len(literal)):
        rows = generator.integers(0, len(labels), len(labels))
        partition = Groups(groups[rows], ("f", "m"))
        literal[draw] = GroupCounts.from_codes(labels[rows], predictions[rows], partition, ("0", "1")).counts
    drawn = draw_counts(COUNTS.counts, 4000, np.random.default_rng(3))
    assert (drawn.sum(axis=(1, 2, 3)) == len(labels)).all()
    flat, other = drawn.reshape(4000, 8), literal.reshape(4000, 8)
    np.testing.assert_allclose(flat.mean(axis=0), other.mean(axis=0), rtol=0.03)
    np.testing.assert_allclose(np.cov(flat.T), np.cov(other.T), atol=1.5)
    for metric in count_metrics():
        ours, theirs = metric(drawn, 1), metric(literal, 1)
        # The same distribution: their empirical distribution functions differ as two samples of one law do.
        assert scipy.stats.ks_2samp(ours, theirs, nan_policy="omit").pvalue > 1e-3, metric.name
        assert np.isnan(ours).mean() == pytest.approx(np.isnan(theirs).mean(), abs=0.02)


def test_a_stratified_draw_keeps_the_size_of_every_group() -> None:
    counts = np.array([[[3, 1], [0, 2]], [[0, 0], [0, 0]], [[50, 9], [8, 20]]])
    drawn = draw_counts(counts, 500, np.random.default_rng(0), stratified=True)
    np.testing.assert_array_equal(drawn.sum(axis=(2, 3)), np.broadcast_to(counts.sum(axis=(1, 2)), (500, 3)))
    expected = counts[2] / counts[2].sum()
    np.testing.assert_allclose(drawn[:, 2].mean(axis=0) / counts[2].sum(), expected, atol=0.01)


def test_a_seed_determines_everything_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = bootstrap_draws(COUNTS, count_metrics(), num_draws=300, seed=5)
    again = bootstrap_draws(COUNTS, count_metrics(), num_draws=300, seed=5)
    other = bootstrap_draws(COUNTS, count_metrics(), num_draws=300, seed=6)
    for name, values in draws.items():
        np.testing.assert_array_equal(values, again[name])
        assert (values != other[name]).any()
    monkeypatch.setattr("fairsad.evaluation.intervals.CELLS_PER_BLOCK", 80)
    small = bootstrap_draws(COUNTS, count_metrics(), num_draws=300, seed=5)
    np.testing.assert_array_equal(small["f1"], draws["f1"])


def test_draws_in_which_a_group_lost_its_cases_are_counted_and_too_many_leave_no_interval() -> None:
    counts = GroupCounts(
        np.array([[[30, 10], [20, 40]], [[20, 9], [1, 1]], [[30, 9], [9, 30]]]), tuple("abc"), ("0", "1")
    )
    draws = bootstrap_draws(counts, ["equal_opportunity_gap", "demographic_parity_gap"], num_draws=2000)
    lost = int(np.isnan(draws["equal_opportunity_gap"]).sum())
    assert lost / 2000 == pytest.approx((1 - 2 / counts.num_rows) ** counts.num_rows, abs=0.03)
    assert not np.isnan(draws["demographic_parity_gap"]).any()
    interval = bootstrap("equal_opportunity_gap", counts, num_draws=2000)
    assert interval.undefined_draws == lost
    assert f"undefined in {lost} of 2000 resamples" in interval.reason
    assert bootstrap("equal_opportunity_gap", counts, num_draws=2000, stratified=True).undefined_draws > 0
    few = interval_of_draws(np.r_[np.full(3, np.nan), np.linspace(0, 1, 97)], 0.5)
    assert few.undefined_draws == 3
    assert few.defined


def test_resamples_that_are_all_equal_leave_no_interval() -> None:
    counts = GroupCounts(np.array([[[0, 0], [0, 20]]]), ("all",), ("0", "1"))
    assert "every resample gives the same value" in bootstrap("f1", counts).reason
    assert "the value is undefined" in bootstrap("balanced_accuracy", counts).reason
    # The accuracy is a share, so it has Wilson's interval in place of [1, 1].
    interval = bootstrap_estimates([get_metric("accuracy")], counts)["accuracy"].interval
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(0.8389, abs=1e-4), 1.0)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_bootstrap_intervals_agree_with_scipys_on_rows(method: str) -> None:
    _, labels, predictions = rows_of(COUNTS)

    def f1_of_rows(labels: np.ndarray, predictions: np.ndarray, axis: int = -1) -> np.ndarray:
        hits = ((labels == 1) & (predictions == 1)).sum(axis)
        return 2 * hits / ((labels == 1).sum(axis) + (predictions == 1).sum(axis))

    expected = scipy.stats.bootstrap(
        (labels, predictions),
        f1_of_rows,
        paired=True,
        vectorized=True,
        n_resamples=6000,
        method="BCa" if method == "bca" else method,
        rng=np.random.default_rng(0),
    ).confidence_interval
    interval = bootstrap("f1", COUNTS, method=method)  # type: ignore[arg-type]
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=0.006)


def test_the_envelope_is_the_wider_of_percentile_and_basic() -> None:
    draws = np.random.default_rng(0).exponential(size=4000)
    low, high = (interval_of_draws(draws, 0.7, method=method) for method in ("percentile", "basic"))  # type: ignore[arg-type]
    both = interval_of_draws(draws, 0.7, method="envelope")
    assert (both.low, both.high) == (min(low.low, high.low), max(low.high, high.high))


def test_a_gap_of_another_form_is_bootstrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairsad.evaluation import rates
    from fairsad.evaluation.evaluate import evaluate_predictions

    monkeypatch.setattr(rates, "_METRICS", dict(rates._METRICS))

    @register_metric("selection_deviation_gap", better="lower")
    def selection_deviation_gap(counts: np.ndarray, positive: int) -> np.ndarray:
        return rates.selection_rate(counts, positive).std(axis=-1)

    groups, labels, predictions = rows_of(COUNTS)
    found = evaluate_predictions(labels, predictions, {"sex": groups}, num_draws=500)
    estimate = found.attributes["sex"].gaps["selection_deviation_gap"]
    assert estimate.interval is not None
    assert (estimate.interval.method, estimate.interval.num_draws) == ("percentile", 500)


# Over seeds


def test_mean_and_spread_over_seeds() -> None:
    assert mean_std([1.0, 2.0, 3.0]) == (2.0, pytest.approx(math.sqrt(2 / 3)))
    assert mean_std([1.0, 2.0, 3.0], ddof=1) == (2.0, 1.0)
    assert mean_std([1.0, math.nan, 3.0]) == (2.0, 1.0)
    assert mean_std([4.0]) == (4.0, 0.0)
    mean, std = mean_std([4.0], ddof=1)
    assert mean == 4.0
    assert math.isnan(std)
    assert math.isnan(mean_std([])[0])


def test_the_interval_of_a_mean_equals_scipys_t() -> None:
    values = np.array([0.1, 0.3, 0.2, 0.6, 0.25])
    expected = scipy.stats.t.interval(0.9, 4, loc=values.mean(), scale=values.std(ddof=1) / math.sqrt(5))
    interval = mean_interval([*values, math.nan], 0.9)
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert mean_interval([0.3]).reason == "1 value(s); a spread needs at least two"


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(DataError, match=f"level is {level}; expected a share between 0 and 1"):
        mean_interval([1.0, 2.0], level)


# The promise


@pytest.mark.slow
@pytest.mark.parametrize("size", [250, 5000])
@pytest.mark.parametrize("metric", ["demographic_parity_gap", "equal_opportunity_gap"])
def test_gap_intervals_cover_the_truth_in_93_to_97_of_100_data_sets(metric: str, size: int) -> None:
    for rates in ((0.6, 0.6), (0.6, 0.65), (0.6, 0.7), (0.6, 0.8)):
        population = interval_coverage.Population(rates, (0.7, 0.3))
        covered = interval_coverage.gap_coverage(population, metric, size, 500, seed=1, candidates=False)
        assert 0.93 <= covered["gap"] <= 0.97, (rates, covered)
        assert 0.93 <= covered["signed"] <= 0.97, (rates, covered)


def test_a_gap_interval_covers_and_the_percentiles_of_a_gap_do_not() -> None:
    population = interval_coverage.Population((0.6, 0.6), (0.5, 0.5))
    covered = interval_coverage.gap_coverage(population, "demographic_parity_gap", 250, 60)
    assert covered["gap"] > 0.85
    assert covered["gap, percentile"] == 0
