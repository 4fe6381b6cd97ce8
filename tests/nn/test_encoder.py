from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from benchmarks import dense
from fairsad.graph import canonical_edges
from fairsad.kernels.adjacency import Adjacency
from fairsad.nn.encoder import DisentangledEncoder

NODES = 12
EDGES = canonical_edges(torch.tensor([[0, 0, 1, 3, 4, 5, 5, 8], [1, 2, 2, 4, 5, 6, 7, 9]]), NODES)
ADJACENCY = Adjacency.from_edge_index(EDGES, NODES)


def encoder(**changes: Any) -> DisentangledEncoder:
    torch.manual_seed(0)
    settings = {"hidden_dim": 12, "num_channels": 3, "dropout": 0.0} | changes
    return DisentangledEncoder(5, **settings)


@pytest.mark.parametrize(
    ("activation", "layers", "layer_input", "use_assigner"),
    list(itertools.product(["relu", "none"], [1, 3], ["channel", "concatenated"], [True, False])),
)
def test_alg_2_layers_equal_the_dense_formulation(
    activation: str, layers: int, layer_input: str, use_assigner: bool
) -> None:
    module = encoder(
        assigner_activation=activation,
        assigner_hidden_dim=6,
        num_layers=layers,
        layer_input=layer_input,
        use_assigner=use_assigner,
    ).double()
    x = torch.randn(NODES, 5, dtype=torch.float64)
    judged = dense.channels(module, x, dense.with_self_loops(EDGES, NODES))
    ours = module(x, ADJACENCY)
    torch.testing.assert_close(ours, judged)

    direction = torch.randn_like(ours)
    weights = list(module.parameters())
    for mine, theirs in zip(
        torch.autograd.grad((ours * direction).sum(), weights),
        torch.autograd.grad((judged * direction).sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_order_of_nodes_does_not_matter() -> None:
    module, x = encoder(), torch.randn(NODES, 5)
    order = torch.randperm(NODES)
    place = torch.empty_like(order)
    place[order] = torch.arange(NODES)
    moved = Adjacency.from_edge_index(canonical_edges(place[EDGES], NODES), NODES)
    torch.testing.assert_close(module(x[order], moved), module(x, ADJACENCY)[order])


def test_channels_do_not_mix_through_layers_unless_asked() -> None:
    x = torch.randn(NODES, 5)
    for layer_input, mixes in (("channel", False), ("concatenated", True)):
        module = encoder(num_layers=2, layer_input=layer_input)
        before = module(x, ADJACENCY)
        with torch.no_grad():
            module.layers[0].weight[0].mul_(-3)  # type: ignore[operator,union-attr,index]
        after = module(x, ADJACENCY)
        assert not torch.allclose(after[:, 0], before[:, 0])
        assert torch.allclose(after[:, 1:], before[:, 1:]) != mixes


def test_dropout_keeps_the_mean_and_only_while_training() -> None:
    module, x = encoder(dropout=0.5), torch.randn(NODES, 5)
    kept = module.train()(x, ADJACENCY)
    assert (kept == 0).any()
    quiet = module.eval()(x, ADJACENCY)
    assert not (quiet == 0).any()
    torch.testing.assert_close(kept[kept != 0], 2 * quiet[kept != 0])


def test_one_channel_needs_no_assigner() -> None:
    assert encoder(num_channels=1).assigner is None
    assert encoder(use_assigner=False).assigner is None
