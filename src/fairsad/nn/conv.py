"""One layer of disentangled graph convolution."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.aggregate import Assignment, aggregate

ChannelInit = Literal["normal", "xavier"]

# Under the division of a channel that is all zeros.
_LEAST_NORM = 1e-12


class DisentangledConv(nn.Module):
    r"""K-channel graph convolution, Eq. (3).

    .. math::
        z^k_u = \frac{o^k_u}{\lVert o^k_u \rVert_2}, \qquad
        o^k_u = \sum_{v \in \mathcal{N}(u) \cup \{u\}} w^k_{uv} \, C_k z^{k,\text{in}}_v + t_k

    A plain sum, without degree normalisation and without an activation; u is its own neighbour.

    Args:
        num_channels: Channels K.
        channel_dim: Width q of each channel.
        init: How C and t start. ``"normal"``: N(0, 1), as they do in the authors' code; ``"xavier"``: Xavier-uniform
            and zero, as everything else does.

    Shape:
        Messages [n, K, q] to channels [n, K, q] of norm 1.
    """

    def __init__(self, num_channels: int, channel_dim: int, init: ChannelInit = "normal") -> None:
        super().__init__()
        self.init = init
        self.weight = nn.Parameter(torch.empty(num_channels, channel_dim, channel_dim))
        self.bias = nn.Parameter(torch.empty(num_channels, channel_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """See ``init``."""
        if self.init == "normal":
            nn.init.normal_(self.weight)
            nn.init.normal_(self.bias)
        else:
            for channel in self.weight:
                nn.init.xavier_uniform_(channel)
            nn.init.zeros_(self.bias)

    def transform(self, channels: Tensor) -> Tensor:
        """C_k z^k of every node: the messages of layers after the first."""
        return torch.einsum("nkp,kqp->nkq", channels, self.weight)

    def forward(self, messages: Tensor, assignment: Assignment | None, adjacency: Adjacency) -> Tensor:
        """Aggregate the messages of all neighbours, channel by channel; no assignment means equal shares 1/K."""
        total = aggregate(adjacency, messages, assignment) + self.bias
        return unit_norm(total)


def unit_norm(channels: Tensor) -> Tensor:
    """Every channel of every node divided by its norm, or by 1e-12 where that is larger, as PyTorch's ``normalize``."""
    return _UnitNorm.apply(channels)  # type: ignore[no-any-return,no-untyped-call]


class _UnitNorm(torch.autograd.Function):
    """Its gradient in five operations instead of twenty: a change of the length changes nothing."""

    @staticmethod
    def forward(ctx: Any, channels: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(channels, dim=2, keepdim=True).clamp_(min=_LEAST_NORM)
        unit = channels / norm
        ctx.save_for_backward(unit, norm)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        unit, norm = ctx.saved_tensors
        lengthwise = (gradient * unit).sum(2, keepdim=True).masked_fill_(norm <= _LEAST_NORM, 0)
        return torch.addcmul(gradient, unit, lengthwise, value=-1).div_(norm)
