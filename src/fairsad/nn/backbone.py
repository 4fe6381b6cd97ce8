"""The backbones of the methods that FairSAD is compared with: GCN as in the paper, and GIN, GraphSAGE and GAT."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from fairsad.graph import FairGraph
from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.aggregate import aggregate

BackboneKind = Literal["gcn", "gin", "sage", "gat"]


@dataclass(frozen=True, eq=False)
class View:
    """What a backbone reads to represent some nodes of a graph, with everything constant computed already.

    Attributes:
        x: Input of the first layer, of the wanted nodes alone where one layer is all there is.
        graph: Where later layers find neighbours; ``None`` where no layer needs them any more.
        nodes: The wanted nodes, where ``x`` has all.
    """

    x: Tensor
    graph: FairGraph | None = None
    nodes: Tensor | None = None


class Backbone(nn.Module):
    r"""Graph layers with ReLU and dropout between them, and nothing after the last.

    A layer is linear (GIN: a small MLP) in what it gathers from the neighbourhood, bias after propagation:

    - GCN: :math:`D^{-1/2} (A + I) D^{-1/2} h`;
    - GIN: :math:`h_u + \sum_{v \in N(u)} h_v`;
    - GraphSAGE: :math:`[h_u, \operatorname{mean}_{v \in N(u)} h_v]`;
    - GAT: one attention head, from PyG.

    What the first layer of the first three gathers is a constant of the graph. ``view`` computes it once, so that a
    one-layer backbone trains on the rows of the training nodes and never looks at the links again.

    Args:
        kind: ``"gcn"``, ``"gin"``, ``"sage"`` or ``"gat"``.
        in_dim: Features d.
        hidden_dim: Width of every layer.
        num_layers: Layers.
        dropout: Rate between layers, while training.
    """

    def __init__(
        self, kind: BackboneKind, in_dim: int, hidden_dim: int = 16, num_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.kind = kind
        self.dropout = dropout
        widths = [in_dim] + [hidden_dim] * num_layers
        self.layers = nn.ModuleList(_layer(kind, *pair) for pair in pairwise(widths))

    def view(self, graph: FairGraph, nodes: Tensor | None = None) -> View:
        """What to read to represent these nodes, or all of them."""
        if self.kind == "gat":
            return View(graph.x, graph, nodes)
        gathered = graph.propagated() if self.kind == "gcn" else self._gather(graph.x, graph.adjacency())
        if len(self.layers) > 1:
            return View(gathered, graph, nodes)
        return View(gathered if nodes is None else gathered[nodes])

    def forward(self, view: View) -> Tensor:
        """Representation [nodes, hidden_dim] of the nodes of a view."""
        h = view.x
        for index, layer in enumerate(self.layers):
            if index > 0:
                h = nn.functional.dropout(h.relu(), self.dropout, self.training)
            if self.kind == "gat":
                assert view.graph is not None
                h = layer(h, view.graph.edge_index)
                continue
            if index > 0:
                assert view.graph is not None
                h = self._gather(h, view.graph.adjacency())
            h = layer(h)
        return h if view.nodes is None else h[view.nodes]

    def _gather(self, h: Tensor, adjacency: Adjacency) -> Tensor:
        if self.kind == "gcn":
            return adjacency.propagate(h)
        total = aggregate(adjacency, h.unsqueeze(1)).squeeze(1)  # of the neighbours and the node itself
        if self.kind == "gin":
            return total
        neighbours = (adjacency.row_pointer.diff() - 1).clamp(min=1).to(h.dtype)
        return torch.cat([h, (total - h) / neighbours.unsqueeze(1)], dim=1)


def _layer(kind: BackboneKind, in_dim: int, out_dim: int) -> nn.Module:
    if kind == "gat":
        from torch_geometric.nn import GATConv

        return GATConv(in_dim, out_dim)  # type: ignore[no-any-return]
    if kind == "gin":
        return nn.Sequential(linear(in_dim, out_dim), nn.ReLU(), linear(out_dim, out_dim))
    return linear(2 * in_dim if kind == "sage" else in_dim, out_dim)


def linear(in_dim: int, out_dim: int) -> nn.Linear:
    """A linear layer with Xavier-uniform weight and zero bias, as all of the compared methods start."""
    layer = nn.Linear(in_dim, out_dim)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class NodeClassifier(nn.Module):
    """A backbone and a linear head.

    Args:
        backbone: Represents the nodes.
        hidden_dim: Width of the representation.
        num_scores: Outputs of the head.
        dropout: Rate on the representation, while training.
    """

    def __init__(self, backbone: Backbone, hidden_dim: int, num_scores: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = linear(hidden_dim, num_scores)
        self.dropout = dropout

    def forward(self, view: View) -> tuple[Tensor, Tensor]:
        """Representation [nodes, hidden_dim] and scores [nodes], or [nodes, classes] for more than two."""
        h = nn.functional.dropout(self.backbone(view), self.dropout, self.training)
        return h, self.classify(h)

    def classify(self, h: Tensor) -> Tensor:
        """Scores of representations."""
        scores: Tensor = self.head(h)
        return scores.squeeze(1) if scores.size(1) == 1 else scores
