"""``fairsad describe``: what is in a graph, before anything is trained on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairsad.cli.output import console, print_json

if TYPE_CHECKING:
    from fairsad.data.summary import AttributeSummary, Homophily, Summary

MOST_CLASSES_SHOWN = 6


def describe(
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH", help="A benchmark's name, synthetic:nodes=N, a graph card (.toml) or a saved graph."
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show sizes, groups and base rates, homophily and degrees of a graph.

    Example: fairsad describe german
    """
    from fairsad.data.summary import summarise
    from fairsad.sources import load_graph

    summary = summarise(load_graph(graph))
    if json:
        print_json(summary.to_dict())
    else:
        _print(summary)


def _print(summary: Summary) -> None:
    _line(summary.name, style="bold")
    _line(
        f"{summary.nodes:,} nodes, {summary.edges:,} links, {summary.features:,} features "
        f"(fingerprint {summary.fingerprint})"
    )
    splits = ", ".join(f"{count:,} {split}" for split, count in summary.splits.items())
    _line(f"split: {splits} ({summary.split_recipe or 'no recipe recorded'}; hash {summary.split_hash})")
    degrees = summary.degrees
    _line(
        f"neighbours: {degrees.min:,} to {degrees.max:,}, median {degrees.median:,.4g}, mean {degrees.mean:,.4g}; "
        f"{degrees.isolated:,} nodes without any"
    )

    labels = [(name, f"{count:,}", _percent(count / summary.nodes)) for name, count in summary.labels.items()]
    if summary.unlabelled:
        labels.append(("unlabelled", f"{summary.unlabelled:,}", _percent(summary.unlabelled / summary.nodes)))
    _table("Labels", ("class", "nodes", "share"), labels)
    for attribute in summary.attributes:
        _print_attribute(summary, attribute)
    _table(
        "Homophily",
        ("by", "links within", "by chance", "adjusted"),
        [
            _homophily_row("label", summary.label_homophily),
            *(_homophily_row(attribute.name, attribute.homophily) for attribute in summary.attributes),
        ],
    )
    _line("adjusted = (within - chance) / (1 - chance): 0 where links ignore it, 1 where all stay within")


def _print_attribute(summary: Summary, attribute: AttributeSummary) -> None:
    classes = list(summary.labels)
    shown = list(range(len(classes))) if 2 < len(classes) <= MOST_CLASSES_SHOWN else [len(classes) - 1]
    rows = [
        (
            group.name,
            f"{group.count:,}",
            _percent(group.count / summary.nodes),
            *(f"{count:,}" for count in group.splits.values()),
            *(_percent(group.base_rates[number]) for number in shown),
        )
        for group in attribute.groups
    ]
    if attribute.unknown:
        blank = [""] * (len(summary.splits) + len(shown))
        rows.append(("unknown", f"{attribute.unknown:,}", _percent(attribute.unknown / summary.nodes), *blank))
    _table(
        f"Sensitive attribute {attribute.name}",
        ("group", "nodes", "share", *summary.splits, *(f"rate of {classes[number]}" for number in shown)),
        rows,
    )
    _line(f"base rate gap: {_percent(attribute.base_rate_gap)}")
    held = f"among the features, as {', '.join(attribute.features)}" if attribute.features else "not among the features"
    _line(f"{attribute.name} is {held}")


def _homophily_row(by: str, homophily: Homophily) -> tuple[str, str, str, str]:
    adjusted = "n/a" if math.isnan(homophily.adjusted) else f"{homophily.adjusted:.3f}"
    return by, _percent(homophily.edge), _percent(homophily.chance), adjusted


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:.1%}"


def _line(text: str, style: str | None = None) -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    _line(f"\n{title}", style="bold")
    table = Table(box=None, header_style="dim", pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if position else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
