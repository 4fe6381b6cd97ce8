"""Run the trials of a study that are not there yet, and keep each as soon as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean

from fairsad.errors import ProtocolError
from fairsad.experiments.backends import Backend, Ended, InProcess, Started
from fairsad.experiments.store import Result, Store, Study, Trial

LOCK_FILE = ".running"


@dataclass
class Tally:
    """How far a run is.

    Attributes:
        wanted: Trials of the study.
        done: Ended well, in this run or an earlier one.
        failed: Failed, in this run or an earlier one.
        running: Being computed now.
        waiting: Not begun.
        took: Seconds of each that ended in this run, by graph and method.
        at_once: The most that were running at a time.
    """

    wanted: int
    done: int = 0
    failed: int = 0
    running: list[Trial] = field(default_factory=list)
    waiting: list[Trial] = field(default_factory=list)
    took: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    at_once: int = 1

    @property
    def missing(self) -> int:
        """Trials without a result."""
        return self.wanted - self.done - self.failed

    @property
    def seconds_left(self) -> float | None:
        """If the rest takes as long as the same method did on the same graph, or as all did where it has not run yet.

        Methods differ by a factor of a hundred, so one mean for all would mislead. Unknown before the first has ended.
        """
        if not self.took:
            return None
        every = fmean(seconds for each in self.took.values() for seconds in each)
        means = {kind: fmean(seconds) for kind, seconds in self.took.items()}
        left = [means.get(_kind(trial), every) for trial in (*self.running, *self.waiting)]
        return sum(left) / max(1, min(self.at_once, len(left)))


Listener = Callable[[Tally, Result | None], None]


def run(
    store: Store,
    study: Study,
    backend: Backend | None = None,
    *,
    retry_failed: bool = False,
    listener: Listener | None = None,
) -> Tally:
    """Compute what is missing of a study.

    A trial that was finished by an earlier run, killed or not, is not computed again. One that failed is not tried
    again unless that is asked for. Trials that compute the same, and stand in two places of a table, are computed once.

    Args:
        store: Where results are and go.
        study: What is wanted. It may have grown since an earlier run, and must otherwise be the same study.
        backend: Where to compute; by default in this process.
        retry_failed: Try failed trials again.
        listener: Called with the tally at every start (without a result) and every end.

    Raises:
        ProtocolError: The folder is that of another study, or another run is working on it.
    """
    with _alone(store):
        if store.has_study and store.study.name != study.name:
            raise ProtocolError(
                f"{store.folder} is the folder of the study {store.study.name!r}, not of {study.name!r}. "
                "Choose another folder with --out."
            )
        store.write_study(study)
        if retry_failed:
            store.forget(result.trial for result in store.results() if not result.done)
        there = store.results()
        tally = Tally(len(study.trials), sum(result.done for result in there), sum(not result.done for result in there))
        tell: Listener = listener or (lambda tally, result: None)
        twins = _by_work(store.missing())
        _copy_known(store, there, twins, tally, tell)

        tally.waiting = [same[0] for same in twins.values()]
        started: dict[str, float] = {}
        for event in (backend or InProcess()).run(tuple(tally.waiting)):
            if isinstance(event, Started):
                tally.waiting.remove(event.trial)
                tally.running.append(event.trial)
                tally.at_once = max(tally.at_once, len(tally.running))
                started[event.trial.key] = time.monotonic()
                tell(tally, None)
                continue
            trial = event.result.trial
            tally.running.remove(trial)
            tally.took.setdefault(_kind(trial), []).append(time.monotonic() - started[trial.key])
            for same in twins[trial.work]:
                _keep(store, event, same, tally, tell)
        return tally


def _kind(trial: Trial) -> tuple[str, str]:
    return trial.graph, trial.method


def _by_work(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        found.setdefault(trial.work, []).append(trial)
    return found


def _copy_known(
    store: Store, there: Iterable[Result], twins: dict[str, list[Trial]], tally: Tally, tell: Listener
) -> None:
    """What has been computed for another place of the table."""
    for result in there:
        if result.done:
            for trial in twins.pop(result.trial.work, []):
                nodes, predictions = store.predictions(result.trial)
                _keep(store, Ended(result, predictions, nodes), trial, tally, tell)


def _keep(store: Store, event: Ended, trial: Trial, tally: Tally, tell: Listener) -> None:
    result = store.write(replace(event.result, trial=trial), event.predictions, event.nodes)
    if result.done:
        tally.done += 1
    else:
        tally.failed += 1
    tell(tally, result)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Only one run at a time works on a folder; the lock of a killed run is released by the system."""
    from filelock import FileLock, Timeout

    store.folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(store.folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ProtocolError(
            f"another run is working on {store.folder}. Wait for it, or choose another folder with --out."
        ) from None
    try:
        yield
    finally:
        lock.release()
