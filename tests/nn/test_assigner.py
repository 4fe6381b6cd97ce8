from __future__ import annotations

import math
from typing import Literal

import pytest
import torch

from fairsad.nn.assigner import NeighbourAssigner

EDGES = torch.tensor([[0, 1, 2, 2, 3], [1, 0, 2, 3, 0]])


@pytest.mark.parametrize("activation", ["relu", "none"])
def test_eq_2_assigner_on_a_pair_written_out(activation: Literal["relu", "none"]) -> None:
    torch.manual_seed(0)
    assigner = NeighbourAssigner(3, num_channels=4, hidden_dim=5, activation=activation)
    torch.nn.init.normal_(assigner.pair.bias)
    torch.nn.init.normal_(assigner.score.bias)
    x = torch.randn(4, 3)
    shares = assigner(x, EDGES)
    for edge, (u, v) in enumerate(EDGES.T.tolist()):
        pair = [*x[u].tolist(), *x[v].tolist()]
        hidden = [
            sum(w * value for w, value in zip(row, pair, strict=True)) + bias
            for row, bias in zip(assigner.pair.weight.tolist(), assigner.pair.bias.tolist(), strict=True)
        ]
        if activation == "relu":
            hidden = [max(0.0, value) for value in hidden]
        scores = [
            sum(w * value for w, value in zip(row, hidden, strict=True)) + bias
            for row, bias in zip(assigner.score.weight.tolist(), assigner.score.bias.tolist(), strict=True)
        ]
        total = sum(math.exp(score) for score in scores)
        assert shares[edge].tolist() == pytest.approx([math.exp(score) / total for score in scores], rel=1e-5)


def test_shares_of_a_link_sum_to_one() -> None:
    shares = NeighbourAssigner(3, num_channels=4)(100 * torch.randn(4, 3), EDGES)
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(len(shares)))


def test_with_one_channel_every_share_is_one() -> None:
    assert NeighbourAssigner(3, num_channels=1)(torch.randn(4, 3), EDGES).tolist() == [[1.0]] * 5


def test_weights_start_xavier_and_biases_at_zero() -> None:
    assigner = NeighbourAssigner(200, num_channels=4, hidden_dim=100)
    bound = math.sqrt(6 / (400 + 100))
    assert bound * 0.95 < assigner.pair.weight.abs().max() <= bound
    assert not assigner.pair.bias.any()
    assert not assigner.score.bias.any()
