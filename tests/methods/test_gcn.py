from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch.nn import functional

from fairsad import load_graph
from fairsad.methods.gcn import GCN
from fairsad.nn.backbone import linear
from tests.graphs import toy_graph


def test_it_is_a_logistic_regression_on_the_propagated_features() -> None:
    """With no weight decay and enough steps it finds what scikit-learn finds on the same rows."""
    graph = toy_graph(300, seed=2, y=(torch.randn(300, generator=torch.Generator().manual_seed(0)) > 0).long())
    model = GCN(epochs=3000, learning_rate=0.03, weight_decay=0.0, selection="last").fit(graph)
    rows = graph.mask("train").numpy()
    propagated = graph.propagated().numpy()
    oracle = LogisticRegression(C=1e10, max_iter=10_000).fit(propagated[rows], graph.y.numpy()[rows])
    np.testing.assert_allclose(
        model.predict_proba(graph)[rows, 1], oracle.predict_proba(propagated[rows])[:, 1], atol=1e-3
    )


def test_training_on_propagated_rows_is_message_passing_on_the_whole_graph() -> None:
    graph = toy_graph()
    ours = GCN(epochs=50, learning_rate=0.01, selection="last", seed=4).fit(graph)
    torch.manual_seed(4)
    layer, head = linear(5, 16), linear(16, 1)
    weights = [*layer.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(weights, lr=0.01, weight_decay=1e-5)
    dense = torch.eye(60)
    dense[graph.edge_index[0], graph.edge_index[1]] = 1.0
    scale = dense.sum(1).rsqrt()
    dense = scale[:, None] * dense * scale[None, :]
    train = graph.mask("train")

    def scores() -> torch.Tensor:
        return head(dense @ (graph.x @ layer.weight.T) + layer.bias).squeeze(1)  # type: ignore[no-any-return]

    for _ in range(50):
        optimiser.zero_grad()
        functional.binary_cross_entropy_with_logits(scores()[train], graph.y[train].float()).backward()
        optimiser.step()
    torch.testing.assert_close(ours.scores(graph), scores().detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backbone", ["gcn", "gin", "sage", "gat"])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_every_backbone_learns(backbone: str, num_layers: int) -> None:
    graph = load_graph("synthetic:nodes=1000,label_homophily=0.6,seed=1")
    settings = {"backbone": backbone, "num_layers": num_layers, "epochs": 80, "learning_rate": 0.02, "dropout": 0.2}
    model = GCN(**settings, selection="auc").fit(graph)  # type: ignore[arg-type]
    test = graph.mask("test").numpy()
    assert roc_auc_score(graph.y.numpy()[test], model.predict_proba(graph)[test, 1]) > 0.7
    assert model.embed(graph).shape == (1000, 16)


def test_more_than_two_classes() -> None:
    graph = toy_graph(150, num_classes=3)
    assert GCN(epochs=3).fit(graph).predict_proba(graph).shape == (150, 3)
