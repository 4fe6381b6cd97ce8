"""One layer of disentangled graph convolution."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.aggregate import Assignment, aggregate

ChannelInit = Literal["normal", "xavier"]


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
        return nn.functional.normalize(total, dim=2, eps=1e-12)
