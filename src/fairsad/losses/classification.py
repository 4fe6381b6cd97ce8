"""How well are the labels predicted?"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def classification_loss(scores: Tensor, labels: Tensor) -> Tensor:
    r"""Classification loss L_c: binary cross-entropy for two classes, cross-entropy for more.

    Args:
        scores: [t] for two classes, [t, classes] for more.
        labels: Class numbers [t].
    """
    if scores.dim() == 1:
        return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))
    return functional.cross_entropy(scores, labels)
