"""Can the channels be told apart? Cross-entropy of the channel discriminator."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fairsad.errors import DataError


def channel_loss(scores: Tensor) -> Tensor:
    r"""Channel discrimination loss L_d of FairSAD, Eq. (8).

    .. math::
        \mathcal{L}_d = \sum_{k=1}^K \operatorname{mean}_v \operatorname{CE}(f_d(\tilde z^k_v), k)

    Args:
        scores: [t, K, K], for each node and channel what the discriminator gives each of the K channels.

    Returns:
        A number, 0 for a single channel.

    Raises:
        DataError: Not as many scores as channels.
    """
    if scores.dim() != 3 or scores.size(1) != scores.size(2):
        raise DataError(f"scores have shape {tuple(scores.shape)}; expected [nodes, channels, channels].")
    num_nodes, num_channels, _ = scores.shape
    answers = torch.arange(num_channels, device=scores.device).repeat(num_nodes)
    return num_channels * functional.cross_entropy(scores.flatten(0, 1), answers)
