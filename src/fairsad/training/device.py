"""Where to compute."""

from __future__ import annotations

import torch

from fairsad.errors import ProtocolError


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
