"""Parts of a graph to train on in its place, and how to count them so that on average they stand for the whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fairsad.graph import FairGraph


@dataclass(frozen=True, eq=False)
class Subgraph:
    r"""Some nodes of a graph and all links among them, a self-loop at each included.

    Attributes:
        nodes: int64 [k], in increasing order.
        rows: int64 [entries], by position in ``nodes``.
        columns: int64 [entries].
        values: float32 [entries], what stands in for the entries of :math:`D^{-1/2} (A + I) D^{-1/2}`.
        shares: float32 [k], how much each node counts; their sum is 1 on average.
    """

    nodes: Tensor
    rows: Tensor
    columns: Tensor
    values: Tensor
    shares: Tensor

    @property
    def num_nodes(self) -> int:
        """Nodes k."""
        return self.nodes.numel()

    def matrix(self) -> Tensor:
        """The values as a sparse matrix [k, k]: its product with node features is a step of GCN propagation."""
        shape = (self.num_nodes, self.num_nodes)
        entries = torch.stack([self.rows, self.columns])
        return torch.sparse_coo_tensor(entries, self.values, shape, check_invariants=False).coalesce()

    def pattern(self) -> Tensor:
        """A + I as bool [k, k]."""
        pattern = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.bool, device=self.nodes.device)
        pattern[self.rows, self.columns] = True
        return pattern


class WholeGraph:
    """Always the whole graph, every node with the same share.

    Args:
        graph: Its links.
    """

    def __init__(self, graph: FairGraph) -> None:
        nodes = torch.arange(graph.num_nodes, device=graph.x.device)
        links = torch.cat([graph.edge_index, nodes.expand(2, -1)], dim=1)
        self._whole = Subgraph(
            nodes, links[0], links[1], _propagation(graph, links), graph.x.new_full((len(nodes),), 1 / len(nodes))
        )

    def draw(self) -> Subgraph:
        """The whole graph."""
        return self._whole


class RandomWalks:
    r"""The nodes that random walks meet: GraphSAINT's sampler, Zeng et al., ICLR 2020.

    Nodes and links that are easily met are in many subgraphs, so each counts by the inverse of how often it is met,
    which is estimated beforehand from subgraphs drawn in the same way. With :math:`C_v` and :math:`C_{uv}` of N
    subgraphs having a node and a link, a node's share is :math:`N / (n C_v)`, so that a sum over nodes with their
    shares is an unbiased estimate of the mean over the graph; and the entry uv of the propagation is multiplied by
    :math:`C_u / C_{uv}`, so that what arrives at u is an unbiased estimate given that u is there.

    Args:
        graph: What to walk on.
        num_roots: Walks per subgraph, from nodes drawn with replacement.
        walk_length: Steps of each.
        coverage: How often a node is met, on average, while the counts are made.
    """

    def __init__(self, graph: FairGraph, num_roots: int, walk_length: int, coverage: int) -> None:
        self.num_nodes, self.num_roots, self.walk_length = graph.num_nodes, num_roots, walk_length
        self._degree = graph.adjacency().row_pointer.diff() - 1
        self._first = self._degree.cumsum(0) - self._degree
        # a node without links stays where it is, but has to be able to look somewhere
        self._neighbours = torch.cat([graph.edge_index[1], graph.edge_index.new_zeros(1)])
        self._links = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
        self._propagation = _propagation(graph, self._links)
        self._count(coverage)

    def draw(self) -> Subgraph:
        """The subgraph of the nodes that the next walks meet."""
        there = self._walk()
        nodes = there.nonzero().squeeze(1)
        inside = self._inside(there).nonzero().squeeze(1)
        met = self._met[nodes].clamp(min=1)
        place = torch.empty_like(self._degree)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)

        values = self._propagation[inside] / self._met_together[inside].clamp(min=1)
        source, target = place[self._links[:, inside]]
        loop = place[nodes]
        return Subgraph(
            nodes,
            torch.cat([source, target, loop]),
            torch.cat([target, source, loop]),
            torch.cat([values * met[source], values * met[target], 1 / (self._degree[nodes] + 1)]),
            self._num_counted / (self.num_nodes * met),
        )

    def _walk(self) -> Tensor:
        """Which nodes are met."""
        at = torch.randint(self.num_nodes, (self.num_roots,), device=self._degree.device)
        there = torch.zeros_like(self._degree, dtype=torch.bool)
        there[at] = True
        for _ in range(self.walk_length):
            degree = self._degree[at]
            choice = (torch.rand(len(at), device=at.device) * degree).long().minimum(degree - 1)
            at = torch.where(degree > 0, self._neighbours[self._first[at] + choice], at)
            there[at] = True
        return there

    def _inside(self, there: Tensor) -> Tensor:
        """Which links have both ends among these nodes."""
        return there[self._links[0]] & there[self._links[1]]

    def _count(self, coverage: int) -> None:
        self._met = torch.zeros_like(self._degree)
        self._met_together = torch.zeros_like(self._links[0])
        self._num_counted = 0
        while int(self._met.sum()) < coverage * self.num_nodes:
            there = self._walk()
            self._met += there
            self._met_together += self._inside(there)
            self._num_counted += 1


def _propagation(graph: FairGraph, links: Tensor) -> Tensor:
    """Entries of D^-1/2 (A + I) D^-1/2 at some links."""
    scale = graph.adjacency().row_pointer.diff().to(graph.x.dtype).rsqrt()
    return scale[links[0]] * scale[links[1]]
