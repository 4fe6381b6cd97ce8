"""``fairsad datasets``: what there is, what is on this machine, and whether it is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import console, print_json, print_line

if TYPE_CHECKING:
    from fairsad.datasets import Dataset

app = typer.Typer(
    help="List the benchmark datasets, download them and check them.",
    epilog="Example: fairsad datasets fetch bail credit",
    rich_markup_mode="markdown",
)

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Datasets; all where left out.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context, json: Json = False) -> None:
    """List the datasets: sizes, groups, licence, and what is on this machine."""
    if context.invoked_subcommand is not None:
        return
    rows = [_described(dataset) for dataset in _chosen(None)]
    if json:
        print_json(rows)
        return
    _print_table(
        ("dataset", "nodes", "edges", "features", "sensitive", "here", "licence"),
        [
            (
                row["name"],
                f"{row['nodes']:,}",
                f"{row['edges']:,}",
                f"{row['features']:,}",
                row["sensitive"],
                _availability(row),
                row["licence"],
            )
            for row in rows
        ],
    )


@app.command(epilog="Example: fairsad datasets fetch bail credit")
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Datasets to download.")], json: Json = False
) -> None:
    """Download datasets, so that they load without a network from then on."""
    from fairsad.data.download import fetch as fetch_file

    paths = {dataset.card.name: [str(fetch_file(file)) for file in dataset.card.files] for dataset in _chosen(names)}
    if json:
        print_json(paths)
        return
    for name, fetched in paths.items():
        print_line(f"{name}: {', '.join(fetched) or 'inside the package'}")


@app.command(epilog="Example: fairsad datasets verify bail")
def verify(names: Names = None, json: Json = False) -> None:
    """Check the files that are on this machine, and the sizes of the graphs made from them."""
    from fairsad.errors import DataError, FairsadError

    results: list[dict[str, str]] = []
    for dataset in _chosen(names):
        result = {"name": dataset.card.name, "status": "not here", "detail": ""}
        if None not in _paths(dataset):
            try:
                result |= {"status": "as published", "detail": f"fingerprint {dataset.load(offline=True).fingerprint}"}
            except FairsadError as error:
                result |= {"status": "wrong", "detail": str(error)}
        results.append(result)
    wrong = [result for result in results if result["status"] == "wrong"]
    if json:
        print_json(results)
    else:
        _print_table(("dataset", "status"), [(result["name"], result["status"]) for result in results])
    if wrong:
        raise DataError([f"{result['name']}: {result['detail']}" for result in wrong])


@app.command(epilog="Example: fairsad datasets table --markdown > docs/datasets.md")
def table(
    names: Names = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the documentation page.")] = False,
    json: Json = False,
) -> None:
    """Load datasets and compare their sizes with the paper's."""
    from dataclasses import asdict

    from fairsad.datasets import page

    chosen = [dataset.card.name for dataset in _chosen(names)]
    if markdown:
        for line in page.markdown(chosen).splitlines():
            print_line(line)
        return
    measured = [page.statistics(name) for name in chosen]
    if json:
        print_json(
            [
                {
                    "name": each.card.name,
                    "counts": asdict(each.counts),
                    "paper": asdict(each.card.paper) if each.card.paper else None,
                    "paper_edges_reason": each.paper_edges_reason,
                    "split": {split: asdict(part) for split, part in each.parts.items()} if each.parts else None,
                }
                for each in measured
            ]
        )
        return
    _print_table(
        ("dataset", "nodes", "features", "edges", "paper's edges", "why"),
        [
            (
                each.card.name,
                f"{each.counts.nodes:,}",
                f"{each.counts.features:,}",
                f"{each.counts.edges:,}",
                f"{each.card.paper.edges:,}" if each.card.paper else "–",
                each.paper_edges_reason,
            )
            for each in measured
        ],
    )


def _chosen(names: Sequence[str] | None) -> list[Dataset]:
    from fairsad import datasets

    return [datasets.get(name) for name in (names or datasets.names())]


def _paths(dataset: Dataset) -> list[str | None]:
    from fairsad.data.download import locate

    return [None if (path := locate(file)) is None else str(path) for file in dataset.card.files]


def _described(dataset: Dataset) -> dict[str, Any]:
    card = dataset.card
    return {
        "name": card.name,
        "title": card.title,
        "nodes": card.counts.nodes,
        "edges": card.counts.edges,
        "features": card.counts.features,
        "label": card.label,
        "label_names": card.label_names,
        "classes": card.counts.classes,
        "sensitive": card.sensitive,
        "sensitive_values": card.sensitive_values,
        "groups": card.counts.groups,
        "licence": card.licence,
        "licence_note": card.licence_note,
        "caveats": card.caveats,
        "files": [
            {"path": file.path, "bytes": file.size, "here": path}
            for file, path in zip(card.files, _paths(dataset), strict=True)
        ],
    }


def _availability(row: dict[str, Any]) -> str:
    missing = sum(file["bytes"] for file in row["files"] if file["here"] is None)
    return "yes" if not missing else f"{missing / 1e6:.1f} MB to get"


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    console.print(shown)
