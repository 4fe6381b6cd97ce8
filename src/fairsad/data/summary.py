"""What is in a graph: sizes, groups and base rates, homophily, degrees."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsad.graph import SPLITS, FairGraph
from fairsad.groups import UNKNOWN

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GroupSummary:
    """One group.

    Attributes:
        name: The value of the attribute.
        count: Its nodes.
        labelled: Its labelled nodes.
        splits: Its nodes in train, val and test.
        base_rates: Share of each class among its labelled nodes; NaN where there are none.
    """

    name: str
    count: int
    labelled: int
    splits: dict[str, int]
    base_rates: tuple[float, ...]


@dataclass(frozen=True)
class Homophily:
    r"""How far links stay within one label or group, over the links whose two ends are both known.

    Attributes:
        edge: Share of links within, :math:`h = \sum_k e_{kk}`, where :math:`e_{kl}` is the share of link ends that
            lead from k to l.
        chance: What links that ignore the values would give with the same degrees, :math:`\sum_k a_k^2` with
            :math:`a_k = \sum_l e_{kl}`.
        adjusted: (edge − chance) / (1 − chance), the assortativity coefficient: 0 at chance, 1 where all links
            stay within, NaN where all ends are in one.
    """

    edge: float
    chance: float
    adjusted: float


@dataclass(frozen=True)
class AttributeSummary:
    """One sensitive attribute.

    Attributes:
        name: Its name.
        unknown: Nodes whose value is not known.
        groups: One entry per value.
        base_rate_gap: Largest minus smallest share of the last class among the groups; NaN for fewer than two groups
            with labels.
        homophily: Of links, by this attribute.
        features: Names of the feature columns that hold it; none where it is not among the features.
    """

    name: str
    unknown: int
    groups: tuple[GroupSummary, ...]
    base_rate_gap: float
    homophily: Homophily
    features: tuple[str, ...]


@dataclass(frozen=True)
class Degrees:
    """How many neighbours the nodes have; ``isolated`` counts those with none."""

    min: int
    median: float
    mean: float
    max: int
    isolated: int


@dataclass(frozen=True)
class Summary:
    """What ``fairsad describe`` shows.

    Attributes:
        name: What the graph is called.
        nodes: How many.
        edges: How many links, each counted once.
        features: How many columns x has.
        labels: Nodes of each class.
        unlabelled: Nodes without a label.
        splits: Nodes that train, validate and test.
        split_recipe: How the split was made.
        split_hash: What identifies the split.
        fingerprint: What identifies the graph.
        sensitive_in_features: Whether any sensitive attribute is among the features.
        attributes: One entry per sensitive attribute.
        label_homophily: Of links, by label.
        degrees: Of the nodes.
    """

    name: str
    nodes: int
    edges: int
    features: int
    labels: dict[str, int]
    unlabelled: int
    splits: dict[str, int]
    split_recipe: str
    split_hash: str
    fingerprint: str
    sensitive_in_features: bool
    attributes: tuple[AttributeSummary, ...]
    label_homophily: Homophily
    degrees: Degrees

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def summarise(graph: FairGraph) -> Summary:
    """Count what is in a graph."""
    y, sensitive = graph.y.cpu().numpy(), graph.sensitive.cpu().numpy()
    edges = graph.edge_index.cpu().numpy()
    degree = np.bincount(edges[0], minlength=graph.num_nodes)
    masks = {split: graph.mask(split).cpu().numpy() for split in SPLITS}
    return Summary(
        name=graph.name,
        nodes=graph.num_nodes,
        edges=edges.shape[1] // 2,
        features=graph.x.size(1),
        labels=dict(zip(graph.label_names, _count(y, graph.num_classes).tolist(), strict=True)),
        unlabelled=int((y == UNKNOWN).sum()),
        splits={split: int(mask.sum()) for split, mask in masks.items()},
        split_recipe=graph.split_recipe,
        split_hash=graph.split_hash,
        fingerprint=graph.fingerprint,
        sensitive_in_features=graph.sensitive_in_features,
        attributes=tuple(
            _attribute(graph, index, y, sensitive[:, index], edges, masks) for index in range(sensitive.shape[1])
        ),
        label_homophily=homophily(edges, y, graph.num_classes),
        degrees=Degrees(
            min=int(degree.min()),
            median=float(np.median(degree)),
            mean=float(degree.mean()),
            max=int(degree.max()),
            isolated=int((degree == 0).sum()),
        ),
    )


def homophily(edge_index: IntArray, codes: IntArray, num_values: int) -> Homophily:
    """Homophily of links (each in both directions) by any numbering of the nodes, -1 where unknown."""
    source, target = codes[edge_index[0]], codes[edge_index[1]]
    known = (source != UNKNOWN) & (target != UNKNOWN)
    if not known.any():
        return Homophily(float("nan"), float("nan"), float("nan"))
    within = float((source[known] == target[known]).mean())
    ends = _count(source[known], num_values) / known.sum()
    chance = float(np.square(ends).sum())
    return Homophily(within, chance, (within - chance) / (1 - chance) if chance < 1 else float("nan"))


def _attribute(
    graph: FairGraph, index: int, y: IntArray, codes: IntArray, edges: IntArray, masks: dict[str, npt.NDArray[np.bool_]]
) -> AttributeSummary:
    groups = []
    for number, value in enumerate(graph.sensitive_values[index]):
        members = codes == number
        classes = _count(y[members], graph.num_classes)
        labelled = int(classes.sum())
        groups.append(
            GroupSummary(
                name=value,
                count=int(members.sum()),
                labelled=labelled,
                splits={split: int((members & mask).sum()) for split, mask in masks.items()},
                base_rates=tuple((classes / labelled).tolist() if labelled else [float("nan")] * graph.num_classes),
            )
        )
    rates = [group.base_rates[-1] for group in groups if group.labelled]
    return AttributeSummary(
        name=graph.sensitive_names[index],
        unknown=int((codes == UNKNOWN).sum()),
        groups=tuple(groups),
        base_rate_gap=max(rates) - min(rates) if len(rates) > 1 else float("nan"),
        homophily=homophily(edges, codes, len(groups)),
        features=tuple(graph.feature_names[column] for column in graph.sensitive_columns[index]),
    )


def _count(codes: IntArray, num_values: int) -> IntArray:
    return np.bincount(codes[codes != UNKNOWN], minlength=num_values)
