"""Counts, rates and gaps against Fairlearn, scikit-learn and plain loops."""

from __future__ import annotations

import importlib.metadata
import math
import warnings
from collections.abc import Callable, Iterator

import fairlearn.metrics as fairlearn
import numpy as np
import pytest
import sklearn.metrics as sklearn
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsad.errors import DataError
from fairsad.evaluation import rates
from fairsad.evaluation.rates import (
    Gap,
    GroupCounts,
    constant_baseline,
    count_metrics,
    get_metric,
    measure,
    measure_rate,
    register_metric,
)
from fairsad.groups import Groups

Case = tuple[np.ndarray, np.ndarray, np.ndarray]


def counts_of(
    labels: np.ndarray, predictions: np.ndarray, groups: np.ndarray | None = None, classes: int = 2
) -> GroupCounts:
    partition = None
    if groups is not None:
        partition = Groups(np.asarray(groups), tuple(f"g={i}" for i in range(int(np.max(groups)) + 1)))
    return GroupCounts.from_codes(labels, predictions, partition, [str(i) for i in range(classes)])


def random_cases(classes: int = 2, number: int = 200) -> Iterator[Case]:
    """Cases in which every group has every label and every prediction, so that all judges define everything."""
    generator = np.random.default_rng(classes)
    made = 0
    while made < number:
        rows, num_groups = int(generator.integers(40, 160)), int(generator.integers(2, 5))
        labels, predictions = (generator.integers(0, classes, rows) for _ in range(2))
        predictions = np.where(generator.random(rows) < generator.random(), labels, predictions)
        groups = generator.integers(0, num_groups, rows)
        counts = counts_of(labels, predictions, groups, classes)
        if (counts.label_counts > 0).all() and (counts.prediction_counts > 0).all():
            made += 1
            yield labels, predictions, groups


FAIRLEARNS_RATES = {
    "demographic_parity_gap": fairlearn.selection_rate,
    "equal_opportunity_gap": fairlearn.true_positive_rate,
    "false_positive_rate": fairlearn.false_positive_rate,
    "predictive_parity_gap": sklearn.precision_score,
    "accuracy_gap": sklearn.accuracy_score,
}


def gaps_of_fairlearn(labels: np.ndarray, predictions: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    """All gaps from one ``MetricFrame``, which is what Fairlearn's single functions do one by one."""
    frame = fairlearn.MetricFrame(
        metrics=FAIRLEARNS_RATES, y_true=labels, y_pred=predictions, sensitive_features=groups
    )
    gaps = dict(frame.difference())
    gaps["equalised_odds_gap"] = max(gaps["equal_opportunity_gap"], gaps.pop("false_positive_rate"))
    return gaps


def test_gaps_equal_fairlearns_on_200_random_cases() -> None:
    for labels, predictions, groups in random_cases():
        counts = counts_of(labels, predictions, groups)
        expected = gaps_of_fairlearn(labels, predictions, groups)
        assert set(expected) == {metric.name for metric in count_metrics("gap")}
        for name, gap in expected.items():
            value = measure(name, counts)
            assert value.value == pytest.approx(gap, abs=1e-12)
            assert value.reason == ""


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        ("demographic_parity_gap", fairlearn.demographic_parity_difference),
        ("equal_opportunity_gap", fairlearn.equal_opportunity_difference),
        ("equalised_odds_gap", fairlearn.equalized_odds_difference),
    ],
)
def test_gaps_mean_what_fairlearns_functions_mean(name: str, judge: Callable[..., float]) -> None:
    for labels, predictions, groups in random_cases(number=10):
        expected = judge(labels, predictions, sensitive_features=groups)
        assert measure(name, counts_of(labels, predictions, groups)).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        ("accuracy", sklearn.accuracy_score),
        ("balanced_accuracy", sklearn.balanced_accuracy_score),
        ("f1", sklearn.f1_score),
    ],
)
def test_utility_equals_scikit_learns_on_200_random_cases(name: str, judge: Callable[..., float]) -> None:
    for labels, predictions, groups in random_cases():
        for counts in (counts_of(labels, predictions), counts_of(labels, predictions, groups)):
            assert measure(name, counts).value == pytest.approx(judge(labels, predictions), abs=1e-12)


def test_utility_of_three_classes_equals_scikit_learns_on_200_random_cases() -> None:
    for labels, predictions, groups in random_cases(classes=3):
        counts = counts_of(labels, predictions, groups, classes=3)
        assert measure("accuracy", counts).value == pytest.approx(sklearn.accuracy_score(labels, predictions))
        balanced = sklearn.balanced_accuracy_score(labels, predictions)
        assert measure("balanced_accuracy", counts).value == pytest.approx(balanced)
        each = sklearn.f1_score(labels, predictions, average=None)
        assert [measure("f1", counts, c).value for c in range(3)] == pytest.approx(each)
        assert measure("f1", counts).value == pytest.approx(sklearn.f1_score(labels, predictions, average="macro"))


def test_gaps_of_three_classes_are_fairlearns_of_each_class_against_the_rest_and_their_mean() -> None:
    for labels, predictions, groups in random_cases(classes=3, number=20):
        counts = counts_of(labels, predictions, groups, classes=3)
        each = [gaps_of_fairlearn(labels == c, predictions == c, groups) for c in range(3)]
        for metric in count_metrics("gap"):
            if metric.per_class:
                expected = [gaps[metric.name] for gaps in each]
                assert [measure(metric, counts, c).value for c in range(3)] == pytest.approx(expected)
                assert measure(metric, counts).value == pytest.approx(np.mean(expected))


def test_a_group_without_positives_is_undefined_here_and_zero_in_fairlearn() -> None:
    labels = np.array([1, 1, 0, 0, 0, 0])
    predictions = np.array([1, 1, 0, 0, 0, 1])
    groups = np.array([0, 0, 0, 1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fairlearn.equal_opportunity_difference(labels, predictions, sensitive_features=groups) == 1.0
    counts = counts_of(labels, predictions, groups)
    value = measure("equal_opportunity_gap", counts)
    assert math.isnan(value.value)
    assert value.reason == (
        "fewer than two groups have a true positive rate: group g=1 has no positive labels (0 of 3 rows)"
    )
    rate = measure_rate(rates.true_positive_rate, counts, 1, 1)
    assert math.isnan(rate.value)
    assert (rate.hits, rate.cases) == (0, 0)
    # A third group with positives makes the gap defined; the group it says nothing about is named.
    more = counts_of(np.r_[labels, 1, 1], np.r_[predictions, 1, 0], np.r_[groups, 2, 2])
    value = measure("equal_opportunity_gap", more)
    assert isinstance(value, Gap)
    assert value.value == 0.5
    assert value.undefined == ("g=1",)
    assert value.reason == "left out: group g=1 has no positive labels (0 of 3 rows)"
    assert (value.highest, value.lowest, value.highest_cases, value.lowest_cases) == ("g=0", "g=2", 2, 2)


def test_scikit_learn_calls_undefined_values_zero_or_skips_a_class_and_we_say_nan() -> None:
    nobody = np.zeros(5, dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sklearn.f1_score(nobody, nobody) == 0.0
        assert sklearn.precision_score(nobody, nobody) == 0.0
        assert sklearn.balanced_accuracy_score(nobody, nobody) == 1.0
    counts = counts_of(nobody, nobody)
    assert measure("f1", counts).reason == (
        "nothing is positive, neither by label nor by prediction (labels 0: 5, 1: 0; predictions 0: 5, 1: 0)"
    )
    assert math.isnan(measure("f1", counts).value)
    assert math.isnan(measure("balanced_accuracy", counts).value)
    assert "a class has no labels" in measure("balanced_accuracy", counts).reason
    assert measure("accuracy", counts).value == 1.0


def test_the_mean_over_classes_names_the_class_it_leaves_out() -> None:
    labels, predictions = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    value = measure("f1", counts_of(labels, predictions, classes=3))
    assert value.value == pytest.approx(sklearn.f1_score(labels, predictions, average="macro"))
    assert value.reason.startswith("class '2': nothing is positive")


def test_equalised_odds_is_undefined_if_either_rate_is() -> None:
    counts = counts_of(np.array([1, 1, 1, 0]), np.array([1, 0, 1, 0]), np.array([0, 0, 1, 1]))
    value = measure("equalised_odds_gap", counts)
    assert math.isnan(value.value)
    assert "false positive rate: group g=0 has no negative labels (0 of 2 rows)" in value.reason


def test_of_groups_with_equal_rates_the_smallest_carries_the_gap() -> None:
    counts = np.array([[[5, 5], [0, 0]], [[1, 1], [0, 0]], [[3, 3], [0, 0]]])
    value = measure("demographic_parity_gap", GroupCounts(counts, ("large", "small", "middle"), ("0", "1")))
    assert isinstance(value, Gap)
    assert value.value == 0
    assert (value.highest, value.lowest) == ("small", "middle")


columns = st.integers(0, 40).flatmap(
    lambda rows: st.tuples(
        *(st.lists(st.integers(-1, top), min_size=rows, max_size=rows) for top in (2, 2, 3)),
    )
)


@settings(max_examples=300, deadline=None)
@given(columns)
def test_everything_equals_plain_loops_with_empty_groups_absent_classes_and_unknown_values(
    case: tuple[list[int], list[int], list[int]],
) -> None:
    labels, predictions, groups = case
    names = ("a", "b", "c", "d")
    counts = GroupCounts.from_codes(
        np.array(labels, dtype=np.int64),
        np.array(predictions, dtype=np.int64),
        Groups(np.array(groups, dtype=np.int64), names),
        ["0", "1", "2"],
    )
    rows = list(zip(labels, predictions, groups, strict=True))
    assert counts.unknown_label == sum(y < 0 for y, _, _ in rows)
    assert counts.unknown_prediction == sum(y >= 0 > p for y, p, _ in rows)
    assert counts.unknown_group == sum(y >= 0 and p >= 0 > g for y, p, g in rows)
    known = [row for row in rows if min(row) >= 0]
    assert counts.num_rows == len(known)
    assert counts.coverage == pytest.approx(len(known) / len(rows) if rows else math.nan, nan_ok=True)
    for c in range(3):
        selection, hit, alarm, right, match = [], [], [], [], []
        for g in range(4):
            own = [(y, p) for y, p, group in known if group == g]
            selection.append([p == c for _, p in own])
            hit.append([p == c for y, p in own if y == c])
            alarm.append([p == c for y, p in own if y != c])
            right.append([y == c for y, p in own if p == c])
            match.append([y == p for y, p in own])

        def spread(groups_of_cases: list[list[bool]]) -> float:
            shares = [sum(cases) / len(cases) for cases in groups_of_cases if cases]
            return max(shares) - min(shares) if len(shares) > 1 else math.nan

        expected = {
            "demographic_parity_gap": spread(selection),
            "equal_opportunity_gap": spread(hit),
            "predictive_parity_gap": spread(right),
            "accuracy_gap": spread(match),
            "equalised_odds_gap": max(spread(hit), spread(alarm))
            if not math.isnan(spread(hit) + spread(alarm))
            else math.nan,
        }
        for name, value in expected.items():
            found = measure(name, counts, c)
            assert found.value == pytest.approx(value, nan_ok=True)
            assert float(get_metric(name)(counts.counts, c)) == pytest.approx(value, nan_ok=True)
            assert found.defined or found.reason
            assert 0 <= found.value <= 1 or not found.defined


@pytest.mark.parametrize("positive", [None, 0, 2])
def test_leading_axes_are_free(positive: int | None) -> None:
    many = np.random.default_rng(0).integers(0, 4, size=(5, 3, 4, 3, 3))
    for metric in count_metrics():
        together = metric(many, positive)
        assert together.shape == (5, 3)
        one_by_one = [[float(metric(counts, positive)) for counts in row] for row in many]
        np.testing.assert_array_equal(together, one_by_one)


def test_a_constant_predictor_scores_what_the_paper_calls_a_good_result() -> None:
    # 70 % of the applicants are good: calling everyone good gives F1 82.4 and no gap in demographic parity.
    counts = counts_of(np.array([1] * 175 + [0] * 75), np.array([1] * 240 + [0] * 10), np.arange(250) % 2)
    baseline = constant_baseline(counts)
    assert baseline.prediction == "1"
    assert baseline.share == baseline.values["accuracy"].value == 0.7
    assert baseline.values["f1"].value == pytest.approx(2 * 0.7 / 1.7)
    assert baseline.values["demographic_parity_gap"].value == 0
    other = constant_baseline(counts, prediction=0)
    assert (other.prediction, other.share) == ("0", pytest.approx(0.3))
    assert other.values["f1"].value == 0
    # Without groups to compare there are no gaps to list.
    assert "accuracy_gap" not in constant_baseline(counts.pooled()).values
    assert baseline.to_dict()["values"]["predictive_parity_gap"]["value"] is not None


def test_without_rows_everything_is_undefined_and_nothing_fails() -> None:
    counts = GroupCounts(np.zeros((2, 2, 2), dtype=np.int64), ("a", "b"), ("0", "1"))
    for metric in count_metrics():
        value = measure(metric, counts)
        assert not value.defined
        assert value.reason
        assert value.to_dict()["value"] is None
    assert math.isnan(counts.coverage)
    assert math.isnan(constant_baseline(counts).share)
    assert constant_baseline(counts).to_dict()["share"] is None
    assert "group a has no rows" in measure("accuracy_gap", counts).reason


@pytest.mark.parametrize(
    ("labels", "predictions", "groups", "names", "message"),
    [
        ([0, 1], [0], None, None, "predictions have 1 rows and labels have 2"),
        ([0, 1], [0, 1], Groups(np.array([0]), ("a",)), None, "groups have 1 rows"),
        ([0, 2], [0, 1], None, ["no", "yes"], "class code 2 found"),
        ([0, 1], [0, 1], Groups(np.array([0, 1]), ("a",)), None, "group code 1 found"),
        ([0.0, 1.0], [0, 1], None, None, "labels are an array of float64"),
        ([0, 1], [["0"], ["1"]], None, None, "predictions are an array of <U1"),
    ],
)
def test_columns_that_do_not_fit_are_explained(
    labels: list[float], predictions: list[int], groups: Groups | None, names: list[str] | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        GroupCounts.from_codes(labels, predictions, groups, names)


def test_counts_and_names_must_fit() -> None:
    with pytest.raises(DataError, match=r"counts have shape \(1, 2, 2\); expected \(2, 2, 2\)"):
        GroupCounts(np.zeros((1, 2, 2), dtype=np.int64), ("a", "b"), ("0", "1"))


def test_an_unknown_metric_or_class_is_explained() -> None:
    with pytest.raises(DataError, match="no metric on counts is called 'acuracy'; expected one of: accuracy"):
        get_metric("acuracy")
    with pytest.raises(DataError, match="positive class 2 does not exist; expected 0 to 1"):
        measure("f1", counts_of(np.array([0, 1]), np.array([0, 1])), 2)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_METRICS", dict(rates._METRICS))
    monkeypatch.setattr(rates, "RATES", dict(rates.RATES))


@pytest.mark.usefixtures("registry")
def test_a_metric_is_one_function_and_a_line() -> None:
    @register_metric("selection_ratio", better="higher", kind="gap", title="selection ratio")
    def selection_ratio(counts: np.ndarray, positive: int) -> np.ndarray:
        selected = rates.selection_rate(counts, positive)
        return selected.min(axis=-1) / selected.max(axis=-1)

    counts = counts_of(np.array([0, 1, 0, 1]), np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]))
    assert measure("selection_ratio", counts).value == 0.5
    assert selection_ratio in count_metrics("gap")
    with pytest.raises(DataError, match="a metric called 'selection_ratio' exists already"):
        register_metric("selection_ratio", better="higher")(lambda counts, positive: counts)
    with pytest.raises(DataError, match="a rate called 'precision' exists already"):
        rates.rate("precision", cases="rows")(lambda counts, positive: (counts, counts))


@pytest.mark.usefixtures("registry")
def test_plugins_are_loaded_by_entry_point_and_a_broken_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[str] = []

    class Plugin:
        name, value = "extra", "extra_package.metrics"

        def __init__(self, error: Exception | None = None) -> None:
            self.error = error

        def load(self) -> None:
            if self.error:
                raise self.error
            loaded.append(self.value)

    plugins = [Plugin()]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: plugins if group == "fairsad.metrics" else [])
    rates.load_plugins.cache_clear()
    try:
        count_metrics()
        count_metrics()
        assert loaded == ["extra_package.metrics"]
        rates.load_plugins.cache_clear()
        plugins[:] = [Plugin(ImportError("no module named extra_package"))]
        with pytest.raises(DataError, match=r"plug-in 'extra' \(extra_package.metrics\) failed to load: no module"):
            count_metrics()
    finally:
        rates.load_plugins.cache_clear()
