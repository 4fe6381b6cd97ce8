"""Where to compute."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch

from fairsad.errors import ProtocolError

if TYPE_CHECKING:
    from fairsad.graph import FairGraph


def resolve_device(name: str) -> torch.device:
    """The device of that name; ``"auto"`` is a CUDA device where there is one, and otherwise the CPU.

    Raises:
        ProtocolError: There is no such device here.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, dtype=torch.float64, device=device)  # the exact sums need 64 bits
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ProtocolError(
            f"device {name!r} cannot be used here ({reason}). Use 'auto' or 'cpu'; "
            "'fairsad doctor' shows what there is."
        ) from None
    return device


def on_device(graph: FairGraph, device: torch.device) -> FairGraph:
    """The graph there, and the given one where it was; on the CPU it is the same one."""
    return graph if device.type == "cpu" else copy.copy(graph).to(device)
