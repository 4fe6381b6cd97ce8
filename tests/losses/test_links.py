from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairsad.losses import links
from fairsad.losses.links import link_loss
from tests.judges import random_links


def scored(number: int, width: int = 3) -> Tensor:
    chance = torch.Generator().manual_seed(number)
    return torch.randn(number, width, generator=chance, dtype=torch.float64).requires_grad_()


def entries_of(number: int) -> Tensor:
    """Of A + I, the first node without links."""
    return torch.cat([random_links(number, 2 * number), torch.arange(number).expand(2, -1)], dim=1)


def dense_loss(z: Tensor, entries: Tensor) -> Tensor:
    target = torch.zeros(len(z), len(z), dtype=z.dtype)
    target[entries[0], entries[1]] = 1
    return functional.binary_cross_entropy_with_logits(z @ z.t(), target)


def test_the_mean_over_all_pairs_by_plain_loops() -> None:
    z, entries = scored(7), entries_of(7)
    linked = set(map(tuple, entries.t().tolist()))
    rows = z.tolist()
    total = 0.0
    for i in range(7):
        for j in range(7):
            score = sum(p * q for p, q in zip(rows[i], rows[j], strict=True))
            total -= math.log(1 / (1 + math.exp(-score if (i, j) in linked else score)))
    assert link_loss(z, *entries).item() == pytest.approx(total / 49, rel=1e-12)


@pytest.mark.parametrize("pairs", [1, 60, 1 << 20], ids=["a row at a time", "a few rows", "all at once"])
def test_in_blocks_it_is_the_dense_form_and_so_is_its_gradient(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_PAIRS_AT_A_TIME", pairs)
    z, entries = scored(20), entries_of(20)
    found, judged = link_loss(z, *entries), dense_loss(z, entries)
    torch.testing.assert_close(found, judged, rtol=1e-12, atol=1e-12)
    for mine, its in zip(torch.autograd.grad(3 * found, z), torch.autograd.grad(3 * judged, z), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("pairs", [20, 1 << 20])
def test_gradcheck(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_PAIRS_AT_A_TIME", pairs)
    entries = entries_of(8)
    assert torch.autograd.gradcheck(lambda z: link_loss(z, *entries), scored(8))


def test_the_order_of_entries_does_not_matter_and_there_may_be_none() -> None:
    z, entries = scored(15), entries_of(15)
    mixed = entries[:, torch.randperm(entries.size(1))]
    torch.testing.assert_close(link_loss(z, *mixed), link_loss(z, *entries))
    nothing = torch.zeros(2, 0, dtype=torch.int64)
    torch.testing.assert_close(link_loss(z, *nothing), dense_loss(z, nothing))


def test_scores_that_say_everything_cost_nothing_and_large_ones_stay_finite() -> None:
    blocks = torch.tensor([[30.0, -30.0], [30.0, -30.0], [-30.0, 30.0], [-30.0, 30.0]]).requires_grad_()
    pattern = blocks.detach() @ blocks.detach().t() > 0
    entries = pattern.nonzero().t()
    assert link_loss(blocks, *entries).item() == pytest.approx(0.0, abs=1e-4)
    worst = link_loss(blocks, *(~pattern).nonzero().t())
    worst.backward()
    assert worst.item() == pytest.approx(1800.0, rel=1e-5)
    assert blocks.grad is not None
    assert blocks.grad.isfinite().all()
