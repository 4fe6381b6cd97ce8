"""How much does each column still say about the sensitive attribute? Absolute covariance, to be made small."""

from __future__ import annotations

import torch
from torch import Tensor

from fairsad.errors import DataError


def covariance_loss(columns: Tensor, sensitive: Tensor) -> Tensor:
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
        sensitive: int64 [t, attributes], -1 where unknown.

    Returns:
        A number of the type of ``columns``.

    Raises:
        DataError: Shapes that do not belong together.
    """
    if columns.dim() != 2 or sensitive.dim() != 2 or len(columns) != len(sensitive):
        raise DataError(
            f"columns have shape {tuple(columns.shape)} and sensitive values {tuple(sensitive.shape)}; expected [t, d] "
            "and [t, attributes] for the same t nodes."
        )
    total = columns.new_zeros(())
    for values in sensitive.unbind(1):
        known = values >= 0
        count = known.sum().clamp(min=1)
        num_groups = int(values.max()) + 1 if values.numel() else 0
        groups = torch.arange(num_groups, device=values.device)
        indicators = (values.unsqueeze(1) == groups).to(columns.dtype)
        # Cov(s, c) = E[(s - E s) c]: with s centred among the known, c need not be.
        centred = (indicators - indicators.sum(0) / count) * known.unsqueeze(1)
        total = total + (centred.t() @ columns / count).abs().sum() / 2
    return total
