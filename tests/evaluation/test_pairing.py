"""Joint draws against resampled rows, permutation against all exchanges, AUC against DeLong."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from fairsad.errors import DataError
from fairsad.evaluation.pairing import (
    SharedNodes,
    hierarchical_bootstrap,
    mean_over_seeds,
    paired_difference,
    paired_differences,
    permutation_p_values,
    resampled_means,
)
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import GroupCounts, count_metrics, get_metric, measure
from fairsad.evaluation.scores import auc_with_influence


def make(rows: int, seed: int, models: int = 2, *, scored: bool = False, classes: int = 2) -> list[Predictions]:
    """Models that agree on most nodes; a few values are unknown."""
    generator = np.random.default_rng(seed)
    groups = generator.integers(-1 if rows > 20 else 0, 3, rows)
    labels = generator.integers(-1 if rows > 20 else 0, classes, rows)
    shared = generator.normal(size=rows)
    made = []
    for _ in range(models):
        noise = shared + 0.5 * generator.normal(size=rows)
        predictions = np.where(noise > -0.7, np.maximum(labels, 0), generator.integers(0, classes, rows))
        scores = np.round(noise + labels, 1) if scored else None
        made.append(Predictions.build(labels, predictions, {"group": groups}, scores))
    return made


def shared(
    runs: list[Predictions], attribute: str | None = "group", names: tuple[str, ...] = ("a", "b")
) -> SharedNodes:
    return SharedNodes.build(list(zip(names, runs, strict=True)), attribute)


@pytest.mark.parametrize("attribute", [None, "group"])
@pytest.mark.parametrize("classes", [2, 3])
def test_values_are_those_of_each_model_alone(attribute: str | None, classes: int) -> None:
    runs = make(200, 0, scored=False, classes=classes)
    joint = shared(runs, attribute)
    for metric in count_metrics("gap" if attribute else "utility"):
        expected = [measure(metric, run.counts(attribute)).value for run in runs]
        assert joint.values(metric.name) == pytest.approx(expected)


def test_a_node_that_one_model_leaves_out_is_left_out_of_all() -> None:
    runs = make(60, 1)
    silent = Predictions.build(
        runs[0].labels, np.where(np.arange(60) < 10, -1, runs[1].predictions), {"group": runs[0].partitions["group"]}
    )
    joint = shared([runs[0], silent], None)
    kept = (runs[0].labels >= 0) & (np.arange(60) >= 10)
    expected = (runs[0].predictions == runs[0].labels)[kept].mean()
    assert joint.values("accuracy")[0] == pytest.approx(expected)


def test_joint_draws_are_resampled_rows() -> None:
    runs = make(90, 2)
    joint = shared(runs)
    generator = np.random.default_rng(0)
    drawn = joint.draws(["demographic_parity_gap", "accuracy"], 3000, generator)
    literal: dict[str, list[list[float]]] = {"demographic_parity_gap": [], "accuracy": []}
    for _ in range(3000):
        rows = generator.integers(0, len(joint.labels), len(joint.labels))
        for name, found in literal.items():
            found.append([float(get_metric(name)(_counts(joint, column, rows).counts, 1)) for column in range(2)])
    for name, values in drawn.items():
        rows_of_values = np.array(literal[name])
        assert scipy.stats.ks_2samp(values[:, 0], rows_of_values[:, 0]).pvalue > 1e-3
        ours, theirs = values[:, 0] - values[:, 1], rows_of_values[:, 0] - rows_of_values[:, 1]
        assert scipy.stats.ks_2samp(ours, theirs).pvalue > 1e-3, name
        assert ours.std() == pytest.approx(theirs.std(), rel=0.07)


def _counts(joint: SharedNodes, column: int, rows: np.ndarray) -> GroupCounts:
    from fairsad.groups import Groups

    partition = Groups(joint.groups.codes[rows], joint.groups.names)
    return GroupCounts.from_codes(joint.labels[rows], joint.predictions[rows, column], partition, ("0", "1"))


@pytest.mark.parametrize("metric", ["accuracy", "demographic_parity_gap", "f1"])
def test_the_permutation_p_value_equals_the_share_of_all_exchanges(metric: str) -> None:
    generator = np.random.default_rng(3)
    rows = 12
    labels, groups = np.arange(rows) % 2, np.arange(rows) // 2 % 2
    first = np.where(generator.random(rows) < 0.95, labels, 1 - labels)
    second = generator.integers(0, 2, rows)
    runs = [Predictions.build(labels, p, {"group": groups}) for p in (first, second)]
    attribute = "group" if metric.endswith("gap") else None
    counts = [run.counts(attribute) for run in runs]
    observed = abs(measure(metric, counts[0]).value - measure(metric, counts[1]).value)
    differing = np.flatnonzero(first != second)
    extreme = total = 0
    for swaps in itertools.product((False, True), repeat=len(differing)):
        swapped = differing[np.array(swaps, dtype=bool)]
        ours, theirs = first.copy(), second.copy()
        ours[swapped], theirs[swapped] = second[swapped], first[swapped]
        values = [
            measure(metric, Predictions.build(labels, p, {"group": groups}).counts(attribute)).value
            for p in (ours, theirs)
        ]
        extreme += abs(values[0] - values[1]) >= observed - 1e-12
        total += 1
    joint = shared(runs, attribute)
    p_value, test = permutation_p_values([joint], [metric], "a", "b", num_draws=20_000)[metric]
    assert p_value == pytest.approx(extreme / total, abs=0.012)
    assert test == "permutation, 20000 exchanges"


def test_the_permutation_test_keeps_its_level() -> None:
    generator = np.random.default_rng(4)
    p_values: dict[str, list[float]] = {"accuracy": [], "demographic_parity_gap": []}
    for seed in range(300):
        labels, groups = generator.integers(0, 2, 120), generator.integers(0, 2, 120)
        runs = [
            Predictions.build(labels, np.where(generator.random(120) < 0.7, labels, 1 - labels), {"group": groups})
            for _ in range(2)
        ]
        found = permutation_p_values([shared(runs)], list(p_values), "a", "b", num_draws=400, seed=seed)
        for name, each in p_values.items():
            each.append(found[name][0])
    # Ties make it reject less often than allowed, never more often.
    assert 0.02 <= np.mean(np.array(p_values["accuracy"]) <= 0.05) <= 0.08
    assert np.mean(np.array(p_values["accuracy"]) <= 0.5) == pytest.approx(0.46, abs=0.07)
    for each in p_values.values():
        assert np.mean(np.array(each) <= 0.05) <= 0.08
        assert np.mean(np.array(each) <= 0.2) <= 0.25


def test_a_paired_auc_difference_has_delongs_standard_error() -> None:
    runs = make(400, 5, scored=True)
    found = paired_difference(runs[0], runs[1], "auc", num_draws=20_000)
    known = runs[0].labels >= 0
    one, two = (auc_with_influence(run.labels[known] == 1, run.scores_of(1)[known]) for run in runs)
    error = float(np.linalg.norm(one.influence - two.influence))
    assert found.value == pytest.approx(one.value - two.value)
    assert found.interval.high - found.interval.low == pytest.approx(2 * 1.96 * error, rel=0.04)
    assert math.isnan(found.p_value)
    assert "no common scale" in found.test
    separately = math.sqrt(one.variance + two.variance)
    assert error < 0.8 * separately  # pairing pays


def test_a_paired_auc_gap_agrees_with_resampled_rows() -> None:
    runs = make(600, 6, scored=True)
    found = paired_difference(runs[0], runs[1], "auc_gap", attribute="group", num_draws=4000)
    joint = shared(runs)
    generator = np.random.default_rng(0)
    differences = []
    for _ in range(600):
        rows = generator.integers(0, len(joint.labels), len(joint.labels))
        gaps = []
        for column in range(2):
            values = [
                auc_with_influence(
                    joint.labels[own] == 1, joint.scores[column, 0, own] if joint.scores is not None else rows[:0]
                ).value
                for own in (rows[joint.groups.codes[rows] == group] for group in range(3))
            ]
            gaps.append(max(values) - min(values))
        differences.append(gaps[0] - gaps[1])
    draws = joint.draws(["auc_gap"], 4000, np.random.default_rng(1))["auc_gap"]
    assert (draws[:, 0] - draws[:, 1]).std() == pytest.approx(np.std(differences), rel=0.15)
    assert found.interval.contains(found.value)


def test_turning_the_pair_round_turns_the_sign() -> None:
    runs = make(150, 7)
    for name, attribute in (("f1", None), ("equal_opportunity_gap", "group")):
        one = paired_difference(runs[0], runs[1], name, attribute=attribute, num_draws=4000)
        other = paired_difference(runs[1], runs[0], name, attribute=attribute, num_draws=4000)
        assert one.value == pytest.approx(-other.value)
        assert one.interval.low == pytest.approx(-other.interval.high, abs=0.02)
        assert one.p_value == pytest.approx(other.p_value, abs=0.03)
        assert one == paired_difference(runs[0], runs[1], name, attribute=attribute, num_draws=4000)


def test_a_model_against_itself_shows_nothing() -> None:
    run = make(100, 8)[0]
    found = paired_difference(run, run, "accuracy", num_draws=200)
    assert found.value == 0
    assert found.p_value == 1
    assert "every resample gives the same value" in found.interval.reason
    assert not found.excludes_zero
    assert found.to_dict()["interval"]["low"] is None


def test_an_undefined_metric_is_undefined_in_the_comparison() -> None:
    labels = np.zeros(20, dtype=int)
    runs = [Predictions.build(labels, np.arange(20) % k, {"group": np.arange(20) % 2}) for k in (1, 2)]
    found = paired_difference(runs[0], runs[1], "equal_opportunity_gap", attribute="group", num_draws=100)
    assert math.isnan(found.value)
    assert math.isnan(found.p_value)
    assert found.test == "none: the metric is undefined"
    assert found.interval.reason == "the value is undefined"
    assert found.to_dict()["value"] is None


def test_one_split_and_one_seed_is_the_plain_bootstrap() -> None:
    run = make(150, 9)[0]
    found = hierarchical_bootstrap([[run]], "f1", num_draws=4000)
    draws = shared([run], None, ("model",)).draws(["f1"], 4000, np.random.default_rng(3))["f1"][:, 0]
    assert (found.interval.low, found.interval.high) == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.01)
    assert (found.num_splits, found.num_seeds) == (1, 1)
    assert found.value == pytest.approx(measure("f1", run.counts()).value)
    assert found.to_dict()["value"] == found.value


def test_seeds_that_differ_widen_the_interval_and_seeds_that_agree_do_not() -> None:
    generator = np.random.default_rng(10)
    labels, groups = generator.integers(0, 2, 400), generator.integers(0, 2, 400)

    def run(accuracy: float, seed: int) -> Predictions:
        right = np.random.default_rng(seed).random(400) < accuracy
        return Predictions.build(labels, np.where(right, labels, 1 - labels), {"group": groups})

    same = hierarchical_bootstrap([[run(0.8, 0)] * 4], "accuracy", num_draws=3000)
    single = hierarchical_bootstrap([[run(0.8, 0)]], "accuracy", num_draws=3000)
    spread = hierarchical_bootstrap([[run(a, 0) for a in (0.6, 0.75, 0.85, 0.98)]], "accuracy", num_draws=3000)

    def width(found: object) -> float:
        return found.interval.high - found.interval.low  # type: ignore[attr-defined,no-any-return]

    assert width(same) == pytest.approx(width(single), rel=0.06)
    assert width(spread) > 2 * width(same)
    assert spread.num_seeds == 4
    # The seeds' share of the variance is that of a mean of four: s² / 4.
    seeds = np.array([measure("accuracy", run(a, 0).counts()).value for a in (0.6, 0.75, 0.85, 0.98)])
    nodes = shared([run(a, 0) for a in (0.6, 0.75, 0.85, 0.98)], None, ("m",) * 4)
    draws = resampled_means([nodes], ["accuracy"], num_draws=20_000)["accuracy"]["m"]
    node_draws = nodes.draws(["accuracy"], 20_000, np.random.default_rng(0))["accuracy"].mean(axis=1)
    # The nodes' own share rises a little, because a mean over three drawn seeds averages their errors less.
    assert draws.var() == pytest.approx(seeds.var(ddof=1) / 4 + node_draws.var(), rel=0.12)


def test_splits_are_resampled_too() -> None:
    splits = [[make(120, seed)[0]] for seed in (11, 12, 13, 14)]
    found = hierarchical_bootstrap(splits, "accuracy", num_draws=3000)
    values = [measure("accuracy", split[0].counts()).value for split in splits]
    assert found.value == pytest.approx(np.mean(values))
    assert found.interval.contains(found.value)
    assert found.num_splits == 4
    gaps = hierarchical_bootstrap(splits, "demographic_parity_gap", attribute="group", num_draws=1000)
    assert gaps.interval.method == "envelope"
    assert gaps.interval.low >= 0
    assert gaps.bias > 0  # a gap in a resample is larger on average


def test_more_than_one_seed_is_exchanged_together_and_unequal_numbers_are_not() -> None:
    runs = make(100, 15, models=4)
    joint = SharedNodes.build(list(zip(("a", "a", "b", "b"), runs, strict=True)))
    found = permutation_p_values([joint], ["accuracy"], "a", "b", num_draws=500)["accuracy"]
    assert 0 < found[0] <= 1
    uneven = SharedNodes.build(list(zip(("a", "a", "a", "b"), runs, strict=True)))
    p_value, test = permutation_p_values([uneven], ["accuracy"], "a", "b", num_draws=500)["accuracy"]
    assert math.isnan(p_value)
    assert "different numbers of seeds" in test
    differences = paired_differences([uneven], ["accuracy"], "b", num_draws=500)["accuracy"]["a"]
    expected = joint.values("accuracy")  # the same four runs
    assert differences.value == pytest.approx(expected[:3].mean() - expected[3])
    assert mean_over_seeds([joint], "accuracy", "a") == pytest.approx(expected[:2].mean())
    assert paired_differences([joint], ["f1"], "b", num_draws=50, p_values=False)["f1"]["a"].test == (
        "none: not asked for"
    )


def test_draws_in_which_a_group_disappears_are_undefined() -> None:
    groups = np.array([0] * 40 + [1] * 40 + [2] * 2)
    labels = np.arange(82) % 2
    run = Predictions.build(labels, np.arange(82) // 3 % 2, {"group": groups})
    draws = shared([run], "group", ("m",)).draws(["demographic_parity_gap"], 2000, np.random.default_rng(0))
    assert np.isnan(draws["demographic_parity_gap"]).mean() == pytest.approx((1 - 2 / 82) ** 82, abs=0.03)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: SharedNodes.build([]), "there are no predictions to compare"),
        (lambda: hierarchical_bootstrap([], "f1"), "there are no splits"),
        (lambda: shared([make(30, 0)[0], make(30, 1)[0]]), "the predictions of 'b' are about other nodes"),
        (lambda: shared(make(30, 0)).columns_of("c"), "there is no model called 'c'; expected one of: a, b"),
        (lambda: shared(make(30, 0)).values("auc"), "a model has no scores"),
        (
            lambda: hierarchical_bootstrap([[Predictions.build([-1], [1], {"group": [0]})]], "f1"),
            "no node has a known label",
        ),
    ],
)
def test_what_cannot_be_compared_is_explained(attempt: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        attempt()  # type: ignore[operator]
