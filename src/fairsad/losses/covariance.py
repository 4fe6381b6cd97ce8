"""How much does each column still say about the sensitive attribute? Absolute covariance, to be made small."""

from __future__ import annotations

import torch
from torch import Tensor

from fairsad.errors import DataError


def covariance_loss(columns: Tensor, centred: Tensor) -> Tensor:
    r"""Decorrelation loss L_m of FairSAD, Eq. (6).

    .. math::
        \mathcal{L}_m = \sum_i |\operatorname{Cov}(s, \tilde c_i)|, \qquad
        \operatorname{Cov}(s, c) = \operatorname{E}[(s - \operatorname{E} s) (c - \operatorname{E} c)]

    For any number of groups and several attributes, each attribute counts with half the sum over its groups of the
    covariance with the group's indicator, :math:`\frac12 \sum_g |\operatorname{Cov}(1[s = g], \tilde c_i)|`, and
    attributes are added up. The two indicators of a binary attribute have covariances of equal size, so that case is
    the formula above. It does not depend on how groups are numbered, and is 0 only if no group is correlated.

    Nodes whose value of an attribute is unknown stay out of that attribute's expectations. An attribute of which
    only one group is known (or none) contributes 0.

    Args:
        columns: Masked representation [t, d] of the nodes the expectation is over.
        centred: ``centred_indicators`` of these nodes [groups, t]: with s centred, c need not be.

    Returns:
        A number of the type of ``columns``.

    Raises:
        DataError: Shapes that do not belong together.
    """
    if columns.dim() != 2 or centred.dim() != 2 or len(columns) != centred.size(1):
        raise DataError(
            f"columns have shape {tuple(columns.shape)} and centred indicators {tuple(centred.shape)}; expected [t, d] "
            "and [groups, t] for the same t nodes."
        )
    return (centred @ columns).abs().sum()


def centred_indicators(sensitive: Tensor, dtype: torch.dtype) -> Tensor:
    """What L_m needs of the sensitive values, a constant of the training nodes.

    Args:
        sensitive: int64 [t, attributes], -1 where unknown.
        dtype: Of the columns.

    Returns:
        [groups, t], for each group of each attribute its indicator, centred among the t' nodes whose value is known and
        divided by 2 t'; 0 where it is unknown.

    Raises:
        DataError: Not a table of attributes.
    """
    if sensitive.dim() != 2:
        raise DataError(f"sensitive values have shape {tuple(sensitive.shape)}; expected [t, attributes].")
    centred = []
    for values in sensitive.unbind(1):
        known = values >= 0
        count = known.sum().clamp(min=1)
        num_groups = int(values.max()) + 1 if values.numel() else 0
        groups = torch.arange(num_groups, device=values.device).unsqueeze(1)
        indicators = (values == groups).to(dtype)
        centred.append((indicators - indicators.sum(1, keepdim=True) / count) * known / (2 * count))
    return torch.cat([sensitive.new_zeros((0, len(sensitive)), dtype=dtype), *centred])
