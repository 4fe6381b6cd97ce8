"""How much do channels depend on each other? Distance correlation, exactly, in n log n time."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

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
    first, second = torch.triu_indices(channels.size(1), channels.size(1), 1, device=channels.device)
    covariance, variance = _distance_covariances(channels, first, second)
    if ratio == "pooled":
        terms = _pooled(covariance, variance, first, second)
    else:
        terms = covariance / (variance[first] * variance[second] + _EPSILON).sqrt()
    return terms.sum().to(channels.dtype)


@torch.no_grad()
def distance_correlation_matrix(channels: Tensor) -> Tensor:
    """Measured dependence between channels: the terms of Eq. (7), squared distance correlations between 0 and 1.

    Args:
        channels: [n, K, q].

    Returns:
        [K, K], symmetric, 1 on the diagonal but for constant channels, whose row and column are 0.
    """
    num_channels = channels.size(1)
    first, second = torch.triu_indices(num_channels, num_channels, 1, device=channels.device)
    covariance, variance = _distance_covariances(channels, first, second)
    matrix = torch.diag((variance.sum(1) > 0).to(variance.dtype))
    matrix[first, second] = matrix[second, first] = _pooled(covariance, variance, first, second)
    return matrix.to(channels.dtype)


def _distance_covariances(channels: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Γ of columns with the same index in pairs of channels [pairs, q], and of each column with itself [K, q]."""
    num_rows, num_channels, width = channels.shape
    index = torch.arange(width, device=channels.device)
    pairs = torch.stack([(channel.unsqueeze(1) * width + index).flatten() for channel in (first, second)], dim=1)
    products, squares, sums = distance_statistics(channels.flatten(1).t(), pairs)
    means = sums / num_rows
    mean = means.mean(1)
    # the last two terms of Γ, for all pairs of columns
    rest = torch.outer(mean, mean) - 2 / num_rows * means @ means.t()
    covariance = products / num_rows**2 + rest[pairs[:, 0], pairs[:, 1]]
    variance = squares / num_rows**2 + rest.diagonal()
    return covariance.view(-1, width), variance.view(num_channels, width)


def _pooled(covariance: Tensor, variance: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Ratios of the paper; 0 where a channel is constant, without a NaN in the gradient of what is not taken."""
    scale = variance.sum(1)
    varies = scale > 0
    root = torch.where(varies, scale, 1).sqrt()
    both = varies[first] & varies[second]
    return torch.where(both, covariance.sum(1), 0) / (root[first] * root[second])
