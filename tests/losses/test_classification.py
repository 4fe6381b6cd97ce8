from __future__ import annotations

import math

import pytest
import torch

from fairsad.losses.classification import classification_loss


def test_two_classes_are_binary_cross_entropy() -> None:
    scores, labels = torch.tensor([0.3, -2.0, 1.5]), torch.tensor([1, 0, 0])
    by_hand = -sum(
        math.log(1 / (1 + math.exp(-z))) if y else math.log(1 - 1 / (1 + math.exp(-z)))
        for z, y in zip(scores.tolist(), labels.tolist(), strict=True)
    )
    assert classification_loss(scores, labels).item() == pytest.approx(by_hand / 3, rel=1e-6)


def test_more_classes_are_cross_entropy() -> None:
    scores, labels = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]), torch.tensor([2, 0])
    by_hand = -sum(
        row[label] - math.log(sum(math.exp(z) for z in row))
        for row, label in zip(scores.tolist(), labels.tolist(), strict=True)
    )
    assert classification_loss(scores, labels).item() == pytest.approx(by_hand / 2, rel=1e-6)
