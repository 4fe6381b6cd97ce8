from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsad import load_graph
from fairsad.errors import DataError, ProtocolError
from fairsad.experiments.backends import Ended, Event, Started, failed
from fairsad.experiments.store import Result, Trial
from fairsad.experiments.tune import JOURNAL, Candidate, choose, search_space, tune
from tests.studies import GRAPH, predictions

optuna = pytest.importorskip("optuna", reason="optuna is not installed (extra 'tune')")


class Bowl:
    """A made-up method: utility is best at alpha = 1, the gap falls with beta; every fifth trial fails."""

    def __init__(self, fails: bool = False) -> None:
        self.trials: list[Trial] = []
        self.fails = fails

    def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
        for trial in trials:
            self.trials.append(trial)
            yield Started(trial)
            if self.fails and len(self.trials) % 5 == 0:
                yield failed(trial, "it broke")
                continue
            alpha, beta = trial.settings["alpha"], trial.settings["beta"]
            metrics = {
                "auc": 0.8 - 0.05 * np.log10(alpha) ** 2 - 0.01 * np.log10(beta),
                "demographic_parity_gap": 0.1 - 0.02 * np.log10(beta),
            }
            yield Ended(Result(trial, "done", metrics=metrics), predictions(0.7, (0.4, 0.6)))


def search(folder: Path, backend: Any, trials: int = 12, **options: Any) -> list[Candidate]:
    return tune(GRAPH, "fairsad", folder, trials=trials, backend=backend, **options)


def test_only_validation_nodes_are_looked_at(tmp_path: Path) -> None:
    backend = Bowl()
    search(tmp_path, backend, seeds=2)
    assert {trial.split for trial in backend.trials} == {"val"}
    assert not any(trial.detail for trial in backend.trials)
    assert len(backend.trials) == 24


def test_it_starts_from_the_method_as_it_is_and_finds_better(tmp_path: Path) -> None:
    candidates = search(tmp_path, Bowl(), trials=40)
    assert candidates[0].settings["alpha"] == 0.1
    best = max(candidates, key=lambda each: each.utility - each.gap)
    assert best.utility - best.gap > candidates[0].utility - candidates[0].gap + 0.02
    assert choose(candidates) == best


def test_the_front_is_marked(tmp_path: Path) -> None:
    candidates = search(tmp_path, Bowl())
    front = [each for each in candidates if each.on_front]
    for each in candidates:
        beaten = any(other.utility > each.utility and other.gap < each.gap for other in candidates)
        assert not (beaten and each.on_front)
    assert front


def test_an_interrupted_search_goes_on(tmp_path: Path) -> None:
    first = Bowl()
    search(tmp_path, first, trials=5)
    second = Bowl()
    candidates = search(tmp_path, second, trials=8)
    assert len(first.trials) == 5
    assert len(second.trials) == 3
    assert [each.number for each in candidates] == list(range(8))
    assert search(tmp_path, Bowl(), trials=8) == candidates


def test_the_journal_of_another_search_is_refused(tmp_path: Path) -> None:
    search(tmp_path, Bowl(), trials=2)
    assert (tmp_path / JOURNAL).is_file()
    with pytest.raises(ProtocolError, match="journal of another search: its gap is 'demographic_parity_gap'"):
        search(tmp_path, Bowl(), gap="equal_opportunity_gap")


def test_a_failed_candidate_is_told_and_counts(tmp_path: Path) -> None:
    told: list[Candidate | str] = []
    candidates = search(tmp_path, Bowl(fails=True), trials=10, listener=told.append)
    assert len(candidates) == 8
    assert told.count("candidate 4: it broke") == 1
    assert len(told) == 10


def test_fixed_settings_stay(tmp_path: Path) -> None:
    backend = Bowl()
    search(tmp_path, backend, trials=4, fixed={"alpha": 2.0, "epochs": 7})
    assert {trial.settings["alpha"] for trial in backend.trials} == {2.0}
    assert {trial.settings["epochs"] for trial in backend.trials} == {7}


def test_a_nearly_constant_predictor_is_never_chosen() -> None:
    constant = Candidate(0, {}, 0.9, 0.0, 0.99)
    wide, narrow = Candidate(1, {}, 0.8, 0.2, 0.6), Candidate(2, {}, 0.7, 0.05, 0.6)
    assert choose([constant, wide, narrow]) == narrow
    assert choose([constant, wide, narrow], max_gap=0.3) == wide
    assert choose([constant, wide, narrow], max_gap=0.1) == narrow
    with pytest.raises(ProtocolError, match="none of 3 candidates with a gap of at most 0.01 is more than"):
        choose([constant, wide, narrow], max_gap=0.01)


def test_what_cannot_be_searched_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'accuracy' is not a gap"):
        search(tmp_path, Bowl(), gap="accuracy")
    with pytest.raises(DataError, match="constant declares no setting to search for"):
        search_space("constant")


def test_real_trials_of_a_search(tmp_path: Path) -> None:
    candidates = tune(GRAPH, "gcn", tmp_path, trials=3, fixed={"epochs": 5})
    assert len(candidates) == 3
    assert all(0.3 < each.utility < 1 for each in candidates)
    assert load_graph(GRAPH).num_nodes == 300
