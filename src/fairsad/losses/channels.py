"""Can the channels be told apart? Cross-entropy of the channel discriminator."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairsad.errors import DataError


def channel_loss(scores: Tensor) -> Tensor:
    r"""Channel discrimination loss L_d of FairSAD, Eq. (8).

    .. math::
        \mathcal{L}_d = \sum_{k=1}^K \operatorname{mean}_v \operatorname{CE}(f_d(\tilde z^k_v), k)

    Args:
        scores: [t, K, K], for each node and channel what the discriminator gives each of the K channels.

    Returns:
        A number, 0 for a single channel.

    Raises:
        DataError: Not as many scores as channels.
    """
    if scores.dim() != 3 or scores.size(1) != scores.size(2):
        raise DataError(f"scores have shape {tuple(scores.shape)}; expected [nodes, channels, channels].")
    return _ChannelLoss.apply(scores)  # type: ignore[no-any-return,no-untyped-call]


class _ChannelLoss(torch.autograd.Function):
    """Its cross-entropy by hand: torch's own takes rows of a few numbers one at a time, several times as long."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        highest = scores.amax(2, keepdim=True)
        powers = (scores - highest).exp_()
        totals = powers.sum(2, keepdim=True)
        ctx.save_for_backward(powers, totals)
        right = scores.diagonal(dim1=1, dim2=2)
        return (totals.log().add_(highest).sum() - right.sum()) / len(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        powers, totals = ctx.saved_tensors
        result = powers / totals
        result.diagonal(dim1=1, dim2=2).sub_(1)
        return cast(Tensor, result.mul_(gradient / len(powers)))
