"""AUC and calibration against scikit-learn, explicit pairs and row resampling."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import roc_auc_score

from fairsad.errors import DataError
from fairsad.evaluation import scores as scores_module
from fairsad.evaluation.rates import Gap
from fairsad.evaluation.scores import (
    Auc,
    auc,
    auc_by_group,
    auc_estimate,
    auc_gap_estimate,
    auc_with_influence,
    bootstrap_auc,
    calibration,
    find_metric,
    register_score_metric,
    score_metrics,
)
from fairsad.groups import Groups


def random_cases(number: int = 200) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(1)
    while number:
        rows = int(generator.integers(5, 80))
        labels = generator.random(rows) < generator.uniform(0.2, 0.8)
        scores = generator.random(rows) + labels * generator.random()
        if number % 2:
            scores = np.round(scores, 1)  # ties
        if labels.any() and not labels.all():
            number -= 1
            yield labels, scores


def test_auc_equals_scikit_learns_on_200_random_cases() -> None:
    for labels, scores in random_cases():
        assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def delong(labels: np.ndarray, first: np.ndarray, second: np.ndarray) -> float:
    """DeLong's covariance, by comparing every positive with every negative."""

    def placements(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        above = scores[labels][:, None] - scores[~labels][None, :]
        wins = (above > 0) + 0.5 * (above == 0)
        return wins.mean(axis=1), wins.mean(axis=0)

    (of_positives, of_negatives), (other_positives, other_negatives) = placements(first), placements(second)
    return float(
        np.cov(of_positives, other_positives)[0, 1] / labels.sum()
        + np.cov(of_negatives, other_negatives)[0, 1] / (~labels).sum()
    )


def test_influences_give_delongs_variance_and_covariance() -> None:
    generator = np.random.default_rng(2)
    for labels, scores in random_cases(60):
        if min(labels.sum(), (~labels).sum()) < 2:
            continue
        other = np.round(scores + generator.normal(size=len(scores)) / 3, 1)
        one, two = auc_with_influence(labels, scores), auc_with_influence(labels, other)
        assert one.variance == pytest.approx(delong(labels, scores, scores), abs=1e-12)
        assert float(one.influence @ two.influence) == pytest.approx(delong(labels, scores, other), abs=1e-12)


def test_the_order_of_rows_does_not_matter() -> None:
    labels, scores = next(iter(random_cases(1)))
    order = np.argsort(scores)
    assert auc(labels[order], scores[order]) == pytest.approx(auc(labels, scores), abs=1e-15)
    influence = auc_with_influence(labels, scores).influence
    np.testing.assert_allclose(auc_with_influence(labels[order], scores[order]).influence, influence[order])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(-1, 3)), max_size=30),
)
def test_auc_per_group_equals_pairs_with_empty_groups_one_class_and_unknown_groups(
    rows: list[tuple[bool, int, int]],
) -> None:
    labels = np.array([row[0] for row in rows], dtype=bool)
    values = np.array([row[1] for row in rows], dtype=np.float64)
    groups = Groups(np.array([row[2] for row in rows], dtype=np.int64), ("a", "b", "c", "d"))
    results = auc_by_group(labels, values, groups)
    expected = []
    for group in range(4):
        own = groups.codes == group
        pairs = [(p > q) + 0.5 * (p == q) for p in values[own & labels] for q in values[own & ~labels]]
        expected.append(float(np.mean(pairs)) if pairs else math.nan)
    assert [result.value for result in results] == pytest.approx(expected, nan_ok=True)
    estimate = auc_gap_estimate(results, groups.names)
    defined = [value for value in expected if not math.isnan(value)]
    gap = max(defined) - min(defined) if len(defined) > 1 else math.nan
    assert estimate.value.value == pytest.approx(gap, nan_ok=True)
    assert isinstance(estimate.value, Gap)
    assert set(estimate.value.undefined) == {groups.names[i] for i in range(4) if math.isnan(expected[i])}
    assert bool(estimate.value.reason) == (len(defined) < 4)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([], "there are no scored rows"),
        ([0, 0, 0], "there are no positive labels (0 of 3 scored rows)"),
        ([1, 1], "there are no negative labels (0 of 2 scored rows)"),
    ],
)
def test_an_auc_without_both_classes_is_undefined(labels: list[int], reason: str) -> None:
    estimate = auc_estimate(auc_with_influence(np.array(labels, dtype=bool), np.arange(float(len(labels)))))
    assert not estimate.value.defined
    assert estimate.value.reason == reason
    assert estimate.interval is not None
    assert not estimate.interval.defined


def test_an_auc_of_one_or_from_one_positive_has_no_interval_and_says_why() -> None:
    separated = auc_estimate(auc_with_influence(np.array([0, 0, 1, 1], dtype=bool), np.arange(4.0)))
    assert separated.value.value == 1
    assert separated.interval is not None
    assert "separate the classes" in separated.interval.reason
    single = auc_estimate(auc_with_influence(np.array([0, 0, 1, 0], dtype=bool), np.arange(4.0)))
    assert single.value.value == pytest.approx(2 / 3)
    assert single.interval is not None
    assert "only one positive" in single.interval.reason


def test_delongs_interval_agrees_with_resampling_rows() -> None:
    generator = np.random.default_rng(3)
    for rows, tolerance in ((300, 0.015), (3000, 0.004)):
        labels = generator.random(rows) < 0.4
        scores = np.round(generator.normal(size=rows) + labels, 2)
        formula = auc_estimate(auc_with_influence(labels, scores)).interval
        resampled = bootstrap_auc(labels, scores, num_draws=1500)
        assert formula is not None
        assert formula.low == pytest.approx(resampled.low, abs=tolerance)
        assert formula.high == pytest.approx(resampled.high, abs=tolerance)
        assert 0 < formula.low < auc(labels, scores) < formula.high < 1


def test_bootstrap_auc_draws_as_literal_resampling_does() -> None:
    generator = np.random.default_rng(4)
    labels = generator.random(80) < 0.5
    scores = np.round(generator.normal(size=80) + labels, 1)
    literal = []
    for _ in range(4000):
        rows = generator.integers(0, 80, 80)
        literal.append(auc(labels[rows], scores[rows]))
    interval = bootstrap_auc(labels, scores, num_draws=4000)
    assert (interval.low, interval.high) == pytest.approx(np.quantile(literal, [0.025, 0.975]), abs=0.012)
    assert interval == bootstrap_auc(labels, scores, num_draws=4000)
    assert interval != bootstrap_auc(labels, scores, num_draws=4000, seed=1)


def test_the_signed_auc_difference_of_two_groups_stands_beside_the_gap() -> None:
    results = [Auc(0.9, 40, 60, np.array([0.02])), Auc(0.8, 50, 50, np.array([0.03]))]
    estimate = auc_gap_estimate(results, ("f", "m"))
    assert estimate.difference is not None
    assert (estimate.difference.minuend, estimate.difference.subtrahend) == ("m", "f")
    assert estimate.difference.value == pytest.approx(-0.1)
    half = 1.96 * math.hypot(0.02, 0.03)
    assert estimate.difference.interval.low == pytest.approx(-0.1 - half, abs=0.015)
    assert estimate.difference.interval.high == pytest.approx(-0.1 + half, abs=0.015)
    assert isinstance(estimate.value, Gap)
    assert (estimate.value.highest, estimate.value.highest_cases) == ("f", 40)


def test_calibration_equals_scikit_learns_curve_and_a_plain_loop() -> None:
    generator = np.random.default_rng(5)
    for rows in (1, 3, 50, 400):
        scores = np.round(generator.random(rows), 2)
        labels = generator.random(rows) < scores**2
        table = calibration(labels, scores)
        share, mean = calibration_curve(labels, scores, n_bins=10)
        used = table.counts > 0
        np.testing.assert_allclose(table.positive_share[used], share)
        np.testing.assert_allclose(table.mean_score[used], mean)
        error = 0.0
        for i in range(10):
            inside = (scores <= table.edges[i + 1]) & ((scores > table.edges[i]) | ((i == 0) & (scores == 0)))
            if inside.any():
                error += inside.mean() * abs(scores[inside].mean() - labels[inside].mean())
        assert table.error == pytest.approx(error)
        assert ((table.low <= table.positive_share) & (table.positive_share <= table.high))[used].all()
        assert len(table.to_dict()["bins"]) == used.sum()


def test_the_error_to_expect_of_calibrated_scores_is_what_they_show() -> None:
    generator = np.random.default_rng(6)
    scores = generator.random(500)
    shown = [calibration(generator.random(500) < scores, scores).error for _ in range(400)]
    assert calibration(scores > 0.5, scores).expected_error == pytest.approx(np.mean(shown), rel=0.05)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [([], "there are no scored rows"), ([-1.0, 3.5], "scores range from -1 to 3.5, and probabilities from 0 to 1")],
)
def test_scores_that_are_no_probabilities_have_no_calibration(scores: list[float], reason: str) -> None:
    table = calibration(np.ones(len(scores), dtype=bool), np.array(scores))
    assert table.reason == reason
    assert table.to_dict()["error"] is None
    assert table.to_dict()["bins"] == []


def test_registered_functions_and_their_estimates_agree() -> None:
    generator = np.random.default_rng(7)
    labels, scores = generator.random(200) < 0.5, generator.random(200)
    groups = Groups(generator.integers(0, 3, 200), ("a", "b", "c"))
    for metric in score_metrics():
        value = metric.estimate(labels, scores, groups).value.value
        assert value == pytest.approx(metric.function(labels, scores, groups))
        assert find_metric(metric.name) is metric
    assert find_metric("f1").name == "f1"
    with pytest.raises(DataError, match="no metric is called 'roc'; expected one of: accuracy"):
        find_metric("roc")


def test_a_metric_without_a_formula_is_resampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_module, "_SCORE_METRICS", dict(scores_module._SCORE_METRICS))

    @register_score_metric("mean_score", better="higher")
    def mean_score(is_positive: np.ndarray, scores: np.ndarray, groups: Groups) -> float:
        return float(scores.mean()) if len(scores) else math.nan

    generator = np.random.default_rng(8)
    scores = generator.random(300)
    everyone = Groups(np.zeros(300, dtype=np.int64), ("all",))
    estimate = mean_score.estimate(scores > 0.5, scores, everyone)
    assert estimate.interval is not None
    half = 1.96 * scores.std() / math.sqrt(300)
    assert estimate.interval.low == pytest.approx(scores.mean() - half, abs=0.004)
    assert estimate.interval.high == pytest.approx(scores.mean() + half, abs=0.004)
    assert estimate == mean_score.estimate(scores > 0.5, scores, everyone)
    assert mean_score.estimate(scores > 0.5, scores, everyone, intervals=False).interval is None
    nothing = mean_score.estimate(scores[:0] > 0, scores[:0], Groups(everyone.codes[:0], ("all",)))
    assert nothing.value.reason == "it is not defined on these scores"
    monkeypatch.setattr(scores_module, "RESAMPLED_ROWS", 300 * 10)
    slow = mean_score.estimate(scores > 0.5, scores, everyone).interval
    assert slow is not None
    assert slow.reason == "resampling 300 rows 200 times would take too long"
    with pytest.raises(DataError, match="'mean_score' exists already"):
        register_score_metric("mean_score", better="higher")(lambda *_: 0.0)
