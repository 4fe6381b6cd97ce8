"""Published numbers, to stand beside ours: one TOML file per table, in the unit of the paper."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fairsad.errors import DataError

PER_CENT = 100.0


@dataclass(frozen=True)
class PublishedValue:
    """One cell of a published table.

    Attributes:
        mean: As a fraction; NaN where the table has none.
        std: As a fraction.
        impossible: Why the number cannot be right, where that can be shown.
        missing: What the table says in place of a number, such as ``"OOM"``.
    """

    mean: float = math.nan
    std: float = math.nan
    impossible: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Published:
    """The numbers of a published table or figure.

    Attributes:
        name: Of the file.
        title: Of the table.
        source: Where it is published.
        seeds: Runs behind each mean.
        values: By graph, label and metric.
        aliases: Labels of ours that belong to the row of another label.
        statements: What the text says where a figure has no numbers, in the text's words as far as they go.
        note: What the reader should know about the numbers.
    """

    name: str
    title: str
    source: str
    seeds: int
    values: Mapping[tuple[str, str, str], PublishedValue] = field(repr=False)
    aliases: Mapping[str, str] = field(default_factory=dict)
    statements: tuple[str, ...] = ()
    note: str = ""

    def find(self, graph: str, label: str, metric: str) -> PublishedValue | None:
        """The cell of one of our rows; none where nothing was published."""
        return self.values.get((graph, self.aliases.get(label, label), metric))

    @property
    def labels(self) -> tuple[str, ...]:
        """Rows of the table, in its order."""
        return tuple(dict.fromkeys(label for _, label, _ in self.values))

    @property
    def graphs(self) -> tuple[str, ...]:
        """Graphs of the table, in its order."""
        return tuple(dict.fromkeys(graph for graph, _, _ in self.values))


def published_names() -> list[str]:
    """All tables by name."""
    folder = files("fairsad.experiments") / "published"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


@cache
def load_published(name: str) -> Published:
    """The numbers of a table by its name.

    Raises:
        DataError: There is no such table.

    Example:
        >>> value = load_published("comparison").find("german", "FairSAD", "auc")
        >>> (value.mean, value.std)
        (0.7039, 0.0204)
    """
    if name not in published_names():
        raise DataError(f"no published numbers are known as {name!r}; there are {', '.join(published_names())}.")
    text = (files("fairsad.experiments") / "published" / f"{name}.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    values = {
        (graph, label, metric): _value(cell)
        for graph, rows in content.get("values", {}).items()
        for label, cells in rows.items()
        for metric, cell in cells.items()
    }
    for remark in content.get("impossible", ()):
        for metric in remark["metrics"]:
            cell = (remark["graph"], remark["label"], metric)
            values[cell] = PublishedValue(values[cell].mean, values[cell].std, impossible=remark["reason"])
    return Published(
        name,
        content["title"],
        content["source"],
        content["seeds"],
        values,
        content.get("aliases", {}),
        tuple(content.get("statements", ())),
        content.get("note", ""),
    )


def _value(cell: Any) -> PublishedValue:
    """``[mean, std]`` in per cent, or a word where there is no number."""
    if isinstance(cell, str):
        return PublishedValue(missing=cell)
    # rounded where the decimals of the paper end, so that 70.39 is 0.7039 and not a neighbour of it
    mean, std = (round(number / PER_CENT, 6) for number in cell)
    return PublishedValue(mean, std)
