"""What every benchmark dataset is: a card that says what the data mean, and a loader that checks the card."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fairsad.data.download import RemoteFile, fetch
from fairsad.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from fairsad.data.splits import Split
    from fairsad.graph import FairGraph

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# The seed of the published splits.
SPLIT_SEED = 20


@dataclass(frozen=True)
class Counts:
    """How large a graph is.

    Attributes:
        nodes: People.
        edges: Undirected links, without self-loops.
        features: Columns of x.
        classes: Labelled nodes of each class, or ``None`` where nobody has published the numbers.
        groups: Nodes of each sensitive value, or ``None`` likewise.
    """

    nodes: int
    edges: int
    features: int
    classes: tuple[int, ...] | None = None
    groups: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Card:
    """What there is to know about a dataset before using it.

    Attributes:
        name: As the command line takes it.
        title: One line: who and what.
        source: Where the data come from, and who made a graph of them.
        licence: Name of the data's licence, or ``"not stated"``.
        licence_note: What else there is to say about it.
        citation: What to cite.
        label: Column of the label.
        label_names: Names of the classes, by number.
        label_meaning: What the classes mean, and how the column was made binary.
        sensitive: Column of the sensitive attribute.
        sensitive_values: Names of its values, by number.
        sensitive_meaning: What is known of these values.
        features: What x holds, and what was left out.
        links: What a link means.
        scaled: Whether columns are scaled to [-1, 1] when nothing else is asked for.
        counts: What ``load`` insists on.
        paper: The sizes in the paper's table, or ``None`` for a dataset outside it.
        caveats: What a user should know before believing a number on these data.
        files: What is downloaded; empty where the data are inside the package.
    """

    name: str
    title: str
    source: str
    licence: str
    licence_note: str
    citation: str
    label: str
    label_names: tuple[str, ...]
    label_meaning: str
    sensitive: str
    sensitive_values: tuple[str, ...]
    sensitive_meaning: str
    features: str
    links: str
    scaled: bool
    counts: Counts
    paper: Counts | None = None
    caveats: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()


@dataclass(frozen=True)
class Table:
    """A dataset as it is read from its files, before scaling and splitting.

    Attributes:
        features: The columns of x, in order, unscaled.
        y: Class of each node, -1 where unlabelled.
        sensitive: Sensitive value of each node, -1 where unknown.
        edges: [2, m] node numbers, in any direction.
        node_ids: The publisher's own numbers of the nodes, if there are any.
    """

    features: pd.DataFrame
    y: IntArray
    sensitive: IntArray
    edges: IntArray
    node_ids: IntArray | None = None


class Dataset(ABC):
    """A benchmark: its card, how its files are read, and the recipe of its splits."""

    def __init__(self, card: Card) -> None:
        self.card = card

    @abstractmethod
    def read(self, files: Mapping[str, Path]) -> Table:
        """Read the files, named as in the card's ``files``."""

    @abstractmethod
    def split(self, table: Table, seed: int) -> Split:
        """Split the labelled nodes by the published recipe."""

    def load(
        self, *, split_seed: int = SPLIT_SEED, scale: bool | None = None, offline: bool | None = None
    ) -> FairGraph:
        """Load the graph, downloading and rebuilding what is not yet on this machine.

        Args:
            split_seed: Names the split: 20 is the published one, any other number a further one by the same recipe.
            scale: Whether columns are scaled to [-1, 1] by their minimum and maximum, all but the sensitive one;
                as the published experiments did, where left out.
            offline: Whether to stay off the network; by default what ``FAIRSAD_OFFLINE`` says.

        Raises:
            DownloadError: A file cannot be had, or is not as published.
            DataError: The counts are not those of the card.
        """
        from fairsad.graph import FairGraph

        card = self.card
        table = self.read({file.path: fetch(file, offline=offline) for file in card.files})
        columns = list(table.features.columns)
        x = table.features.to_numpy(dtype=np.float64, copy=True)
        held = columns.index(card.sensitive)
        if card.scaled if scale is None else scale:
            sensitive_column = x[:, held]
            x = scale_columns(x)
            x[:, held] = sensitive_column
        split = self.split(table, split_seed)
        graph = FairGraph.build(
            x=x,
            edge_index=table.edges,
            y=table.y,
            sensitive=table.sensitive,
            sensitive_names=[card.sensitive],
            sensitive_values=[card.sensitive_values],
            sensitive_columns=[[held]],
            feature_names=columns,
            label_names=card.label_names,
            train_mask=split.train_mask,
            val_mask=split.val_mask,
            test_mask=split.test_mask,
            split_recipe=split.recipe,
            name=card.name,
            node_ids=table.node_ids,
        )
        self._check(graph)
        return graph

    def _check(self, graph: FairGraph) -> None:
        found, expected = counts_of(graph), self.card.counts
        wrong = [
            f"{what}: {getattr(found, what)}, expected {getattr(expected, what)}"
            for what in ("nodes", "edges", "features", "classes", "groups")
            if getattr(expected, what) not in (None, getattr(found, what))
        ]
        if wrong:
            raise DataError(
                f"the {self.card.name} graph is not the published one ({'; '.join(wrong)}). Run 'fairsad datasets "
                f"verify {self.card.name}' to check its files, and report this if they are right."
            )


def counts_of(graph: FairGraph) -> Counts:
    """Count a graph."""
    return Counts(
        nodes=int(graph.num_nodes),
        edges=graph.edge_index.size(1) // 2,
        features=graph.x.size(1),
        classes=_occurrences(graph.y.numpy(), graph.num_classes),
        groups=_occurrences(graph.sensitive[:, 0].numpy(), len(graph.sensitive_values[0])),
    )


def _occurrences(values: IntArray, num_values: int) -> tuple[int, ...]:
    return tuple(int(count) for count in np.bincount(values[values >= 0], minlength=num_values))


def scale_columns(x: FloatArray) -> FloatArray:
    """Scale every column to [-1, 1] by its minimum and maximum; a constant column becomes -1."""
    lowest = x.min(axis=0)
    span = x.max(axis=0) - lowest
    scaled: FloatArray = 2.0 * (x - lowest) / np.where(span > 0, span, 1.0) - 1.0
    return scaled
