from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairsad.graph import FairGraph
from fairsad.nn.backbone import Backbone, BackboneKind, NodeClassifier
from tests.graphs import toy_graph

KINDS: list[BackboneKind] = ["gcn", "gin", "sage", "gat"]


def dense(graph: FairGraph) -> Tensor:
    links = torch.zeros(graph.num_nodes, graph.num_nodes)
    links[graph.edge_index[0], graph.edge_index[1]] = 1.0
    return links


def test_eq_1_gcn_by_dense_matrices() -> None:
    graph = toy_graph()
    backbone = Backbone("gcn", 5, num_layers=2)
    links = dense(graph) + torch.eye(60)
    scale = links.sum(1).rsqrt()
    matrix = scale[:, None] * links * scale[None, :]
    first, second = backbone.layers
    by_hand = second(matrix @ first(matrix @ graph.x).relu())
    torch.testing.assert_close(backbone(backbone.view(graph)), by_hand)


def test_gin_and_sage_by_dense_matrices() -> None:
    graph = toy_graph()
    links = dense(graph)
    gin = Backbone("gin", 5)
    torch.testing.assert_close(gin(gin.view(graph)), gin.layers[0](graph.x + links @ graph.x))
    sage = Backbone("sage", 5)
    mean = links @ graph.x / links.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(sage(sage.view(graph)), sage.layers[0](torch.cat([graph.x, mean], 1)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_view_of_some_nodes_is_those_rows_of_all(kind: BackboneKind, num_layers: int) -> None:
    graph = toy_graph()
    backbone = Backbone(kind, 5, num_layers=num_layers)
    nodes = torch.tensor([3, 0, 17])
    some = backbone(backbone.view(graph, nodes))
    assert some.shape == (3, 16)
    torch.testing.assert_close(some, backbone(backbone.view(graph))[nodes])


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_order_of_the_nodes_is_a_new_order_of_the_rows(kind: BackboneKind) -> None:
    graph = toy_graph()
    order = torch.randperm(60)
    place = torch.argsort(order)
    shuffled = toy_graph(
        x=graph.x[order], y=graph.y[order], sensitive=graph.sensitive[order], edge_index=place[graph.edge_index]
    )
    backbone = Backbone(kind, 5, num_layers=2)
    torch.testing.assert_close(
        backbone(backbone.view(shuffled)), backbone(backbone.view(graph))[order], atol=1e-5, rtol=1e-5
    )


def test_a_fresh_classifier_scores_nodes_without_features_with_zero() -> None:
    graph = toy_graph(x=torch.zeros(60, 5))
    model = NodeClassifier(Backbone("gcn", 5), 16, 1)
    assert torch.equal(model(model.backbone.view(graph))[1], torch.zeros(60))
