from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsad.errors import DataError
from fairsad.evaluation.compare import Comparison, compare, pareto_front
from fairsad.evaluation.evaluate import evaluate_predictions
from fairsad.evaluation.intervals import mean_std
from fairsad.evaluation.pairing import paired_difference
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import count_metrics, measure


def runs(accuracy: float, tilt: float, seeds: int, split: int = 0, *, scored: bool = True) -> list[Predictions]:
    """Runs on the nodes of a split; ``tilt`` is how much more often the second group is selected."""
    nodes = np.random.default_rng(split)
    labels, sex, age = nodes.integers(0, 2, 400), nodes.integers(0, 2, 400), nodes.integers(-1, 2, 400)
    made = []
    for seed in range(seeds):
        noise = np.random.default_rng([split, seed, int(100 * accuracy)])
        scores = labels * accuracy + (1 - accuracy) * noise.random(400) + tilt * sex * noise.random(400)
        predictions = (scores > 0.5).astype(np.int64)
        made.append(Predictions.build(labels, predictions, {"sex": sex, "age": age}, scores if scored else None))
    return made


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare({"gcn": runs(0.45, 0.4, 3), "fairsad": runs(0.4, 0.0, 3), "weak": runs(0.1, 0.1, 2)}, num_draws=300)


def test_rows_are_utility_and_then_the_gaps_of_every_attribute(comparison: Comparison) -> None:
    utility = [metric.name for metric in count_metrics("utility")] + ["auc"]
    gaps = [metric.name for metric in count_metrics("gap")] + ["auc_gap"]
    assert [row.metric for row in comparison.rows] == utility + 3 * gaps
    assert list(dict.fromkeys(row.attribute for row in comparison.rows)) == ["", "sex", "age", "sex × age"]
    assert comparison.reference == "gcn"
    assert comparison.num_seeds == {"gcn": 3, "fairsad": 3, "weak": 2}


def test_means_and_spreads_are_over_the_runs(comparison: Comparison) -> None:
    values = [measure("demographic_parity_gap", run.counts("sex")).value for run in runs(0.45, 0.4, 3)]
    found = comparison.row("demographic_parity_gap", "sex").models["gcn"]
    assert (found.mean, found.std) == (pytest.approx(np.mean(values)), pytest.approx(mean_std(values)[1]))
    assert found.values == pytest.approx(values)
    assert comparison.row("demographic_parity_gap").attribute == "sex"  # the first one


def test_differences_are_from_the_reference_with_interval_and_p_value(comparison: Comparison) -> None:
    row = comparison.row("demographic_parity_gap", "sex")
    assert set(row.differences) == {"fairsad", "weak"}
    difference = row.differences["fairsad"]
    assert difference.value == pytest.approx(row.models["fairsad"].mean - row.models["gcn"].mean)
    assert difference.value < 0
    assert difference.excludes_zero
    assert difference.p_value < 0.05
    assert "different numbers of seeds" in row.differences["weak"].test


def test_one_run_each_is_the_paired_difference() -> None:
    one, other = runs(0.4, 0.2, 1), runs(0.2, 0.0, 1)
    found = compare({"one": one[0], "other": other}, num_draws=500, seed=7).row("f1").differences["other"]
    assert found.value == pytest.approx(paired_difference(other[0], one[0], "f1", num_draws=10).value)
    again = compare({"one": one, "other": other}, "one", num_draws=500, seed=7)
    assert found == again.row("f1").differences["other"]


def test_runs_on_other_nodes_are_other_splits() -> None:
    models = {
        name: [run for split in (1, 2, 3) for run in runs(accuracy, 0.1, 2, split)]
        for name, accuracy in (("a", 0.4), ("b", 0.2))
    }
    found = compare(models, num_draws=200)
    assert found.num_splits == 3
    row = found.row("accuracy")
    assert len(row.models["a"].values) == 6
    assert row.models["a"].mean == pytest.approx(np.mean(row.models["a"].values))
    assert row.differences["b"].interval.contains(row.differences["b"].value)


def test_evaluations_can_be_compared_and_ranked() -> None:
    labels, sex = np.array([0, 0, 1, 1] * 25), np.array([0, 1] * 50)
    right = evaluate_predictions(labels, labels, {"sex": sex}, intervals=False)
    wrong = evaluate_predictions(labels, 1 - labels, {"sex": sex}, intervals=False)
    half = evaluate_predictions(
        labels, np.where(np.arange(100) < 50, labels, 1 - labels), {"sex": sex}, intervals=False
    )
    row = compare({"wrong": wrong, "right": right, "half": half, "also": right}, num_draws=100).row("accuracy")
    assert row.best == ("right", "also")
    assert row.second == ("half",)
    assert row.differences["right"].value == 1
    assert "auc" not in [row.metric for row in compare({"one": right}).rows]
    assert compare({"one": right}).row("accuracy").differences == {}


def test_a_gap_is_better_when_lower(comparison: Comparison) -> None:
    row = comparison.row("demographic_parity_gap", "sex")
    means = {name: value.mean for name, value in row.models.items()}
    assert row.best == (min(means, key=lambda name: means[name]),)


def test_an_undefined_value_is_never_best() -> None:
    labels, sex = np.array([0, 0, 1, 1] * 25), np.array([0, 1] * 50)
    nobody = evaluate_predictions(labels, np.zeros(100, dtype=int), {"sex": sex}, intervals=False)
    right = evaluate_predictions(labels, labels, {"sex": sex}, intervals=False)
    row = compare({"nobody": nobody, "right": right}, num_draws=50).row("predictive_parity_gap")
    assert math.isnan(row.models["nobody"].mean)
    assert (row.best, row.second) == (("right",), ())


def test_tables_json_and_frame_say_the_same(comparison: Comparison) -> None:
    content = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert content["schema"] == "fairsad.comparison/1"
    row = comparison.row("auc")
    frame = comparison.to_frame().set_index(["metric", "attribute", "model"])
    assert frame.loc[("auc", "", "fairsad"), "mean"] == row.models["fairsad"].mean
    assert frame.loc[("auc", "", "fairsad"), "low"] == row.differences["fairsad"].interval.low
    assert math.isnan(frame.loc[("auc", "", "gcn"), "difference"])
    titles = [table.title for table in comparison.tables()]
    assert titles[:3] == ["Utility", "Utility: difference from gcn", "Gaps by sex"]
    text = comparison.to_markdown()
    assert f"{row.models['gcn'].mean:.3f} ± {row.models['gcn'].std:.3f}" in text
    assert f"{row.differences['fairsad'].value:+.3f} [" in text
    assert [len(table.rows[0]) for table in comparison.tables()[:2]] == [4, 3]


def test_the_front_of_a_comparison_names_models(comparison: Comparison) -> None:
    front = comparison.pareto("auc", "demographic_parity_gap", "sex")
    aucs = {name: value.mean for name, value in comparison.row("auc").models.items()}
    gaps = {name: value.mean for name, value in comparison.row("demographic_parity_gap", "sex").models.items()}
    expected = [
        name
        for name in comparison.models
        if not any(aucs[o] >= aucs[name] and gaps[o] <= gaps[name] for o in comparison.models if o != name)
    ]
    assert list(front) == expected


points = st.lists(st.tuples(*(2 * [st.one_of(st.integers(0, 4).map(float), st.just(math.nan))])), max_size=12)


@settings(deadline=None)
@given(points)
def test_the_pareto_front_equals_brute_force(points: list[tuple[float, float]]) -> None:
    def beats(p: tuple[float, float], q: tuple[float, float]) -> bool:
        return p[0] >= q[0] and p[1] <= q[1] and p != q

    expected = [
        not math.isnan(sum(q)) and not any(beats(p, q) for p in points if not math.isnan(sum(p))) for q in points
    ]
    utility, gap = np.array(points).reshape(-1, 2).T
    assert pareto_front(utility, gap).tolist() == expected


@pytest.mark.parametrize(
    ("models", "reference", "message"),
    [
        ({}, None, "there are no models to compare"),
        ({"a": runs(0.4, 0.1, 1)}, "b", "the reference 'b' is none of the models; expected one of: a"),
        ({"a": runs(0.4, 0.1, 1, 0), "b": runs(0.4, 0.1, 1, 1)}, None, "a was evaluated on nodes on which b was not"),
    ],
)
def test_what_cannot_be_compared_is_explained(
    models: dict[str, list[Predictions]], reference: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        compare(models, reference)


def test_an_unknown_row_is_explained(comparison: Comparison) -> None:
    with pytest.raises(DataError, match=r"no 'roc'; expected one of: accuracy, .*demographic_parity_gap \(sex\)"):
        comparison.row("roc")
    with pytest.raises(DataError, match="no 'auc_gap' for attribute 'race'"):
        comparison.row("auc_gap", "race")
