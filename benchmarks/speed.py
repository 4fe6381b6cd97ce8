"""How long is a training epoch, how much memory does it take, and how do both grow?

``python -m benchmarks.speed`` measures everything side by side and writes ``benchmarks/results.md``. Each figure comes
from a process of its own, so that its peak memory is its own; the two formulations of one graph run one right after
the other, so that a noisy machine is noisy for both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import dense
from fairsad import load_graph
from fairsad.experiments.memory import peak_mb
from fairsad.graph import FairGraph
from fairsad.losses.distance_correlation import distance_correlation_loss
from fairsad.methods.base import GraphFacts
from fairsad.methods.fairsad import FairSAD, FairSADModel, FairSADTraining
from fairsad.methods.registry import published_settings
from fairsad.training.selection import Validator

RESULTS = Path(__file__).parent / "results.md"
# Pokec-z cannot be had everywhere; this is a graph of its size.
POKEC_SIZE = "synthetic:nodes=67796,edges=617958,features=277,train=4000,seed=1"
GRAPHS = {"german": "german", "bail": "bail", "credit": "credit", "pokec-z size": POKEC_SIZE}
READINGS: dict[str, Callable[..., FairSAD]] = {"paper": FairSAD, "code": FairSAD.reference_code}
SETTINGS_OF = {"pokec-z size": "pokec-z"}


class DenseTraining(FairSADTraining):
    """The same step on the dense formulation: same weights, same optimisers, other arithmetic."""

    def __init__(self, method: FairSAD, model: FairSADModel, graph: FairGraph, validator: Validator) -> None:
        super().__init__(method, model, graph, validator)
        self.links = dense.with_self_loops(graph.edge_index, graph.num_nodes)
        self.train_nodes = graph.mask("train").nonzero().squeeze(1)

    def train_epoch(self) -> dict[str, Tensor]:
        """One pass of Alg. 1's loop, written down plainly."""
        self.model.train()
        for optimiser in self.optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        graph = self.graph
        parts = dense.total_loss(
            self.method,
            self.model,
            self.discriminator,
            graph.x,
            self.links,
            graph.y,
            graph.sensitive[:, 0],
            self.train_nodes,
        )
        parts["loss"].backward()  # type: ignore[no-untyped-call]
        for optimiser in self.optimisers.values():
            optimiser.step()
        return parts


def make_training(name: str, reading: str, formulation: str) -> FairSADTraining:
    """The training procedure of a graph, ready for its first epoch."""
    graph = load_graph(GRAPHS.get(name, name))
    method = READINGS[reading](**published_settings("fairsad", SETTINGS_OF.get(name, name)))
    torch.manual_seed(0)
    model = method._build(GraphFacts.of(graph))
    kind = DenseTraining if formulation == "dense" else FairSADTraining
    return kind(method, model, graph, Validator(graph, "auc"))


def seconds_per_epoch(training: FairSADTraining, least_seconds: float, warm_up: int) -> float:
    """Median time of an epoch, over at least so many seconds."""
    for _ in range(warm_up):
        training.train_epoch()
    times: list[float] = []
    while sum(times) < least_seconds or not times:
        start = time.perf_counter()
        training.train_epoch()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def measure_epoch(name: str, reading: str, formulation: str) -> dict[str, float]:
    """One cell of the table."""
    training = make_training(name, reading, formulation)
    loaded = peak_mb()
    slow = formulation == "dense" and name in ("credit", "pokec-z size")
    seconds = seconds_per_epoch(training, least_seconds=0.0 if slow else 3.0, warm_up=0 if slow else 3)
    return {"seconds": seconds, "loaded_mb": loaded, "peak_mb": peak_mb()}


def measure_graph_scaling(edges: int) -> dict[str, float]:
    """Time of an epoch that reads every node and link (the code's reading), 32 features, 20 links a node."""
    nodes = edges // 10
    name = f"synthetic:nodes={nodes},edges={edges},features=32,train=4000,seed=1"
    training = make_training(name, "code", "ours")
    seconds = seconds_per_epoch(training, least_seconds=1.0, warm_up=1)
    return {"seconds": seconds, "peak_mb": peak_mb()}


def measure_distance_scaling(rows: int) -> dict[str, float]:
    """Time of the distance correlation loss with its gradient: 4 channels of 4 columns, half of each column tied."""
    torch.manual_seed(0)
    z = torch.nn.functional.dropout(torch.randn(rows, 4, 4), 0.5).requires_grad_()
    times: list[float] = []
    distance_correlation_loss(z.detach()[:100].requires_grad_(), ratio="pooled").backward()  # type: ignore[no-untyped-call]
    while sum(times) < 1.0:
        start = time.perf_counter()
        distance_correlation_loss(z, ratio="pooled").backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - start)
    return {"seconds": float(np.median(times)), "peak_mb": peak_mb()}


def growth_exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def measure_parts(name: str) -> dict[str, Any]:
    """Where the time of an epoch of the code's reading goes, and how far the passes over the links are from memory.

    The bytes of a pass are those that must move at least once if every neighbour's row comes from memory: its column
    number and its row of messages (and of gradient and scores on the way back) for each entry.
    """
    from torch.profiler import ProfilerActivity, profile

    training = make_training(name, "code", "ours")
    for _ in range(3):
        training.train_epoch()
    epochs = 10
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(epochs):
            training.train_epoch()
    rows = [
        (event.key, event.self_cpu_time_total / 1e6 / epochs)
        for event in profiler.key_averages()
        if event.self_cpu_time_total > 0
    ]
    rows.sort(key=lambda row: -row[1])
    (adjacency,) = training.rounds  # one layer
    entries = adjacency.num_entries
    forward = entries * (4 + 4 * (16 + 4))
    backward = entries * (4 + 4 * (16 + 16 + 4 + 4))
    return {
        "operations": rows[:12],
        "bytes": {"forward": forward, "backward": backward},
        "bandwidth": memory_bandwidth(),
    }


def memory_bandwidth() -> float:
    """Bytes per second of a copy too large for any cache, read and write counted."""
    source = torch.ones(1 << 27)
    target = torch.empty_like(source)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - start)
    return 2 * source.numel() * 4 / min(times)


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "epoch": measure_epoch,
    "graph": lambda edges: measure_graph_scaling(int(edges)),
    "distance": lambda rows: measure_distance_scaling(int(rows)),
    "parts": measure_parts,
}


def in_own_process(measure: str, *arguments: object) -> dict[str, Any] | None:
    """Measure in a child process; ``None`` where it ran out of memory."""
    command = [sys.executable, "-m", "benchmarks.speed", "--measure", measure, *map(str, arguments)]
    print(f"  {measure} {' '.join(map(str, arguments))}", end=" ", flush=True)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == -9:
        print("out of memory")
        return None
    if result.returncode:
        raise RuntimeError(result.stderr)
    measured: dict[str, Any] = json.loads(result.stdout)
    print(f"{measured.get('seconds', 0):.4g} s" if "seconds" in measured else "done")
    return measured


def _be_the_first_to_go() -> None:
    """Where memory runs out, the system ends this process and not the one that waits for it (Linux)."""
    preference = Path("/proc/self/oom_score_adj")
    if preference.exists():
        preference.write_text("1000")


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(
        ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(row) + " |" for row in rows)]
    )


def _seconds(value: float) -> str:
    return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.1f} s"


def epochs_section(with_dense: bool) -> str:
    """Time and memory of an epoch, ours against the dense formulation."""
    rows = []
    for name in GRAPHS:
        for reading in READINGS:
            judged = in_own_process("epoch", name, reading, "dense") if with_dense else None
            ours = in_own_process("epoch", name, reading, "ours")
            assert ours is not None
            rows.append(
                [
                    name,
                    reading,
                    _seconds(ours["seconds"]),
                    _seconds(judged["seconds"]) if judged else "–",
                    f"{judged['seconds'] / ours['seconds']:,.0f}" if judged else "–",
                    f"{ours['peak_mb']:,.0f}",
                    f"{ours['peak_mb'] - ours['loaded_mb']:,.0f}",
                    f"{judged['peak_mb']:,.0f}" if judged else "–",
                ]
            )
    header = ["graph", "reading", "epoch", "dense", "ratio", "peak MB", "of which training", "dense peak MB"]
    return "## An epoch\n\n" + _table(header, rows)


def scaling_section() -> str:
    """How time and memory grow with links and with training nodes."""
    text = []
    for title, measure, sizes, what in (
        ("Links", "graph", [10**5, 10**6, 10**7, 5 * 10**7], "undirected links"),
        ("Training nodes", "distance", [10**3, 10**4, 10**5, 10**6], "rows"),
    ):
        measured = [in_own_process(measure, size) for size in sizes]
        done = [(size, each) for size, each in zip(sizes, measured, strict=True) if each is not None]
        exponent = growth_exponent([size for size, _ in done], [each["seconds"] for _, each in done])
        rows = [[f"{size:,}", _seconds(each["seconds"]), f"{each['peak_mb']:,.0f}"] for size, each in done]
        text.append(f"### {title}\n\n{_table([what, 'time', 'peak MB'], rows)}\n\nGrowth exponent {exponent:.2f}.")
    note = (
        "Links: an epoch of the code's reading, which looks at every node, with 32 features and 20 links a node.\n"
        "Training nodes: the distance correlation loss with its gradient, 4 channels of 4 columns, half of each tied."
    )
    return f"## Growth\n\n{note}\n\n" + "\n\n".join(text)


def parts_section() -> str:
    """Where the time goes."""
    text = []
    for name in ("bail", "credit", "pokec-z size"):
        measured = in_own_process("parts", name)
        assert measured is not None
        rows = [[f"`{operation}`", _seconds(seconds)] for operation, seconds in measured["operations"]]
        least = {way: size / measured["bandwidth"] for way, size in measured["bytes"].items()}
        text.append(
            f"### {name}\n\n{_table(['operation (own time)', 'per epoch'], rows)}\n\n"
            f"At {measured['bandwidth'] / 1e9:.1f} GB/s, the bytes of a pass over the links alone would take "
            f"{_seconds(least['forward'])} forward and {_seconds(least['backward'])} backward if no neighbour's row "
            "were ever found in a cache."
        )
    return "## Where the time of an epoch goes (the code's reading)\n\n" + "\n\n".join(text)


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", choices=MEASURES, help="one measurement, as JSON")
    parser.add_argument("--no-dense", action="store_true", help="without the dense formulation (22 GB on Credit)")
    parser.add_argument("arguments", nargs="*")
    chosen = parser.parse_args()
    if chosen.measure:
        _be_the_first_to_go()
        print(json.dumps(MEASURES[chosen.measure](*chosen.arguments)))
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "numba", "numpy"))
    head = (
        "# Speed and memory\n\n"
        f"Made by `python -m benchmarks.speed` with {torch.get_num_threads()} threads; {versions}. Times are medians; "
        "peak memory is that of the whole process. 'Dense' is `benchmarks/dense.py`: the matrix of pairs, a loop over "
        "channels, n × n distances. The published settings of each benchmark; 'pokec-z size' is a generated graph with "
        "Pokec-z's numbers of nodes, links, features and training nodes."
    )
    sections = [head, epochs_section(with_dense=not chosen.no_dense), scaling_section(), parts_section()]
    RESULTS.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    print(f"written to {RESULTS.name}")


if __name__ == "__main__":
    main()
