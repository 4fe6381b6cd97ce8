"""``fairsad train``: fit a method on a graph and keep it in a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import console, print_json, print_line

if TYPE_CHECKING:
    from fairsad.graph import FairGraph
    from fairsad.methods.base import Method
    from fairsad.methods.preparation import PreparedGraph

HISTORY_FILE = "history.parquet"
DEFAULT_METHOD = "fairsad"


def train(
    graph: Annotated[str, typer.Argument(help="A benchmark, synthetic:nodes=N, a graph card (.toml), a saved graph.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the model and its history.", show_default=False)],
    method: Annotated[
        str | None, typer.Option("--method", help="A method of 'fairsad methods'; by default fairsad.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="Method and settings from a file that 'fairsad tune' wrote (.toml).")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the run; by default 0.")] = None,
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
    prepare: Annotated[
        str | None,
        typer.Option("--prepare", help="Train on the graph that this method makes; made once, for all seeds."),
    ] = None,
    prepare_settings: Annotated[
        list[str] | None, typer.Option("--prepare-set", help="A setting of the method that prepares; may be repeated.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, ...; by default what there is.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")] = False,
    checkpoint_seconds: Annotated[
        float, typer.Option("--checkpoint-seconds", min=0, help="Least time between two checkpoints.")
    ] = 30.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train a method on a graph and save it, with what it scores on the test nodes.

    A setting is the one given here with --set, --epochs or --seed; or else that of the file of --config, the published
    one, the method's own.

    Example: `fairsad train german --seeds 5 --set alpha=0.5 --out runs/german`; with what 'fairsad tune' chose:
    `fairsad train german --config runs/tune/chosen.toml --out runs/german`; a GCN on the graph that another method
    makes of this one: `fairsad train german --method gcn --prepare edits --out runs/german-edits`
    """
    from fairsad.errors import DataError
    from fairsad.methods.parameters import check_parameters, parameters_of
    from fairsad.methods.preparation import prepare_graph, require_preparation
    from fairsad.methods.registry import make_method, method_class
    from fairsad.sources import load_graph

    data = load_graph(graph)
    silent = quiet or as_json
    general = {name: value for name, value in (("device", device), ("seed", seed)) if value is not None}
    given = [*(settings or []), *([] if epochs is None else [f"epochs={epochs}"])]
    method, of_file = _method_and_file(method, config)
    chosen = _settings(method, data.name, given, published, general, of_file, told=not as_json)
    check_parameters(make_method(method, **chosen))  # a wrong setting is told before anything is prepared
    prepared = None
    if prepare is not None:
        require_preparation(prepare)
        made_by = _settings(
            prepare, data.name, prepare_settings or [], published, general, told=not as_json, option="--prepare-set"
        )
        preparing = make_method(prepare, **made_by)
        check_parameters(preparing)
        prepared = prepare_graph(preparing, data, graph, out, resume=resume, progress=False if silent else None)
        data = prepared.graph
    elif prepare_settings:
        raise DataError("--prepare-set is given without --prepare; expected a method that prepares the graph.")

    runs = {out: chosen}
    if seeds is not None:
        seeded = "seed" in parameters_of(method_class(method))
        numbered = [{"seed": number} if seeded else {} for number in range(seeds)]
        runs = {out / f"seed-{number}": chosen | own for number, own in enumerate(numbered)}
    results = []
    for folder, of_run in runs.items():
        model = make_method(method, **of_run)
        results.append(_train_one(model, data, graph, prepared, folder, resume, checkpoint_seconds, silent))
    if as_json:
        print_json({"graph": data.name, "method": method, "runs": results})
    else:
        _print_results(data, model, results, out)


def _method_and_file(method: str | None, config: Path | None) -> tuple[str, dict[str, Any]]:
    """The method, and what the file of ``--config`` sets it to."""
    from fairsad.errors import DataError
    from fairsad.experiments.settings_file import read_settings
    from fairsad.methods.parameters import parameters_of
    from fairsad.methods.registry import method_class

    if config is None:
        return method or DEFAULT_METHOD, {}
    of_file, settings = read_settings(config)
    if method not in (None, of_file):
        raise DataError(f"--method is {method}, but {config} has settings of {of_file}. Leave --method out.")
    known = parameters_of(method_class(of_file))
    if unknown := [name for name in settings if name not in known]:
        raise DataError(f"{config}: {of_file} has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
    return of_file, settings


def _settings(
    name: str,
    graph_name: str,
    given: list[str],
    published: bool,
    general: dict[str, Any],
    of_file: Mapping[str, Any] | None = None,
    *,
    told: bool,
    option: str = "--set",
) -> dict[str, Any]:
    """What a method is set to: the published, then the file's, then what every run has, then the given."""
    from fairsad.methods.page import show_value
    from fairsad.methods.parameters import parameters_of, parse_settings
    from fairsad.methods.registry import method_class, published_settings

    kind = method_class(name)
    sources = {
        f"settings published for {graph_name}": published_settings(name, graph_name) if published else {},
        "settings of the file": dict(of_file or {}),
        "": {key: value for key, value in general.items() if key in parameters_of(kind)},
        "given": parse_settings(kind, given, option),
    }
    settings: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source, found in sources.items():
        settings |= found
        origins |= dict.fromkeys(found, source)
    for source in sources if told else ():
        values = [f"{key} = {show_value(value)}" for key, value in settings.items() if origins[key] == source]
        if source and values:
            print_line(f"{kind.card.title}, {source}: {', '.join(values)}", style="dim")
    return settings


def _train_one(
    model: Method,
    data: FairGraph,
    source: str,
    prepared: PreparedGraph | None,
    folder: Path,
    resume: bool,
    checkpoint_seconds: float,
    quiet: bool,
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
    # so that 'fairsad evaluate' finds the graph again: a prepared one as seen from the folder of the model
    model.protocol_["source"] = source if prepared is None else Path(os.path.relpath(prepared.path, folder)).as_posix()
    if prepared is not None:
        model.protocol_["prepared"] = prepared.story
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
    print_line(f"{model.card.title} on {data.name}: {nodes} test nodes, {runs}", style="bold")
    table = Table("metric", "%")
    for name, values in rows.items():
        spread = f" ± {100 * np.std(values):.2f}" if len(values) > 1 else ""
        table.add_row(name, f"{100 * np.mean(values):.2f}{spread}")
    console.print(table)
    console.print(f"saved in {out}", highlight=False)
