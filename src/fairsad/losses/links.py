"""How well do scores of pairs of nodes say which of them are linked?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_PAIRS_AT_A_TIME = 1 << 20


def link_loss(z: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    r"""Binary cross-entropy of the scores :math:`E = Z Z^\top` of all pairs with what is linked.

    .. math::
        \mathcal{L} = \operatorname{mean}_{ij} \operatorname{BCE}(\sigma(E_{ij}), A_{ij})
            = \frac{1}{k^2} \Big( \sum_{ij} \operatorname{softplus}(E_{ij}) - \sum_{(i, j) \in A} E_{ij} \Big)

    Exact. The second sum needs the links only; the first is taken in blocks of one triangle, and its gradient along
    with it, so that memory grows with k and not with its square.

    Args:
        z: [k, width].
        rows: int64 [entries], ends of the links, each link in both directions.
        columns: int64 [entries].
    """
    everywhere: Tensor = _Softplus.apply(z)  # type: ignore[no-untyped-call]
    return everywhere - (z[rows] * z[columns]).sum() / len(z) ** 2


class _Softplus(torch.autograd.Function):
    """Mean of softplus(Z Z^T)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        total, slope = z.new_zeros(()), torch.zeros_like(z)
        step = max(1, _PAIRS_AT_A_TIME // len(z))
        for start in range(0, len(z), step):
            some, others = z[start : start + step], z[start + step :]
            within, across = some @ some.t(), some @ others.t()
            total += functional.softplus(within).sum() + 2 * functional.softplus(across).sum()
            across.sigmoid_()
            slope[start : start + step] += within.sigmoid_() @ some + across @ others
            slope[start + step :] += across.t() @ some
        ctx.save_for_backward(2 * slope / len(z) ** 2)
        return total / len(z) ** 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return gradient * slope  # type: ignore[no-any-return]
