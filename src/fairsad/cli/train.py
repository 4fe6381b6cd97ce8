"""``fairsad train``: fit a method on a graph and keep it in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import console, print_json

if TYPE_CHECKING:
    from fairsad.graph import FairGraph
    from fairsad.methods.base import Method

HISTORY_FILE = "history.parquet"


def train(
    graph: Annotated[str, typer.Argument(help="A benchmark, synthetic:nodes=N, a graph card (.toml), a saved graph.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the model and its history.", show_default=False)],
    method: Annotated[str, typer.Option("--method", help="A method of 'fairsad methods'.")] = "fairsad",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the run.")] = 0,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="Train with seeds 0 to N-1, each in a folder of its own.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Epochs, instead of the method's own.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the method, such as alpha=0.1; may be repeated.")
    ] = None,
    published: Annotated[
        bool, typer.Option(help="Start from the settings published for this benchmark, where there are any.")
    ] = True,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, ...")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")] = False,
    checkpoint_seconds: Annotated[
        float, typer.Option("--checkpoint-seconds", min=0, help="Least time between two checkpoints.")
    ] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train a method on a graph and save it, with what it scores on the test nodes.

    Example: `fairsad train german --seeds 5 --set alpha=0.5 --out runs/german`
    """
    from fairsad.methods.registry import make_method, method_class, published_settings
    from fairsad.sources import load_graph

    data = load_graph(graph)
    chosen: dict[str, Any] = {"device": device}
    from_paper = published_settings(method, data.name) if published else {}
    chosen |= from_paper | _parse(method_class(method), settings or [])
    if epochs is not None:
        chosen["epochs"] = epochs
    if from_paper and not as_json:
        told = ", ".join(f"{name} = {value:g}" for name, value in from_paper.items())
        console.print(f"[dim]settings published for {data.name}: {told}[/dim]")

    results = []
    for number in [seed] if seeds is None else range(seeds):
        folder = out if seeds is None else out / f"seed-{number}"
        model = make_method(method, **(chosen | {"seed": number}))
        results.append(_train_one(model, data, graph, folder, resume, checkpoint_seconds, quiet or as_json))
    if as_json:
        print_json({"graph": data.name, "method": method, "runs": results})
    else:
        _print_results(data, model, results, out)


def _parse(method: type[Method], settings: list[str]) -> dict[str, Any]:
    from fairsad.errors import DataError
    from fairsad.methods.parameters import parse_parameter

    chosen = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise DataError(f"--set {setting!r} has no value; expected name=value, such as --set alpha=0.1.")
        chosen[name.strip()] = parse_parameter(method, name.strip(), value.strip())
    return chosen


def _train_one(
    model: Method, data: FairGraph, source: str, folder: Path, resume: bool, checkpoint_seconds: float, quiet: bool
) -> dict[str, Any]:
    from fairsad.methods.neural import NeuralMethod

    if isinstance(model, NeuralMethod):
        model.fit(
            data,
            folder=folder,
            resume=resume,
            checkpoint_seconds=checkpoint_seconds,
            progress=False if quiet else None,
        )
        _write_history(model, folder)
    else:
        model.fit(data)
    model.protocol_["source"] = source  # so that 'fairsad evaluate' finds the graph again
    model.save(folder)
    evaluation = model.evaluate(data, intervals=False)
    gaps = {
        name: {gap: estimate.value.value for gap, estimate in attribute.gaps.items()}
        for name, attribute in evaluation.attributes.items()
    }
    return {
        "folder": str(folder),
        "protocol": model.protocol_,
        "test": {name: estimate.value.value for name, estimate in evaluation.overall.items()},
        "gaps": gaps,
    }


def _write_history(model: Any, folder: Path) -> None:
    """One row per epoch; what was not measured in an epoch is empty."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fairsad.files import whole_file

    columns = dict.fromkeys(name for row in model.history_ for name in row)
    table = pa.table({name: [row.get(name) for row in model.history_] for name in columns})
    with whole_file(folder / HISTORY_FILE) as partial:
        pq.write_table(table, partial)


def _print_results(data: FairGraph, model: Method, results: list[dict[str, Any]], out: Path) -> None:
    import numpy as np
    from rich.table import Table

    rows = {name: [run["test"][name] for run in results] for name in ("auc", "f1", "accuracy")}
    symbols = {"demographic_parity_gap": "ΔDP", "equal_opportunity_gap": "ΔEO"}
    for attribute in results[0]["gaps"]:
        for gap, symbol in symbols.items():
            rows[f"{symbol} {attribute}"] = [run["gaps"][attribute][gap] for run in results]
    nodes = int(data.mask("test").sum())
    runs = f"mean ± std of {len(results)} seeds" if len(results) > 1 else "one seed"
    table = Table("metric", "%", title=f"{model.card.title} on {data.name}: {nodes} test nodes, {runs}")
    for name, values in rows.items():
        spread = f" ± {100 * np.std(values):.2f}" if len(values) > 1 else ""
        table.add_row(name, f"{100 * np.mean(values):.2f}{spread}")
    console.print(table)
    console.print(f"saved in {out}", highlight=False)
