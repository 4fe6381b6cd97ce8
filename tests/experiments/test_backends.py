from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterable

import pytest

from fairsad.experiments.backends import Backend, Ended, InProcess, Processes, Ray, Started, threads_each
from fairsad.experiments.store import Trial
from tests.studies import quick_plan

TRIALS = quick_plan().trials


def computed(backend: Backend, trials: Iterable[Trial] = TRIALS) -> dict[str, Ended]:
    """Ended trials by key; every one started once before it ended."""
    started: list[str] = []
    ended: dict[str, Ended] = {}
    for event in backend.run(trials):
        if isinstance(event, Started):
            started.append(event.trial.key)
        else:
            assert event.result.trial.key in started
            assert event.result.trial.key not in ended
            ended[event.result.trial.key] = event
    assert len(started) == len(set(started)) == len(ended)
    return ended


def numbers(ended: dict[str, Ended]) -> dict[str, object]:
    """What must not depend on where a trial ran."""
    found = {}
    for key, event in ended.items():
        assert event.result.done, event.result.error
        assert event.predictions is not None
        assert event.predictions.scores is not None
        found[key] = (event.result.metrics, event.predictions.predictions.tolist(), event.predictions.scores.tolist())
    return found


def test_processes_compute_what_this_process_computes() -> None:
    assert numbers(computed(Processes(2, threads=1))) == numbers(computed(InProcess()))


def test_a_trial_that_fails_is_told_and_the_others_go_on() -> None:
    wrong = dataclasses.replace(TRIALS[0], data="changed")
    broken = dataclasses.replace(TRIALS[0], settings={"epochs": "many"})
    ended = computed(InProcess(), [wrong, broken, TRIALS[1]])
    assert "was changed when the study was planned" in ended[wrong.key].result.error
    assert ended[broken.key].result.status == "failed"
    assert "\n" not in ended[broken.key].result.error
    assert "Traceback" in ended[broken.key].result.traceback
    assert ended[TRIALS[1].key].result.done


def test_a_process_that_is_killed_fails_its_trial_only() -> None:
    """The method kills its own process, as a system without memory would."""
    fatal = dataclasses.replace(TRIALS[0], graph="synthetic:nodes=300,seed=1", method="tests.kill")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRSAD_TEST_KILL", "1")
        ended = computed(_KillingProcesses(1, threads=1), [fatal, TRIALS[1]])
    assert "ended by SIGKILL; often that is memory running out, then use fewer --jobs" in ended[fatal.key].result.error
    assert ended[TRIALS[1].key].result.done


class _KillingProcesses(Processes):
    """Kills the worker that is given the fatal trial."""

    def run(self, trials: Iterable[Trial]):  # type: ignore[no-untyped-def]
        for event in super().run(trials):
            yield event
            if isinstance(event, Started) and event.trial.method == "tests.kill":
                from multiprocessing import active_children

                (child,) = active_children()
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)


def test_the_next_trial_is_taken_when_there_is_room() -> None:
    taken: list[str] = []

    def trials() -> Iterable[Trial]:
        for trial in TRIALS[:2]:
            taken.append(trial.key)
            yield trial

    events = iter(InProcess().run(trials()))
    assert isinstance(next(events), Started)
    assert len(taken) == 1


def test_cores_are_shared_out() -> None:
    assert threads_each(10_000) == 1


@pytest.mark.xdist_group("ray")
@pytest.mark.timeout(300)
def test_a_ray_cluster_of_two_nodes_computes_what_this_process_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed (extra 'cluster')")
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        assert numbers(computed(Ray(cluster.address, threads=1))) == numbers(computed(InProcess()))
        assert not ray.is_initialized(), "the connection is closed at the end"
    finally:
        cluster.shutdown()
