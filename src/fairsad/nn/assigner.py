"""Why are two people linked? The neighbour assigner gives each link a share in every channel."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Activation = Literal["relu", "none"]


class NeighbourAssigner(nn.Module):
    r"""Neighbour assigner f_a of FairSAD, Eq. (2).

    .. math::
        \alpha_{uv} = W_2 \, \phi(W_1 [x_u, x_v] + b_1) + b_2, \qquad
        w^k_{uv} = \operatorname{softmax}_k(\alpha_{uv})

    The first layer on a pair is a sum of one projection of u and one of v, so this module only ever gives out
    *node* projections, :math:`P` for the target u and :math:`Q` for the source v; the kernel adds the two on
    each link. The [m, 2d] matrix of pairs never exists.

    Args:
        in_dim: Features d.
        num_channels: Channels K.
        hidden_dim: Width of the hidden layer; K where left out, as in the authors' code.
        activation: ``"relu"`` makes it the two-layer MLP of the paper. Deviation: the authors' code has
            ``"none"``, two linear layers in a row, which are multiplied into one here.

    Shape:
        ``projections`` gives weight [2h, d] and bias [2h], the first h rows for targets; h is ``hidden_dim``
        with an activation and K without. ``head`` gives weight [K, h] and bias [K], or ``None``.
    """

    def __init__(
        self, in_dim: int, num_channels: int, hidden_dim: int | None = None, activation: Activation = "relu"
    ) -> None:
        super().__init__()
        self.activation = activation
        hidden = num_channels if hidden_dim is None else hidden_dim
        self.pair = nn.Linear(2 * in_dim, hidden)
        self.score = nn.Linear(hidden, num_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform weights, zero biases."""
        for layer in (self.pair, self.score):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def projections(self) -> tuple[Tensor, Tensor]:
        """Weight and bias that turn features into [P, Q]; the bias belongs to the target half."""
        of_target, of_source = self.pair.weight.chunk(2, dim=1)
        bias: Tensor = self.pair.bias
        if self.activation == "none":
            of_target, of_source = self.score.weight @ of_target, self.score.weight @ of_source
            bias = torch.addmv(self.score.bias, self.score.weight, bias)
        return torch.cat([of_target, of_source]), torch.cat([bias, torch.zeros_like(bias)])

    def head(self) -> tuple[Tensor, Tensor] | None:
        """What follows the activation on each link; ``None`` where the layers were multiplied into one."""
        return None if self.activation == "none" else (self.score.weight, self.score.bias)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Shares [m, K] of each link in each channel: to look at, not used in training."""
        weight, bias = self.projections()
        target, source = nn.functional.linear(x, weight, bias).chunk(2, dim=1)
        scores = target[edge_index[0]] + source[edge_index[1]]
        if self.activation == "relu":
            scores = self.score(scores.relu())
        return scores.softmax(dim=1)
