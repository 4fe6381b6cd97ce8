from __future__ import annotations

import math

import pytest
import torch

from fairsad.errors import DataError
from fairsad.losses.channels import channel_loss
from tests.judges import softmax


def test_eq_8_channel_discrimination_by_plain_loops() -> None:
    scores = torch.randn(7, 3, 3, dtype=torch.float64)
    by_hand = 0.0
    for node in scores.tolist():
        for k, row in enumerate(node):
            by_hand -= math.log(softmax(row)[k])  # y'_{v,k} is 1 for the channel's own index only
    assert channel_loss(scores).item() == pytest.approx(by_hand / 7, rel=1e-12)


def test_certainty_costs_nothing_and_ignorance_log_k_per_channel() -> None:
    assert channel_loss(100 * torch.eye(4).expand(5, 4, 4)).item() == pytest.approx(0.0, abs=1e-6)
    assert channel_loss(torch.zeros(5, 4, 4)).item() == pytest.approx(4 * math.log(4))


def test_one_channel_has_nothing_to_tell_apart() -> None:
    scores = torch.randn(5, 1, 1, requires_grad=True)
    loss = channel_loss(scores)
    loss.backward()
    assert loss.item() == 0.0
    assert scores.grad is not None
    assert not scores.grad.any()


def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(channel_loss, torch.randn(3, 4, 4, dtype=torch.float64, requires_grad=True))


def test_scores_for_other_channels_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(5, 4, 3\); expected \[nodes, channels, channels\]"):
        channel_loss(torch.zeros(5, 4, 3))
