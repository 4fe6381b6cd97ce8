"""Which channel is this? A linear layer that has to tell keeps the channels apart."""

from __future__ import annotations

from torch import Tensor, nn


class ChannelDiscriminator(nn.Module):
    """Channel discriminator f_d of FairSAD: one linear layer on a channel's slice; training only.

    Its cross-entropy, Eq. (8), is in ``fairsad.losses.channels``.

    Shape:
        [n, K, q] to scores [n, K, K], the last axis over the channels to choose from.
    """

    def __init__(self, num_channels: int, channel_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channel_dim, num_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weight, zero bias."""
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, channels: Tensor) -> Tensor:
        """Score every channel of every node."""
        scores: Tensor = self.linear(channels)
        return scores
