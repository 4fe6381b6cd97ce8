"""Are two views of a node more alike than views of different nodes?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fairsad.errors import DataError

# Likenesses computed at a time.
_PAIRS_AT_A_TIME = 1 << 20


def contrastive_loss(first: Tensor, second: Tensor, temperature: float, shares: Tensor | None = None) -> Tensor:
    r"""Contrastive loss of two views of the same nodes, as SimCLR and Graphair have it.

    .. math::
        \mathcal{L} = - \sum_v \frac{w_v}{2} \Big( \log \frac{e^{a_v \cdot b_v / \tau}}
            {\sum_{r \neq a_v} e^{a_v \cdot r / \tau}} + \log \frac{e^{a_v \cdot b_v / \tau}}
            {\sum_{r \neq b_v} e^{b_v \cdot r / \tau}} \Big)

    with the rows a of the first view and b of the second made unit vectors, and r any of the 2k rows of both but the
    one itself. Exact, in blocks of rows of one triangle of the symmetric matrix of likenesses, which is computed anew
    in the backward pass, so that memory grows with k and not with its square. No likeness is above 1, so that
    subtracting :math:`1 / \tau` does what a running maximum would do.

    Args:
        first: [k, width].
        second: [k, width].
        temperature: τ, at least 0.03: below it the exponentials of opposite rows are lost in single precision.
        shares: Weights w [k] of the nodes; 1/k each, if left out.

    Raises:
        DataError: The views have different shapes, or the temperature is too low.
    """
    if first.dim() != 2 or first.shape != second.shape:
        raise DataError(
            f"views have shapes {tuple(first.shape)} and {tuple(second.shape)}; expected [nodes, width] twice."
        )
    if temperature < 0.03:
        raise DataError(f"temperature = {temperature!r}; expected at least 0.03.")
    first, second = (functional.normalize(view, dim=1) / math.sqrt(temperature) for view in (first, second))
    if shares is None:
        shares = first.new_full((len(first),), 1 / len(first))
    spread: Tensor = _LogSums.apply(torch.cat([first, second]), shares.repeat(2) / 2, 1 / temperature)  # type: ignore[no-untyped-call]
    return spread - shares @ (first * second).sum(dim=1)


class _LogSums(torch.autograd.Function):
    """Weighted sum over rows of the logarithm of the sum of exponentials of its products with all others."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor, most: float) -> Tensor:
        sums = torch.zeros_like(weights)
        for start, stop, likeness in _exponentials(rows, most):
            sums[start:stop] += likeness.sum(dim=1)
            sums[stop:] += likeness[:, stop - start :].sum(dim=0)
        ctx.save_for_backward(rows, weights / sums)
        ctx.most = most
        return weights @ sums.log() + most * weights.sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        # the derivative by the product of rows i and j is e_ij (q_i + q_j), with q the weights over the sums
        rows, q = ctx.saved_tensors
        width, q = rows.size(1), q.unsqueeze(1)
        both = torch.cat([rows, q * rows], dim=1)
        result = torch.zeros_like(rows)
        for start, stop, likeness in _exponentials(rows, ctx.most):
            for ends, moved in (
                (slice(start, stop), likeness @ both[start:]),
                (slice(stop, None), likeness[:, stop - start :].t() @ both[start:stop]),
            ):
                result[ends] += q[ends] * moved[:, :width] + moved[:, width:]
        return gradient * result, None, None


def _exponentials(rows: Tensor, most: float) -> Iterator[tuple[int, int, Tensor]]:
    """Of rows start to stop, exp(product - most) with every row from start on; 0 with itself."""
    step = max(1, _PAIRS_AT_A_TIME // len(rows))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        likeness = (some @ rows[start:].t()).sub_(most).exp_()
        likeness.diagonal().zero_()
        yield start, start + len(some), likeness
