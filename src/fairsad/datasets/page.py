"""The datasets in numbers, against the paper: measured on the loaded graphs, and the page that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairsad.datasets.base import Card, Counts, counts_of

if TYPE_CHECKING:
    from fairsad.graph import FairGraph

COMMAND = "fairsad datasets table --markdown"


@dataclass(frozen=True)
class Part:
    """One part of a split.

    Attributes:
        nodes: How many there are.
        groups: How many of each sensitive value.
        positives: How many of each sensitive value are of class 1.
    """

    nodes: int
    groups: tuple[int, ...]
    positives: tuple[int, ...]


@dataclass(frozen=True)
class Statistics:
    """A dataset in numbers.

    Attributes:
        card: Its card.
        counts: Its sizes.
        parts: Its split, or ``None`` where the graph was not loaded and ``counts`` are the published ones.
    """

    card: Card
    counts: Counts
    parts: dict[str, Part] | None

    @property
    def paper_edges_reason(self) -> str:
        """Why the paper's number of edges is what it is, found by trying what it may have counted."""
        paper, counts = self.card.paper, self.counts
        if paper is None:
            return "not in the paper"
        entries = 2 * counts.edges + counts.nodes
        if paper.edges == counts.edges:
            return "the same count: every link once"
        if 2 * paper.edges == entries:
            return f"the paper has half of the {entries:,} entries of A + I: each link once, each self-loop half"
        if paper.edges == counts.edges + counts.nodes:
            return f"the paper has every link once and {counts.nodes:,} self-loops"
        return (
            f"the published edge file has {counts.edges:,} different links; half of the {entries:,} entries of A + I "
            f"would be {entries // 2:,}; the paper's number cannot be had from that file"
        )


def statistics(name: str) -> Statistics:
    """Measure a dataset; one whose class and group counts nobody has published is not loaded."""
    from fairsad import datasets

    dataset = datasets.get(name)
    card = dataset.card
    if card.counts.classes is None:
        return Statistics(card, card.counts, None)
    graph = dataset.load()
    return Statistics(card, counts_of(graph), {split: _part(graph, split) for split in ("train", "val", "test")})


def _part(graph: FairGraph, split: str) -> Part:
    mask, sensitive = graph.mask(split), graph.sensitive[:, 0]
    groups = [mask & (sensitive == value) for value in range(len(graph.sensitive_values[0]))]
    return Part(
        nodes=int(mask.sum()),
        groups=tuple(int(group.sum()) for group in groups),
        positives=tuple(int((group & (graph.y == 1)).sum()) for group in groups),
    )


def markdown(names: Sequence[str]) -> str:
    """The page ``docs/datasets.md``."""
    measured = [statistics(name) for name in names]
    return "\n".join(
        [
            _INTRODUCTION,
            "## Sizes, against the paper",
            "",
            "`load` insists on the sizes in this table. An edge is a link between two different nodes, counted once. A "
            "dataset marked * has not been loaded to write this page; its numbers are the published ones.",
            "",
            *_rows("dataset", "nodes", "features", "edges", "paper: nodes", "features", "edges", "the two edge counts"),
            *(_sizes(each) for each in measured),
            "",
            "## Labels and groups",
            "",
            *_rows("dataset", "label", "classes, with nodes", "sensitive attribute", "groups, with nodes"),
            *(_labels(each) for each in measured),
            "",
            "Nodes that are in no class are unlabelled: they are part of the graph, and in no part of a split.",
            "",
            "## The published split",
            "",
            "Split seed 20. `split_seed=N` draws another one by the same recipe. Nodes of group 0 / group 1, and how "
            "many of them are of class 1; the last two columns are what predicting class 1 for everyone scores on the "
            "test part, in percent, with no gap at all.",
            "",
            *_rows("dataset", "train", "of class 1", "val", "of class 1", "test", "of class 1", "accuracy", "F1"),
            *(_split(each) for each in measured if each.parts is not None),
            "",
            _FILES,
            *(line for each in measured for line in _card(each.card)),
        ]
    )


def _rows(*columns: str) -> list[str]:
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]


def _row(*cells: object) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |"


def _sizes(each: Statistics) -> str:
    counts, paper = each.counts, each.card.paper
    name = each.card.name if each.parts is not None else f"{each.card.name} *"
    published = (paper.nodes, paper.features, paper.edges) if paper else ("–", "–", "–")
    return _row(name, counts.nodes, counts.features, counts.edges, *published, each.paper_edges_reason)


def _labels(each: Statistics) -> str:
    card, counts = each.card, each.counts
    return _row(
        card.name,
        card.label,
        _counted(card.label_names, counts.classes),
        card.sensitive,
        _counted(card.sensitive_values, counts.groups),
    )


def _counted(names: Sequence[str], counts: Sequence[int] | None) -> str:
    sizes = ["not published"] * len(names) if counts is None else [f"{count:,}" for count in counts]
    return ", ".join(f"{_numbered(index, name)}: {sizes[index]}" for index, name in enumerate(names))


def _split(each: Statistics) -> str:
    parts = each.parts or {}
    cells = [
        text
        for part in parts.values()
        for text in (f"{part.nodes:,} ({_slashed(part.groups)})", _slashed(part.positives))
    ]
    test = parts["test"]
    share = sum(test.positives) / test.nodes
    return _row(each.card.name, *cells, f"{100 * share:.2f}", f"{100 * 2 * share / (1 + share):.2f}")


def _slashed(counts: Sequence[int]) -> str:
    return " / ".join(f"{count:,}" for count in counts)


def _card(card: Card) -> list[str]:
    lines = [
        f"## {card.name}",
        "",
        f"{card.title}.",
        "",
        f"- **Source.** {card.source}.",
        f"- **Licence** {card.licence}. {card.licence_note}",
        f"- **Label** `{card.label}`: {_all_numbered(card.label_names)}. {card.label_meaning}",
        f"- **Sensitive attribute** `{card.sensitive}`: {_all_numbered(card.sensitive_values)}. "
        f"{card.sensitive_meaning} It is one of the features.",
        f"- **Features.** {card.features} "
        + ("Scaled to [-1, 1], all but the sensitive one." if card.scaled else "Not scaled."),
        f"- **Links.** {card.links}",
        *(f"- **Mind.** {caveat}" for caveat in card.caveats),
        f"- **Cite.** {card.citation}",
    ]
    if card.files:
        lines += ["", *_rows("file", "bytes", "checked by", "addresses")]
    for file in card.files:
        check = f"sha256 `{file.sha256}`" if file.sha256 else f"git blob id `{file.git_blob}`"
        addresses = ", ".join(f"[{number}]({url})" for number, url in enumerate(file.urls, start=1))
        lines.append(_row(f"`{file.path}`", file.size, check, addresses))
    return [*lines, ""]


def _all_numbered(names: Sequence[str]) -> str:
    return ", ".join(_numbered(index, name) for index, name in enumerate(names))


def _numbered(index: int, name: str) -> str:
    return name if name == str(index) else f"{index} = {name}"


_INTRODUCTION = f"""# Datasets

This page is written by `{COMMAND}`; a test compares the two.

```python
import fairsad

graph = fairsad.load_graph("german")  # inside the package
graph = fairsad.load_graph("credit", split_seed=3)  # downloaded and rebuilt once; another split by the same recipe
```
"""

_FILES = """## Where the files come from

`german` is inside the package. Of `bail` and `credit` only the node table is downloaded; the graph is rebuilt from \
it, equal to the published one edge for edge, and kept. The others are downloaded whole.

```
fairsad datasets                     what there is, and what is on this machine
fairsad datasets fetch bail credit   download now, to work offline later
fairsad datasets verify              check every file that is here, and the sizes of its graph
```

- **Checked.** A file is used only if its hash is the published one, at every use; a download appears under its name \
only when it is complete and right. Pokec is checked by git blob id, and the SHA-256 found at first use is recorded \
and asked for from there on.
- **Broken connections** are taken up where they stopped, also by a later call (which is why the downloads are not \
made with pooch: it starts again from the first byte). Each file has several addresses, asked in turn. \
`FAIRSAD_MIRROR=https://server/folder` names one to ask first, for a server of your own with the layout below.
- **A folder of your own.** `FAIRSAD_DATA` names a folder with the layout `bail/bail.csv`, `credit/credit.csv`, \
`nba/nba.csv`, `pokec/region_job.csv`, and so on. It may be read-only. Files are looked for there, then in `data` in \
the cache folder, and downloaded into the first of the two that can be written to.
- **The cache folder** is the user's cache folder of the system, or `FAIRSAD_CACHE`. Rebuilt graphs are kept in \
`derived` there, never in `FAIRSAD_DATA`; a damaged one is rebuilt.
- **Offline.** With `FAIRSAD_OFFLINE=1` nothing is downloaded; what is missing is named, with where to put it.
"""
