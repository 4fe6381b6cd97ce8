"""How much do channels depend on each other? Distance correlation, exactly, in n log n time."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairsad.errors import DataError
from fairsad.kernels.ranksums import distance_statistics

Ratio = Literal["pooled", "per_column"]

# Under the root of the authors' ratio.
_EPSILON = 1e-9


def distance_correlation_loss(channels: Tensor, *, ratio: Ratio = "pooled") -> Tensor:
    r"""Distance correlation loss L_dc of FairSAD, Eq. (7) with Eqs. (11)-(12).

    .. math::
        \mathcal{L}_{dc} = \sum_{k < l} \frac{\sum_j \Gamma(z^k_j, z^l_j)}
            {\sqrt{\sum_j \Gamma(z^k_j, z^k_j) \, \sum_j \Gamma(z^l_j, z^l_j)}}, \qquad
        \Gamma(x, y) = \frac{1}{n^2} \sum_{i i'} A_{i i'} B_{i i'}

    with doubly centred distances A of x and B of y: column j of one channel is compared with column j of another. The
    factor :math:`1 / n^2`, which the paper leaves out, cancels.

    Value and gradient are exact and take :math:`O(n \log n)` time and :math:`O(n)` memory per pair of columns, from

    .. math::
        \Gamma(x, y) = \overline{a b} - 2 \, \overline{\bar a_i \bar b_i} + \bar a \, \bar b,

    a mean over pairs of rows, a mean over rows of products of row means, and a product of means; see
    ``fairsad.kernels.ranksums`` for each and for its derivative. The distance covariance of each column with itself is
    computed once, not once per pair. At ties the derivative of :math:`|x_i - x_j|` is 0. A channel (a column, with
    ``ratio="per_column"``) that is constant depends on nothing: its terms are 0, and so is their gradient.

    Args:
        channels: [n, K, q].
        ratio: ``"pooled"``, one ratio per pair of channels as above (paper). Deviation: the authors' code sums a ratio
            ``"per_column"``, :math:`\sum_j \Gamma(x, y) / \sqrt{\Gamma(x, x) \Gamma(y, y) + 10^{-9}}`, up to q times as
            large. Also theirs, and not followed: :math:`10^{-12}` under the root of squared distances, which
            changes an entry by at most :math:`10^{-6}`.

    Returns:
        A number of the type of ``channels``, 0 for a single channel.

    Raises:
        DataError: There are no rows, or an unknown ratio.
    """
    if ratio not in ("pooled", "per_column"):
        raise DataError(f"unknown ratio {ratio!r} of the distance correlation; expected 'pooled' or 'per_column'.")
    if channels.size(1) == 1:
        return channels.new_zeros(())
    pairs = _pairs(channels.size(1), channels.size(2), channels.device)
    statistics = distance_statistics(channels.flatten(1).t(), pairs.columns)
    return _Ratios.apply(*statistics, pairs, ratio).to(channels.dtype)  # type: ignore[no-any-return,no-untyped-call]


@torch.no_grad()
def distance_correlation_matrix(channels: Tensor) -> Tensor:
    """Measured dependence between channels: the terms of Eq. (7), squared distance correlations between 0 and 1.

    Args:
        channels: [n, K, q].

    Returns:
        [K, K], symmetric, 1 on the diagonal but for constant channels, whose row and column are 0.
    """
    num_channels = channels.size(1)
    pairs = _pairs(num_channels, channels.size(2), channels.device)
    covariance, variance, _ = _distance_covariances(
        *distance_statistics(channels.flatten(1).t(), pairs.columns), pairs.columns
    )
    variance = variance.view(num_channels, -1).sum(1)
    matrix = torch.diag((variance > 0).to(variance.dtype))
    of_pairs = covariance.view(len(pairs.first), channels.size(2)).sum(1)
    terms = of_pairs * _inverse_root(variance[pairs.first], variance[pairs.second])
    matrix[pairs.first, pairs.second] = matrix[pairs.second, pairs.first] = terms
    return matrix.to(channels.dtype)


class _Pairs(NamedTuple):
    """Pairs of channels [pairs], and their columns of the same index [pairs · q, 2]."""

    num_channels: int
    first: Tensor
    second: Tensor
    columns: Tensor


@cache
def _pairs(num_channels: int, width: int, device: torch.device) -> _Pairs:
    first, second = torch.triu_indices(num_channels, num_channels, 1, device=device)
    index = torch.arange(width, device=device)
    columns = [(channel.unsqueeze(1) * width + index).flatten() for channel in (first, second)]
    return _Pairs(num_channels, first, second, torch.stack(columns, dim=1))


def _distance_covariances(
    products: Tensor, squares: Tensor, sums: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Γ of pairs of columns, Γ of each column with itself, and :math:`\bar a - 2 \bar a_i`, for the gradient."""
    num_rows = sums.size(1)
    means = sums / num_rows
    mean = means.mean(1)
    # the last two terms of Γ, for all pairs of columns
    rest = torch.outer(mean, mean) - 2 / num_rows * means @ means.t()
    covariance = products / num_rows**2 + rest[pairs[:, 0], pairs[:, 1]]
    variance = squares / num_rows**2 + rest.diagonal()
    return covariance, variance, mean.unsqueeze(1) - 2 * means


def _inverse_root(first: Tensor, second: Tensor) -> Tensor:
    """What a covariance of two channels is multiplied with in Eq. (7); 0 where one of them is constant."""
    first, second = (variance.where(variance > 0, torch.inf) for variance in (first, second))
    return first.rsqrt() * second.rsqrt()


class _Ratios(torch.autograd.Function):
    """From sums over pairs of rows to the loss; the gradient by hand halves the calls of an epoch on a hundred rows."""

    @staticmethod
    def forward(ctx: Any, products: Tensor, squares: Tensor, sums: Tensor, pairs: _Pairs, ratio: Ratio) -> Tensor:
        covariance, variance, distances = _distance_covariances(products, squares, sums, pairs.columns)
        covariance, variance = covariance.view(len(pairs.first), -1), variance.view(pairs.num_channels, -1)
        if ratio == "pooled":
            covariance, variance = covariance.sum(1, keepdim=True), variance.sum(1, keepdim=True)
        first, second = variance[pairs.first], variance[pairs.second]
        factor = _inverse_root(first, second) if ratio == "pooled" else (first * second + _EPSILON).rsqrt()
        terms = covariance * factor
        ctx.pairs = pairs
        ctx.save_for_backward(distances, factor, terms, first, second)
        return terms.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        distances, factor, terms, first, second = ctx.saved_tensors
        pairs, (num_columns, num_rows) = ctx.pairs, distances.shape
        num_pairs, num_channels = len(pairs.first), pairs.num_channels
        width = num_columns // num_channels
        gradient = gradient / num_rows**2
        # d term / d variance = - term · factor² · the other's variance / 2, in both ratios
        common = terms * factor.square() * (-gradient / 2)
        to_variance = torch.zeros(num_channels, factor.size(1), dtype=factor.dtype, device=factor.device)
        to_variance.index_add_(0, pairs.first, common * second).index_add_(0, pairs.second, common * first)
        to_squares = to_variance.expand(-1, width).flatten()
        to_products = (factor * gradient).expand(num_pairs, width).flatten()
        shares = torch.diag(2 * to_squares)
        shares[pairs.columns[:, 0], pairs.columns[:, 1]] = to_products
        shares[pairs.columns[:, 1], pairs.columns[:, 0]] = to_products
        return to_products, to_squares, shares @ distances, None, None
