"""The disentangled backbone: from features to K channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.aggregate import Assignment
from fairsad.nn.assigner import Activation, NeighbourAssigner
from fairsad.nn.conv import ChannelInit, DisentangledConv

LayerInput = Literal["channel", "concatenated"]


class DisentangledEncoder(nn.Module):
    r"""Disentangled GNN backbone f_g with its neighbour assigner f_a, Alg. 2.

    Features are reduced once per channel, :math:`r^k_u = \operatorname{RED}_k(x_u)`, and go through the layers of
    ``DisentangledConv``. The assigner looks at the raw features, once, whatever the number of layers.

    RED, the first layer's C and the assigner's first layer are all linear in X, so their weights are put side by side
    and X is read once: on Pokec's 277 features that product is a third of an epoch.

    Args:
        in_dim: Features d.
        hidden_dim: Width d_h of the concatenated channels.
        num_channels: Channels K, a divisor of ``hidden_dim``.
        num_layers: Layers l.
        dropout: Rate on the channels after each layer, while training.
        use_assigner: Without it every link has the share 1/K in each channel ("w/o Micro").
        assigner_activation: See ``NeighbourAssigner``.
        assigner_hidden_dim: See ``NeighbourAssigner``.
        layer_input: What a layer after the first takes in: ``"channel"``, its own channel of the layer before, as
            in Eq. (3). Deviation: the authors' code reduces the ``"concatenated"`` channels again, which mixes them.
        channel_init: See ``DisentangledConv``.

    Shape:
        [n, d] to channels [n, K, d_h / K].
    """

    def __init__(
        self,
        in_dim: int,
        *,
        hidden_dim: int = 16,
        num_channels: int = 4,
        num_layers: int = 1,
        dropout: float = 0.5,
        use_assigner: bool = True,
        assigner_activation: Activation = "relu",
        assigner_hidden_dim: int | None = None,
        layer_input: LayerInput = "channel",
        channel_init: ChannelInit = "normal",
    ) -> None:
        super().__init__()
        self.num_channels = num_channels
        self.channel_dim = hidden_dim // num_channels
        self.dropout = dropout
        # With one channel every share is 1, and with nothing to decide there is nothing to learn.
        self.assigner = (
            NeighbourAssigner(in_dim, num_channels, assigner_hidden_dim, assigner_activation)
            if use_assigner and num_channels > 1
            else None
        )
        mixing = num_layers - 1 if layer_input == "concatenated" else 0
        self.reductions = nn.ModuleList([nn.Linear(in_dim, hidden_dim)])
        self.reductions.extend(nn.Linear(hidden_dim, hidden_dim) for _ in range(mixing))
        self.layers = nn.ModuleList(
            DisentangledConv(num_channels, self.channel_dim, channel_init) for _ in range(num_layers)
        )
        self._reset_reductions()

    def reduction(self, layer: int) -> nn.Linear:
        """RED of a layer: K layers side by side."""
        return cast("nn.Linear", self.reductions[layer])

    def layer(self, index: int) -> DisentangledConv:
        """One of the layers."""
        return cast("DisentangledConv", self.layers[index])

    def _reset_reductions(self) -> None:
        for index in range(len(self.reductions)):
            reduction = self.reduction(index)
            for channel in reduction.weight.chunk(self.num_channels):  # K layers side by side, each its own fan
                nn.init.xavier_uniform_(channel)
            nn.init.zeros_(reduction.bias)

    def forward(self, x: Tensor, adjacency: Adjacency | Sequence[Adjacency]) -> Tensor:
        """Channels of every node; over one adjacency, or over one for each layer as ``Adjacency.around`` gives them."""
        rounds = [adjacency] * len(self.layers) if isinstance(adjacency, Adjacency) else adjacency
        messages, assignment = self._first_products(x)
        channels = messages
        for index in range(len(self.layers)):
            layer = self.layer(index)
            if index > 0:
                if len(self.reductions) > 1:
                    channels = self.reduction(index)(channels.flatten(1)).view_as(channels)
                messages = layer.transform(channels)
            channels = layer(messages, assignment, rounds[index])
            channels = nn.functional.dropout(channels, self.dropout, self.training)
        return channels

    def _first_products(self, x: Tensor) -> tuple[Tensor, Assignment | None]:
        """Everything that is linear in X, in one product."""
        reduction, transform = self.reduction(0), self.layer(0).weight
        shape = (self.num_channels, self.channel_dim)
        weight = torch.bmm(transform, reduction.weight.view(*shape, -1)).flatten(0, 1)
        bias = torch.bmm(transform, reduction.bias.view(*shape, 1)).flatten()
        if self.assigner is None:
            return nn.functional.linear(x, weight, bias).view(-1, *shape), None
        pair_weight, pair_bias = self.assigner.projections()
        product = nn.functional.linear(x, torch.cat([weight, pair_weight]), torch.cat([bias, pair_bias]))
        width, half = weight.size(0), pair_weight.size(0) // 2
        messages, target, source = torch.split(product, [width, half, half], dim=1)
        return messages.reshape(-1, *shape), Assignment(target, source, self.assigner.head())
