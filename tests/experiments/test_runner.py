from __future__ import annotations

import dataclasses
import os
import random
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
from fairsad.experiments.runner import Tally, run
from fairsad.experiments.store import Store, Study, Trial
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


def test_time_left_is_that_of_the_same_method_on_the_same_graph() -> None:
    quick, slow, new = Trial("a", "gcn", "", 0), Trial("a", "edits", "", 0), Trial("b", "gcn", "", 0)
    tally = Tally(10)
    assert tally.seconds_left is None
    tally.took = {("a", "gcn"): [2.0, 4.0], ("a", "edits"): [300.0]}
    tally.waiting = [quick, slow]
    assert tally.seconds_left == pytest.approx(303)
    tally.running, tally.at_once = [new], 2  # not run yet: the mean of all, 102
    assert tally.seconds_left == pytest.approx((303 + 102) / 2)
    tally.running, tally.waiting = [slow], []  # the last one has nothing beside it
    assert tally.seconds_left == pytest.approx(300)


def test_two_that_end_at_once_do_not_promise_an_end_soon(tmp_path: Path) -> None:
    class Pairs(Pretend):
        def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
            every = list(trials)
            for first, second in zip(every[::2], every[1::2], strict=True):
                yield from (Started(first), Started(second))
                time.sleep(0.2)
                for trial in (first, second):
                    made = predictions(0.7, (0.3, 0.7), trial.seed)
                    yield Ended(result(trial, made), made)

    told = []
    run(Store(tmp_path), quick_plan(seeds=4), Pairs(), listener=lambda tally, ended: told.append(tally.seconds_left))
    after_first_pair = told[3]
    assert after_first_pair is not None
    assert 0.5 < after_first_pair < 2  # three more pairs


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


# -- killed ----------------------------------------------------------------------------------------------------

RUNS = """
import sys
from fairsad.experiments.backends import Processes
from fairsad.experiments.runner import Tally, run
from fairsad.experiments.store import Store
from tests.studies import quick_plan

if __name__ == "__main__":
    folder, seeds, epochs, jobs = sys.argv[1], *map(int, sys.argv[2:])
    run(Store(folder), quick_plan(seeds, epochs), Processes(jobs, threads=1))
"""


def started(store: Store, seeds: int, epochs: int, jobs: int) -> subprocess.Popen[bytes]:
    """A run in a process of its own, to be killed."""
    store.folder.mkdir(parents=True, exist_ok=True)
    script = store.folder.parent / "runs.py"
    script.write_text(RUNS)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), str(store.folder), *map(str, (seeds, epochs, jobs))]
    return subprocess.Popen(command, env=environment)


def files_of(store: Store) -> dict[str, int]:
    """Every result with the time it was written."""
    return {path.name: path.stat().st_mtime_ns for path in store.trials_folder.glob("*.json")}


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run ended before it was killed; the study is too small"


def check_that_both_are_whole(killed: Store, whole: Store, study: Study) -> None:
    """The same tables, and every trial once."""
    tables = [
        summarise(store.results(), num_draws=50).drop(columns=["seconds", "peak_mb"]) for store in (whole, killed)
    ]
    assert tables[0].equals(tables[1])
    expected = {f"{trial.key}.json" for trial in study.trials}
    assert set(files_of(killed)) == expected, "no trial is lost or doubled"
    assert len(expected) == len(study.trials)


@pytest.mark.timeout(300)
def test_killed_again_and_again_it_ends_in_the_tables_of_an_uninterrupted_run(tmp_path: Path) -> None:
    killed, whole, study = Store(tmp_path / "killed"), Store(tmp_path / "whole"), quick_plan(seeds=3)
    for _ in range(2):
        before = files_of(killed)
        process = started(killed, seeds=3, epochs=4, jobs=1)
        deadline = time.monotonic() + 90
        while len(files_of(killed)) == len(before) and time.monotonic() < deadline:
            time.sleep(0.02)
        kill(process)
        assert before.items() <= files_of(killed).items(), "what is finished is not computed again"
    assert 2 <= len(killed.results()) < len(study.trials)
    run(killed, study)
    run(whole, study)
    check_that_both_are_whole(killed, whole, study)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_ten_random_moments_it_ends_in_the_tables_of_an_uninterrupted_run(tmp_path: Path) -> None:
    seeds, epochs, jobs = 20, 200, 2
    study = quick_plan(seeds, epochs)
    killed, whole = Store(tmp_path / "killed"), Store(tmp_path / "whole")
    begin = time.monotonic()
    assert started(whole, seeds, epochs, jobs).wait() == 0
    seconds = time.monotonic() - begin
    # from before the first trial begins to a good part of the study, on a fast machine and on a busy one
    first = seconds - (max(files_of(whole).values()) - min(files_of(whole).values())) / 1e9
    latest = first + 0.2 * (seconds - first)

    moments = random.Random(0)
    finished = []
    for _ in range(10):
        before = files_of(killed)
        process = started(killed, seeds, epochs, jobs)
        time.sleep(moments.uniform(0.0, latest))
        kill(process)
        assert before.items() <= files_of(killed).items(), "what is finished is not computed again"
        finished.append(len(files_of(killed)))
    print(f"killed within {latest:.0f} s each time; finished of {len(study.trials)} trials: {finished}")
    assert 0 < finished[-1] < len(study.trials)
    assert started(killed, seeds, epochs, jobs).wait() == 0
    check_that_both_are_whole(killed, whole, study)
