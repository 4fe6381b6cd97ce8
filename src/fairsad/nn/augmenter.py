"""Graphair's augmenter: other links and a mask of the features, drawn with learned probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fairsad.nn.backbone import linear

Propagate = Callable[[Tensor], Tensor]

_PAIRS_AT_A_TIME = 1 << 20
# Uniform noise is drawn from here on: added to a probability of 1 it is above 1, and added to one of 0 never.
_LEAST_NOISE = 2.0**-23


class Convolutions(nn.Module):
    """GCN layers over links that are given with every call: ReLU after each layer, dropout between them.

    Args:
        widths: Of the input and of each layer.
        dropout: Rate between layers, while training.
    """

    def __init__(self, widths: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(linear(*pair) for pair in pairwise(widths))
        self.dropout = dropout

    def forward(self, propagated: Tensor, propagate: Propagate) -> Tensor:
        """Representation [k, width].

        Args:
            propagated: What the first layer gathers, [k, d].
            propagate: One step of propagation, for the layers after it.
        """
        h = propagated
        for index, layer in enumerate(self.layers):
            if index > 0:
                h = propagate(nn.functional.dropout(h, self.dropout, self.training))
            h = layer(h).relu()
        return h


class Augmenter(nn.Module):
    r"""Says how likely each link and each feature is in a view, Graphair's :math:`g`.

    A two-layer GCN represents the nodes; from that, one perceptron makes Z, whose products :math:`E = Z Z^\top` score
    the links, and another scores every feature of every node.

    Args:
        num_features: Features d.
        hidden_dim: Width of the layers.
        dropout: Rate between the GCN's layers, while training.
    """

    def __init__(self, num_features: int, hidden_dim: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = Convolutions((num_features, hidden_dim, hidden_dim), dropout)
        self.link_head = perceptron(hidden_dim, num_features, nn.ReLU())
        self.feature_head = perceptron(hidden_dim, num_features, nn.ReLU())

    def forward(self, propagated: Tensor, propagate: Propagate) -> tuple[Tensor, Tensor]:
        """Z [k, d] of the links, and scores [k, d] of the features."""
        h = self.convolutions(propagated, propagate)
        return self.link_head(h), self.feature_head(h)


class DrawnLinks:
    r"""Links of a view, and the GCN propagation over them, :math:`D^{-1/2} S D^{-1/2} h` by scaling rows.

    Args:
        links: S [k, k], symmetric zeros and ones, ones on the diagonal.
    """

    def __init__(self, links: Tensor) -> None:
        self.links = links
        self.scale = links.sum(dim=1, keepdim=True).rsqrt()

    def propagate(self, h: Tensor) -> Tensor:
        """One step, [k, width] to [k, width]."""
        return self.scale * (self.links @ (self.scale * h))

    def detached(self) -> DrawnLinks:
        """The same links, through which no gradient flows."""
        links = object.__new__(DrawnLinks)
        links.links, links.scale = self.links.detach(), self.scale.detach()
        return links


def perceptron(width: int, out_dim: int, activation: nn.Module) -> nn.Sequential:
    """Two linear layers, the first as wide as its input."""
    return nn.Sequential(linear(width, width), activation, linear(width, out_dim))


def draw_links(z: Tensor, pattern: Tensor) -> Tensor:
    r"""Links of a view: a link with probability :math:`\pi_{ij} = (\sigma(z_i \cdot z_j) + A_{ij}) / 2`, a loop always.

    A link of the graph stays with probability one half at least, and one that is not there comes with one half at most.
    Forward gives zeros and ones; backward is that of the relaxed sample
    :math:`\sigma(\operatorname{logit} \pi + \operatorname{logit} u)` with the same uniform noise u, which is above one
    half exactly where :math:`\pi + u > 1`. Its slope is a ratio of polynomials in π and u,

    .. math::
        \frac{\partial}{\partial \pi} = \frac{u (1 - u)}{(\pi u + (1 - \pi)(1 - u))^2}.

    Args:
        z: [k, width].
        pattern: A + I, bool [k, k].

    Returns:
        S [k, k], symmetric with a unit diagonal.
    """
    return _DrawLinks.apply(z, pattern)  # type: ignore[no-any-return,no-untyped-call]


def draw_link_list(z: Tensor, rows: Tensor, columns: Tensor) -> Iterator[Tensor]:
    """The same draw, in blocks of rows and without a gradient, for graphs whose matrix of pairs is too large.

    Args:
        z: [n, width].
        rows: int64 [entries] of A + I, in any order.
        columns: int64 [entries].

    Yields:
        int64 [2, m], drawn links from smaller to larger node.
    """
    forward = rows < columns
    order = rows[forward].argsort()
    rows, columns = rows[forward][order], columns[forward][order]
    for start, stop in _row_blocks(len(z)):
        first, last = torch.searchsorted(rows, torch.tensor([start, stop], device=rows.device)).tolist()
        pattern = torch.zeros(stop - start, len(z) - start, device=z.device, dtype=torch.bool)
        pattern[rows[first:last] - start, columns[first:last] - start] = True
        yield _draw_block(z, pattern, start, stop)[0].nonzero().t() + start


def draw_mask(scores: Tensor) -> Tensor:
    """Mask of the features: 1 with probability σ(score), with the gradient of the relaxed sample."""
    noise = torch.empty_like(scores).uniform_(_LEAST_NOISE, 1)
    relaxed = (scores + noise.logit()).sigmoid()
    return (relaxed > 0.5).to(scores.dtype) + (relaxed - relaxed.detach())


class _DrawLinks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, pattern: Tensor) -> Tensor:
        links = torch.empty_like(pattern, dtype=z.dtype)
        ctx.slopes = []
        for start, stop in _row_blocks(len(z)):
            drawn, slope = _draw_block(z, pattern[start:stop, start:], start, stop, with_slope=ctx.needs_input_grad[0])
            links[start:stop, start:] = drawn
            links[start:, start:stop] = drawn.t()  # also mends the block's own square, whose lower half is not drawn
            links[start:stop, start:stop] += drawn[:, : stop - start]
            ctx.slopes.append(slope)
        links.diagonal().fill_(1)
        ctx.save_for_backward(z)
        return links

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (z,) = ctx.saved_tensors
        result = torch.zeros_like(z)
        for (start, stop), slope in zip(_row_blocks(len(z)), ctx.slopes, strict=True):
            by_score = (gradient[start:stop, start:] + gradient[start:, start:stop].t()).mul_(slope)
            result[start:stop] += by_score @ z[start:]
            result[start:] += by_score.t() @ z[start:stop]
        return result, None


def _draw_block(
    z: Tensor, pattern: Tensor, start: int, stop: int, with_slope: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Links of rows start to stop with larger nodes, and the slope of the relaxed sample by the score of each."""
    likely = (z[start:stop] @ z[start:].t()).sigmoid_()
    slope = likely * (1 - likely) / 2 if with_slope else None
    likely.add_(pattern).mul_(0.5)
    noise = torch.empty_like(likely).uniform_(_LEAST_NOISE, 1)
    drawn = (likely + noise > 1).triu_(1)
    if slope is not None:
        rest = 1 - noise
        either = (likely * noise).addcmul_(1 - likely, rest)
        slope = slope.mul_(noise.mul_(rest)).div_(either.square_()).triu_(1)
    return drawn, slope


def _row_blocks(num_nodes: int) -> Iterator[tuple[int, int]]:
    step = max(1, _PAIRS_AT_A_TIME // num_nodes)
    for start in range(0, num_nodes, step):
        yield start, min(start + step, num_nodes)
