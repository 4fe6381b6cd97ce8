from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairsad.errors import DataError
from fairsad.losses import contrast
from fairsad.losses.contrast import contrastive_loss


def dense_contrast(first: Tensor, second: Tensor, temperature: float, shares: Tensor) -> Tensor:
    """Cross-entropy of the counterpart against all rows but the row itself, from the whole matrix of likenesses."""
    rows = functional.normalize(torch.cat([first, second]), dim=1)
    logits = (rows @ rows.t() / temperature).fill_diagonal_(-math.inf)
    number = len(first)
    counterpart = torch.cat([torch.arange(number, 2 * number), torch.arange(number)])
    each = functional.cross_entropy(logits, counterpart, reduction="none")
    return (shares.repeat(2) * each).sum() / 2


def views(number: int, width: int = 4, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(number)
    first, second = torch.randn(2, number, width, generator=chance, dtype=dtype)
    return first.requires_grad_(), (first.detach() + second).requires_grad_()


def test_the_contrast_by_plain_loops() -> None:
    first, second = views(5)
    rows = [[v / math.hypot(*row) for v in row] for row in first.tolist() + second.tolist()]
    total = 0.0
    for v in range(10):
        likeness = [math.exp(sum(p * q for p, q in zip(rows[v], row, strict=True)) / 0.3) for row in rows]
        total -= math.log(likeness[(v + 5) % 10] / (sum(likeness) - likeness[v]))
    assert contrastive_loss(first, second, 0.3).item() == pytest.approx(total / 10, rel=1e-12)


@pytest.mark.parametrize("pairs", [1, 70, 1 << 20], ids=["a row at a time", "a few rows", "all at once"])
@pytest.mark.parametrize("temperature", [0.03, 0.07, 1.0])
@pytest.mark.parametrize("shared", [False, True])
def test_in_blocks_it_is_the_dense_form_and_so_is_its_gradient(
    pairs: int, temperature: float, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contrast, "_PAIRS_AT_A_TIME", pairs)
    first, second = views(17)
    shares = torch.rand(17, dtype=torch.float64) if shared else None
    found = contrastive_loss(first, second, temperature, shares)
    even = torch.full((17,), 1 / 17, dtype=torch.float64)
    judged = dense_contrast(first, second, temperature, even if shares is None else shares)
    torch.testing.assert_close(found, judged, rtol=1e-12, atol=1e-12)
    for mine, its in zip(
        torch.autograd.grad(3 * found, (first, second)), torch.autograd.grad(3 * judged, (first, second)), strict=True
    ):
        torch.testing.assert_close(mine, its, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("pairs", [20, 1 << 20])
def test_gradcheck(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrast, "_PAIRS_AT_A_TIME", pairs)
    shares = torch.rand(6, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: contrastive_loss(a, b, 0.5, shares), views(6))


def test_single_precision_suffices_at_the_lowest_temperature_for_opposite_views() -> None:
    first, _ = views(40, dtype=torch.float32)
    with torch.no_grad():
        first[1:] = first[0]  # all alike, and their counterparts opposite: no exponential may be lost
    second = -first.detach()
    found = contrastive_loss(first, second, 0.03)
    judged = dense_contrast(first.detach().double(), second.double(), 0.03, torch.full((40,), 1 / 40).double())
    assert found.item() == pytest.approx(judged.item(), rel=1e-5)
    alone = contrastive_loss(first[:1], second[:1], 0.03)  # nothing but the counterpart, so nothing to tell apart
    assert alone.item() == pytest.approx(0.0, abs=1e-5)


def test_pairing_identical_views_wrongly_never_lowers_the_loss() -> None:
    first, _ = views(30)
    right = contrastive_loss(first, first, 0.07).item()
    for seed in range(20):
        order = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
        assert contrastive_loss(first, first[order], 0.07).item() >= right
    assert contrastive_loss(first, first.roll(1, dims=0), 0.07).item() > right + 1


def test_lengths_of_rows_do_not_matter_and_a_row_of_zeros_stays_finite() -> None:
    first, second = views(12)
    longer = contrastive_loss(7 * first, torch.rand(12, 1) * second, 0.2)
    torch.testing.assert_close(longer, contrastive_loss(first, second, 0.2))
    with torch.no_grad():
        first[3] = 0.0
    loss = contrastive_loss(first, second, 0.2)
    loss.backward()
    assert loss.isfinite()
    assert first.grad is not None
    assert first.grad.isfinite().all()


def test_nodes_without_a_share_are_still_told_apart_from() -> None:
    first, second = views(10)
    shares = torch.zeros(10, dtype=torch.float64)
    shares[:4] = 0.25
    counted = contrastive_loss(first, second, 0.3, shares)
    torch.testing.assert_close(counted, dense_contrast(first, second, 0.3, shares))
    assert counted > contrastive_loss(first[:4], second[:4], 0.3) + 0.1


def test_views_that_do_not_match_and_low_temperatures_are_refused() -> None:
    with pytest.raises(DataError, match=r"shapes \(5, 3\) and \(4, 3\); expected \[nodes, width\] twice"):
        contrastive_loss(torch.zeros(5, 3), torch.zeros(4, 3), 0.07)
    with pytest.raises(DataError, match=r"shapes \(5,\) and \(5,\)"):
        contrastive_loss(torch.zeros(5), torch.zeros(5), 0.07)
    with pytest.raises(DataError, match=r"temperature = 0\.01; expected at least 0\.03"):
        contrastive_loss(torch.zeros(5, 3), torch.zeros(5, 3), 0.01)
