from __future__ import annotations

import math

import pytest
import torch

from fairsad.graph import canonical_edges
from fairsad.kernels.adjacency import Adjacency
from fairsad.nn.conv import DisentangledConv, unit_norm

EDGES = canonical_edges(torch.tensor([[0, 0, 1], [1, 2, 2]]), 5)  # node 3 and 4 are alone
ADJACENCY = Adjacency.from_edge_index(EDGES, 5)


def test_eq_3_channel_convolution_written_out() -> None:
    torch.manual_seed(0)
    layer = DisentangledConv(num_channels=2, channel_dim=3)
    channels = torch.randn(5, 2, 3)
    out = layer(layer.transform(channels), None, ADJACENCY)
    neighbours = {0: [0, 1, 2], 1: [1, 0, 2], 2: [2, 0, 1], 3: [3], 4: [4]}
    for u, around in neighbours.items():
        for k in range(2):
            total = layer.bias[k] + sum(0.5 * (layer.weight[k] @ channels[v, k]) for v in around)
            torch.testing.assert_close(out[u, k], total / total.norm())


def test_every_channel_has_norm_one() -> None:
    layer = DisentangledConv(4, 4)
    norms = layer(torch.randn(5, 4, 4), None, ADJACENCY).norm(dim=2)
    torch.testing.assert_close(norms, torch.ones(5, 4))


def test_a_channel_of_zeros_stays_finite() -> None:
    layer = DisentangledConv(2, 2, init="xavier")
    messages = torch.zeros(5, 2, 2, requires_grad=True)
    out = layer(messages, None, ADJACENCY)
    out.sum().backward()
    assert not out.any()
    assert messages.grad is not None
    assert messages.grad.isfinite().all()


def test_unit_norm_and_its_gradient_are_those_of_pytorch() -> None:
    channels = torch.randn(6, 3, 4, dtype=torch.float64)
    channels[1, 2] = 0
    channels[2, 0] *= 1e-14  # shorter than the least norm
    direction = torch.randn(6, 3, 4, dtype=torch.float64)
    results = []
    for normalise in (unit_norm, lambda c: torch.nn.functional.normalize(c, dim=2, eps=1e-12)):
        leaf = channels.clone().requires_grad_()
        unit = normalise(leaf)
        results.append((unit, *torch.autograd.grad((unit * direction).sum(), leaf)))
    for mine, judged in zip(*results, strict=True):
        torch.testing.assert_close(mine, judged, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(unit_norm, torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize(("init", "spread"), [("normal", 1.0), ("xavier", math.sqrt(2 / (64 + 64)))])
def test_weights_start_as_said(init: str, spread: float) -> None:
    torch.manual_seed(0)
    layer = DisentangledConv(2, 64, init=init)  # type: ignore[arg-type]
    assert layer.weight.std().item() == pytest.approx(spread, rel=0.05)
    assert bool(layer.bias.any()) == (init == "normal")
