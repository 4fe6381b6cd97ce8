"""The compiled loop behind ``Adjacency.propagate``."""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import float64, int32, int64, void

from fairsad.kernels.compiled import Loop, compile_loop
from fairsad.kernels.compiled.simd import prefetch

_AHEAD = 16  # entries


@cache
def propagation(dtype: str) -> Loop:
    """Rows of D^-1/2 (A + I) D^-1/2 x, each summed in float64 by one thread in the order of its entries."""

    def loop(blocks: Any, row_pointer: Any, column: Any, scale: Any, x: Any, result: Any) -> None:
        width = x.shape[1]
        last = len(column) - 1
        for block in numba.prange(len(blocks) - 1):
            total = np.empty(width)
            for row in range(blocks[block], blocks[block + 1]):
                total[:] = 0.0
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    # the first lines of a row to come; the processor itself sees where the rest is
                    prefetch(x, int64(column[min(entry + _AHEAD, last)]) * width, 32)
                    neighbour = column[entry]
                    for position in range(width):
                        total[position] += scale[neighbour] * x[neighbour, position]
                for position in range(width):
                    result[row, position] = scale[row] * total[position]

    values = getattr(numba, dtype)[:, ::1]
    signature = void(int64[::1], int64[::1], int32[::1], float64[::1], values, values)
    return compile_loop(loop, signature, name=f"propagation_{dtype}", purpose="propagation")
