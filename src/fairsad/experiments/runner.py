"""Run the trials of a study that are not there yet, and keep each as soon as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

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
        ended_here: Ended in this run.
        running: Being computed now.
        seconds: Since the run began.
        seconds_first: Of these until the first trial ended, with the start of processes in them.
    """

    wanted: int
    done: int = 0
    failed: int = 0
    ended_here: int = 0
    running: list[Trial] = field(default_factory=list)
    seconds: float = 0.0
    seconds_first: float = 0.0

    @property
    def missing(self) -> int:
        """Trials without a result."""
        return self.wanted - self.done - self.failed

    @property
    def seconds_left(self) -> float | None:
        """As long as the others took in this run, each, after the first; unknown before the second has ended."""
        if self.ended_here < 2:
            return None
        return (self.seconds - self.seconds_first) / (self.ended_here - 1) * self.missing


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

        started = time.monotonic()
        for event in (backend or InProcess()).run([same[0] for same in twins.values()]):
            tally.seconds = time.monotonic() - started
            if isinstance(event, Started):
                tally.running.append(event.trial)
                tell(tally, None)
                continue
            tally.running.remove(event.result.trial)
            for trial in twins[event.result.trial.work]:
                _keep(store, event, trial, tally, tell)
        return tally


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
    tally.ended_here += 1
    if tally.ended_here == 1:
        tally.seconds_first = tally.seconds
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
