"""Where trials are computed: in this process, in processes beside it, or on a Ray cluster.

A backend computes and nothing else: whoever runs it keeps the results. So a killed run leaves no writer behind, and a
machine of a cluster needs no folder in common with ours.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError, FairsadError
from fairsad.evaluation.predictions import Predictions
from fairsad.experiments.store import Result, Trial

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

logger = logging.getLogger("fairsad")

# What the libraries below read when they are loaded.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class Started(NamedTuple):
    """A trial is being computed."""

    trial: Trial


class Ended(NamedTuple):
    """A trial has ended, well or not."""

    result: Result
    predictions: Predictions | None = None
    nodes: npt.NDArray[np.int64] | None = None


Event = Started | Ended


class Backend(Protocol):
    """Computes trials, taking the next when there is room for it; the events of different trials come in any order."""

    def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
        """Compute all of them; a trial that fails is an event like any other."""
        ...


def attempt(trial: Trial) -> Ended:
    """Compute a trial; whatever goes wrong with it becomes its result."""
    from fairsad.experiments.execute import execute

    try:
        return Ended(*execute(trial))
    except FairsadError as error:
        return failed(trial, str(error), traceback.format_exc())
    except Exception as error:  # a bug of a method must not take the other trials with it
        return failed(trial, f"{type(error).__name__}: {error}", traceback.format_exc())


def failed(trial: Trial, error: str, trace: str = "") -> Ended:
    """The end of a trial that failed, told in one line."""
    return Ended(Result(trial, "failed", " ".join(error.split()), trace))


class InProcess:
    """One trial after the other, in this process."""

    def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
        """Compute all of them."""
        for trial in trials:
            yield Started(trial)
            yield attempt(trial)


@dataclass(frozen=True)
class Processes:
    """Processes beside this one; each is used for many trials, and a new one takes the place of one that died.

    Attributes:
        jobs: How many.
        threads: Threads of each; by default the cores are shared out evenly.
    """

    jobs: int
    threads: int | None = None

    def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
        """Compute all of them."""
        waiting = iter(trials)
        workers: dict[connection.Connection, _Worker] = {}
        try:
            while True:
                while len(workers) < self.jobs and (trial := next(waiting, None)) is not None:
                    worker = _Worker.start(self.threads or threads_each(self.jobs))
                    workers[worker.pipe] = worker
                    yield Started(worker.give(trial))
                if not workers:
                    return
                for ready in connection.wait(list(workers)):
                    assert isinstance(ready, connection.Connection)
                    worker = workers[ready]
                    try:
                        yield Ended(*ready.recv())
                    except (EOFError, ConnectionError):
                        yield failed(worker.trial, worker.last_words())
                        del workers[ready]
                        continue
                    if (trial := next(waiting, None)) is not None:
                        yield Started(worker.give(trial))
                    else:
                        worker.dismiss()
                        del workers[ready]
        finally:
            for worker in workers.values():
                worker.process.kill()


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: connection.Connection
    trial: Trial

    @classmethod
    def start(cls, threads: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _environment(dict.fromkeys(THREAD_VARIABLES, str(threads))):
            process.start()
        theirs.close()
        return cls(process, ours, Trial("", "", "", 0))

    def give(self, trial: Trial) -> Trial:
        self.trial = trial
        self.pipe.send(trial)
        return trial

    def dismiss(self) -> None:
        self.pipe.close()
        self.process.join()

    def last_words(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            name = signal.Signals(-code).name
            hint = "; often that is memory running out, then use fewer --jobs" if -code == signal.SIGKILL else ""
            return f"its process was ended by {name}{hint}."
        return f"its process ended with exit code {code}."


def _work(pipe: connection.Connection) -> None:
    """Compute what comes through the pipe until it is closed, or the process at its other end is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives out the work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            trial = pipe.recv()
        except EOFError:
            return
        pipe.send(tuple(attempt(trial)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def threads_each(jobs: int) -> int:
    """Threads of each of so many processes, so that together they have one per core."""
    from fairsad.experiments.protocol import host

    return max(1, int(host()["cores"]) // jobs)


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class Ray:
    """A Ray cluster: the same trials, wherever there is room.

    Attributes:
        address: Of the cluster; by default that of ``RAY_ADDRESS`` or the running one, else a new one on this machine.
        threads: Threads of a trial, and so the cores that it takes.
    """

    address: str | None = None
    threads: int = 1

    def run(self, trials: Iterable[Trial]) -> Iterator[Event]:
        """Compute all of them."""
        ray = _ray()
        begun_here = not ray.is_initialized()
        if begun_here:
            variables = {name: value for name, value in os.environ.items() if name.startswith("FAIRSAD_")}
            variables |= dict.fromkeys(THREAD_VARIABLES, str(self.threads))
            ray.init(
                address=self.address,
                runtime_env={"env_vars": variables},
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        try:
            # A trial that fails is reported; it must not be run again behind our back.
            remote = ray.remote(num_cpus=self.threads, max_retries=0)(attempt)
            running = {remote.remote(trial): trial for trial in trials}
            for trial in running.values():
                yield Started(trial)
            while running:
                (done,), _ = ray.wait(list(running))
                trial = running.pop(done)
                try:
                    yield ray.get(done)
                except ray.exceptions.RayError as error:
                    yield failed(trial, f"Ray lost it: {error}")
        finally:
            if begun_here:
                ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise DataError(
            "--ray needs the package ray, which is not installed. Run: pip install 'fairsad[cluster]'"
        ) from None
    return ray
