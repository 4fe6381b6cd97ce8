"""One trial from beginning to end: load, train, predict, measure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairsad.errors import ProtocolError
from fairsad.evaluation.evaluate import Evaluation
from fairsad.evaluation.predictions import Predictions
from fairsad.experiments.memory import peak_mb, reset_peak
from fairsad.experiments.protocol import provenance
from fairsad.experiments.store import ATTRIBUTE_SEPARATOR, Result, Trial

if TYPE_CHECKING:
    from fairsad.graph import FairGraph


def data_of(graph: FairGraph) -> str:
    """What a trial must find again: the contents of the graph and its split."""
    return f"{graph.fingerprint}/{graph.split_hash}"


def execute(trial: Trial) -> tuple[Result, Predictions, npt.NDArray[np.int64]]:
    """Train and measure.

    Returns:
        The result, the predictions for the measured nodes, and the numbers of these nodes.

    Raises:
        ProtocolError: The graph is not the one that the trial was planned with.
    """
    from fairsad.evaluation.probe import probe
    from fairsad.methods.neural import NeuralMethod
    from fairsad.methods.registry import make_method
    from fairsad.sources import load_graph

    reset_peak()
    graph = load_graph(trial.graph)
    if data_of(graph) != trial.data:
        raise ProtocolError(
            f"graph {trial.graph!r} is {data_of(graph)} and was {trial.data} when the study was planned: its data or "
            "its split have changed. Start the study in a new folder."
        )
    method = make_method(trial.method, **trial.settings)
    started = time.monotonic()
    if isinstance(method, NeuralMethod):
        method.set_params(seed=trial.seed).fit(graph, progress=False)
    else:
        method.fit(graph)
    seconds = time.monotonic() - started

    evaluation = method.evaluate(graph, trial.split, intervals=trial.detail)
    # The yardsticks decide without a representation of their own.
    looked = (
        probe(method, graph, split=trial.split).to_dict() if trial.detail and isinstance(method, NeuralMethod) else None
    )
    result = Result(
        trial,
        "done",
        metrics=headline(evaluation),
        evaluation=evaluation.to_dict() if trial.detail else {},
        protocol=method.protocol_ | provenance(),
        seconds=seconds,
        peak_mb=peak_mb(),
        probe=looked,
        validation=dict(method.protocol_.get("validation", {})),
    )
    return result, evaluation.predictions, np.flatnonzero(graph.mask(trial.split).cpu().numpy())


def headline(evaluation: Evaluation) -> dict[str, float]:
    """Utility, and the gaps of each attribute: those of the first by their names alone."""
    metrics = {name: estimate.value.value for name, estimate in evaluation.overall.items()}
    for number, (attribute, evaluated) in enumerate(evaluation.attributes.items()):
        prefix = "" if number == 0 else f"{attribute}{ATTRIBUTE_SEPARATOR}"
        metrics |= {f"{prefix}{name}": estimate.value.value for name, estimate in evaluated.gaps.items()}
    return metrics
