"""The hot loops of the package, each in two forms with one meaning.

Tensors on the CPU go to compiled loops (Numba, in ``fairsad.kernels.compiled``), tensors on any other device to plain
PyTorch operations on that device. Which form runs is a property of the tensor and of nothing else, unless
``use_backend`` says so, as tests and benchmarks do to compare the two. Numba takes a third of a second to import, so
nothing here imports it before the first compiled loop runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import torch
from torch import Tensor

from fairsad.errors import DataError

Backend = Literal["auto", "numba", "torch"]

_chosen: ContextVar[Backend] = ContextVar("fairsad_kernel_backend", default="auto")


@contextmanager
def use_backend(backend: Backend) -> Iterator[None]:
    """Choose the form of the kernels inside a ``with`` block.

    Args:
        backend: ``"torch"`` takes the plain form on the CPU too, ``"numba"`` insists on the compiled one (an error for
            tensors it cannot take), ``"auto"`` is the rule.

    Example:
        >>> with use_backend("torch"):
        ...     uses_numba(torch.zeros(3))
        False
    """
    if backend not in ("auto", "numba", "torch"):
        raise DataError(f"unknown kernel backend {backend!r}; expected 'auto', 'numba' or 'torch'.")
    token = _chosen.set(backend)
    try:
        yield
    finally:
        _chosen.reset(token)


def uses_numba(tensor: Tensor) -> bool:
    """Whether the compiled loops take this tensor: float32 or float64 on the CPU."""
    chosen = _chosen.get()
    possible = tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)
    if chosen == "numba" and not possible:
        raise DataError(
            f"the compiled kernels were asked for a {tensor.dtype} tensor on {tensor.device}; they take float32 and "
            "float64 on the CPU. Use use_backend('auto') or move the tensor."
        )
    return possible and chosen != "torch"


def dtype_name(tensor: Tensor) -> str:
    """Its type as Numba and NumPy call it: ``"float32"``."""
    return str(tensor.dtype).removeprefix("torch.")


def exact_dtype(device: torch.device) -> torch.dtype:
    """The widest type the device sums in: float64, but float32 on Apple's GPUs, which have nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64


def describe_backend(device: str | torch.device) -> str:
    """What runs the kernels for float32 tensors on a device, in words for ``fairsad doctor``."""
    device = torch.device(device)
    if uses_numba(torch.empty(0, device="meta" if device.type != "cpu" else "cpu")):
        import numba

        return f"compiled loops (Numba {numba.__version__}), {torch.get_num_threads()} threads"
    return f"plain PyTorch on {device}"
