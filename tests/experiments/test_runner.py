from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fairsad.errors import ProtocolError
from fairsad.experiments.backends import Ended, Event, Started, failed
from fairsad.experiments.runner import run
from fairsad.experiments.store import Store, Trial
from fairsad.experiments.summary import summarise
from tests.studies import predictions, quick_plan, result


class Pretend:
    """A backend that makes results up, and counts."""

    def __init__(self, fails: Iterable[str] = ()) -> None:
        self.fails = set(fails)
        self.computed: list[str] = []

    def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
        for trial in trials:
            yield Started(trial)
            self.computed.append(trial.key)
            if trial.key in self.fails:
                yield failed(trial, "it broke")
            else:
                made = predictions(0.7, (0.3, 0.7), trial.seed)
                yield Ended(result(trial, made), made)


def test_what_is_finished_is_not_computed_again(tmp_path: Path) -> None:
    store, study, first, second = Store(tmp_path), quick_plan(), Pretend(), Pretend()
    tally = run(store, study, first)
    assert (tally.done, tally.failed, tally.missing) == (4, 0, 0)
    assert first.computed == [trial.key for trial in study.trials]
    assert run(store, study, second).done == 4
    assert second.computed == []
    grown = run(store, quick_plan(seeds=3), second)
    assert grown.done == 6
    assert len(second.computed) == 2


def test_a_failed_trial_is_kept_and_tried_again_only_when_asked(tmp_path: Path) -> None:
    store, study = Store(tmp_path), quick_plan()
    broken = study.trials[1].key
    tally = run(store, study, Pretend(fails=[broken]))
    assert (tally.done, tally.failed) == (3, 1)
    again = Pretend()
    assert run(store, study, again).failed == 1
    assert again.computed == []
    assert run(store, study, again, retry_failed=True).failed == 0
    assert again.computed == [broken]


def test_equal_work_is_computed_once_and_stands_in_both_places(tmp_path: Path) -> None:
    study = quick_plan()
    twins = tuple(dataclasses.replace(trial, label=f"{trial.label} again") for trial in study.trials)
    store, backend = Store(tmp_path), Pretend()
    run(store, dataclasses.replace(study, trials=study.trials[:2]), backend)
    tally = run(store, dataclasses.replace(study, trials=(*study.trials, *twins)), backend)
    assert tally.done == 8
    assert len(backend.computed) == 4
    for trial, twin in zip(study.trials, twins, strict=True):
        one, other = store.read(trial), store.read(twin)
        assert one is not None
        assert other is not None
        assert one.metrics == other.metrics
        assert other.trial == twin
        np.testing.assert_array_equal(one.predictions().predictions, other.predictions().predictions)


def test_progress_is_told(tmp_path: Path) -> None:
    seen = []
    run(
        Store(tmp_path),
        quick_plan(),
        Pretend(),
        listener=lambda tally, ended: seen.append((tally.done, len(tally.running), tally.missing, ended is not None)),
    )
    assert seen[:3] == [(0, 1, 4, False), (1, 0, 3, True), (1, 1, 3, False)]
    assert seen[-1] == (4, 0, 0, True)


def test_the_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    run(Store(tmp_path), quick_plan(), Pretend())
    with pytest.raises(ProtocolError, match="is the folder of the study 'compare', not of 'other'"):
        run(Store(tmp_path), dataclasses.replace(quick_plan(), name="other"), Pretend())


def test_only_one_run_works_on_a_folder(tmp_path: Path) -> None:
    class Nosy(Pretend):
        def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
            with pytest.raises(ProtocolError, match="another run is working on"):
                run(Store(tmp_path), quick_plan(), Pretend())
            yield from super().run(trials)

    assert run(Store(tmp_path), quick_plan(), Nosy()).done == 4


KILLED = """
import sys
from fairsad.experiments.backends import Processes
from fairsad.experiments.runner import run
from fairsad.experiments.store import Store
from tests.studies import quick_plan

if __name__ == "__main__":
    run(Store(sys.argv[1]), quick_plan(seeds=3), Processes(1, threads=1))
"""


@pytest.mark.timeout(300)
def test_killed_again_and_again_it_ends_in_the_tables_of_an_uninterrupted_run(tmp_path: Path) -> None:
    """``python -m benchmarks.kills`` does this ten times on a larger study."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    killed, whole = Store(tmp_path / "killed"), Store(tmp_path / "whole")
    for _ in range(2):
        process = subprocess.Popen([sys.executable, str(script), str(killed.folder)], env=environment)
        before = len(list(killed.trials_folder.glob("*.json")))
        deadline = time.monotonic() + 90
        while len(list(killed.trials_folder.glob("*.json"))) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    study = quick_plan(seeds=3)
    assert 2 <= len(killed.results()) < len(study.trials)
    run(killed, study)
    run(whole, study)
    tables = [
        summarise(store.results(), num_draws=50).drop(columns=["seconds", "peak_mb"]) for store in (whole, killed)
    ]
    assert tables[0].equals(tables[1])
    assert len(list(killed.trials_folder.glob("*.json"))) == len(study.trials), "no trial is lost or doubled"
