from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fairsad.evaluation.intervals import mean_std
from fairsad.experiments.reference import load_published
from fairsad.experiments.store import Result, Store
from fairsad.experiments.summary import summarise, welch_difference
from tests.studies import made_up, made_up_sweep


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    store = Store(tmp_path_factory.mktemp("made-up"))
    made_up(store)
    return store.results()


def test_means_and_deviations_are_over_seeds(results: list[Result]) -> None:
    frame = summarise(results, intervals=False).set_index(["label", "metric"])
    for label, metric in (("GCN", "auc"), ("FairSAD", "demographic_parity_gap")):
        values = [each.metrics[metric] for each in results if each.trial.label == label]
        assert frame.loc[(label, metric), "mean"] == pytest.approx(np.mean(values))
        assert frame.loc[(label, metric), "std"] == pytest.approx(np.std(values))
        assert frame.loc[(label, metric), "seeds"] == 3
    assert frame.loc[("Constant", "auc"), "seeds"] == 1


def test_intervals_hold_the_mean_and_gaps_stay_above_zero(results: list[Result]) -> None:
    frame = summarise(results, num_draws=300)
    defined = frame[frame["low"].notna() & (frame["label"] != "Constant")]
    assert len(defined) > 10
    assert (defined["low"] <= defined["mean"]).all()
    assert (defined["mean"] <= defined["high"]).all()
    assert (defined["low"] >= 0).all()


def test_ours_stands_beside_the_published(results: list[Result]) -> None:
    table = load_published("comparison")
    frame = summarise(results, table, intervals=False).set_index(["label", "metric"])
    row, cell = frame.loc[("GCN", "auc")], table.find("german", "GCN", "auc")
    assert cell is not None
    assert row["published_mean"] == cell.mean
    assert row["difference"] == pytest.approx(row["mean"] - cell.mean)
    assert row["within_two_std"] == (abs(row["difference"]) <= 2 * cell.std + 5e-5)
    assert math.isnan(frame.loc[("Constant", "auc"), "published_mean"])


def test_what_a_paper_rounds_is_not_held_against_us(results: list[Result]) -> None:
    """The paper's accuracy of FairSAD on German is 70.00 ± 0.00; 0.70 and 0.700001 are that."""
    same = [replace(each, metrics=each.metrics | {"accuracy": 0.70001}) for each in results]
    frame = summarise(same, load_published("comparison"), intervals=False).set_index(["label", "metric"])
    assert frame.loc[("FairSAD", "accuracy"), "within_two_std"]


def ranks(results: list[Result], unranked: tuple[str, ...] = ()) -> dict[str, int | None]:
    """By the gap."""
    frame = summarise(results, intervals=False, unranked=[("german", label, "") for label in unranked])
    chosen = frame[frame["metric"] == "demographic_parity_gap"]
    return {
        label: None if rank is pd.NA else int(rank) for label, rank in zip(chosen["label"], chosen["rank"], strict=True)
    }


def test_of_two_rows_the_better_is_best_and_the_worse_is_not_second_best(results: list[Result]) -> None:
    """The constant predictor, without any gap, is nobody's best."""
    assert ranks(results) == {"FairSAD": 1, "GCN": None, "Constant": None}
    third = [
        replace(
            each, trial=replace(each.trial, label="Third"), metrics=each.metrics | {"demographic_parity_gap": 0.999}
        )
        for each in results
        if each.trial.label == "GCN"
    ]
    assert ranks([*results, *third]) == {"FairSAD": 1, "GCN": 2, "Constant": None, "Third": 3}
    assert ranks([*results, *third], unranked=("FairSAD",)) == {
        "FairSAD": None, "GCN": 1, "Constant": None, "Third": None
    }  # fmt: skip


def test_a_row_without_a_good_run_is_still_there(results: list[Result]) -> None:
    broken = [Result(results[0].trial, "failed", "it broke")]
    frame = summarise(broken)
    assert (frame["failed"] == 1).all()
    assert frame["mean"].isna().all()


def test_a_sweep_has_a_row_for_every_point(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made_up_sweep(store, {"alpha": (0.1, 1.0), "beta": (1.0, 5.0)})
    frame = summarise(store.results(), intervals=False)
    assert set(frame["point"]) == {"alpha=0.1 beta=1", "alpha=0.1 beta=5", "alpha=1 beta=1", "alpha=1 beta=5"}
    assert set(frame["at_beta"]) == {1.0, 5.0}


def test_the_difference_from_a_published_mean_is_welchs() -> None:
    ours, theirs = np.array([0.71, 0.74, 0.70, 0.73, 0.69]), np.array([0.60, 0.66, 0.71, 0.63, 0.64])
    mean, std = mean_std(theirs)
    difference, low, high = welch_difference(list(ours), mean, std, 5)
    judge = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (difference, low, high) == pytest.approx((ours.mean() - theirs.mean(), judge.low, judge.high))
    assert welch_difference([0.7, 0.7], 0.7, 0.0, 5) == (0.0, 0.0, 0.0)
    assert all(map(math.isnan, welch_difference([0.7], 0.6, 0.1, 5)[1:]))
    assert math.isnan(welch_difference([], 0.6, 0.1, 5)[0])
