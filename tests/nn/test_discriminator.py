from __future__ import annotations

import torch

from fairsad.nn.discriminator import ChannelDiscriminator


def test_every_channel_is_scored_by_the_same_linear_layer() -> None:
    discriminator = ChannelDiscriminator(num_channels=3, channel_dim=2)
    channels = torch.randn(5, 3, 2)
    scores = discriminator(channels)
    assert scores.shape == (5, 3, 3)
    weight, bias = discriminator.linear.weight, discriminator.linear.bias
    for node in range(5):
        for channel in range(3):
            torch.testing.assert_close(scores[node, channel], weight @ channels[node, channel] + bias)
    assert not bias.any()
