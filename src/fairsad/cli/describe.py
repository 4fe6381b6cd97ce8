"""``fairsad describe``: what is in a graph, before anything is trained on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairsad.cli.output import print_json, print_line, print_tables

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
    from fairsad.sources import load_graph

    loaded = load_graph(graph)  # a name that is not known is told before torch is imported
    from fairsad.data.summary import summarise

    summary = summarise(loaded)
    if json:
        print_json(summary.to_dict())
    else:
        _print(summary)


def _print(summary: Summary) -> None:
    print_line(summary.name, style="bold")
    print_line(
        f"{summary.nodes:,} nodes, {summary.edges:,} links, {summary.features:,} features "
        f"(fingerprint {summary.fingerprint})"
    )
    splits = ", ".join(f"{count:,} {split}" for split, count in summary.splits.items())
    print_line(f"split: {splits} ({summary.split_recipe or 'no recipe recorded'}; hash {summary.split_hash})")
    degrees = summary.degrees
    print_line(
        f"neighbours: {degrees.min:,} to {degrees.max:,}, median {degrees.median:,.4g}, mean {degrees.mean:,.4g}; "
        f"{degrees.isolated:,} nodes without any"
    )

    labels = [(name, f"{count:,}", _percent(count / summary.nodes)) for name, count in summary.labels.items()]
    if summary.unlabelled:
        labels.append(("unlabelled", f"{summary.unlabelled:,}", _percent(summary.unlabelled / summary.nodes)))
    _print_table("Labels", ("class", "nodes", "share"), labels)
    for attribute in summary.attributes:
        _print_attribute(summary, attribute)
    _print_table(
        "Homophily",
        ("by", "links within", "by chance", "adjusted"),
        [
            _homophily_row("label", summary.label_homophily),
            *(_homophily_row(attribute.name, attribute.homophily) for attribute in summary.attributes),
        ],
    )
    print_line("adjusted = (within - chance) / (1 - chance): 0 where links ignore it, 1 where all stay within")


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
    _print_table(
        f"Sensitive attribute {attribute.name}",
        ("group", "nodes", "share", *summary.splits, *(f"rate of {classes[number]}" for number in shown)),
        rows,
    )
    print_line(f"base rate gap: {_percent(attribute.base_rate_gap)}")
    held = f"among the features, as {', '.join(attribute.features)}" if attribute.features else "not among the features"
    print_line(f"{attribute.name} is {held}")


def _homophily_row(by: str, homophily: Homophily) -> tuple[str, str, str, str]:
    adjusted = "n/a" if math.isnan(homophily.adjusted) else f"{homophily.adjusted:.3f}"
    return by, _percent(homophily.edge), _percent(homophily.chance), adjusted


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{share:.1%}"


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from fairsad.evaluation.tables import Table

    print_tables([Table(title, tuple(columns), tuple(map(tuple, rows)))])
