"""The compiled loops behind ``fairsad.kernels.pairs``.

Both go over a triangle of n (n + 1) / 2 numbers, of which a graph of 30,000 nodes has 450 million: what they cost is
reading and writing memory, so each touches every number once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import float32, float64, int32, int64, void

from fairsad.kernels.compiled import Loop, compile_loop
from fairsad.kernels.compiled.simd import fma, load, splat, store

# Columns of a sum come in vectors of so many.
LANES = 8
_TILE_ROWS, _TILE_OTHERS = 32, 256


@cache
def step_loop(shares: int) -> Loop:
    """A step of the changes and of both momenta; every number is computed as the plain form does, to the last bit."""

    def loop(
        starts: Any,
        row_pointer: Any,
        column: Any,
        change: Any,
        momentum: Any,
        momentum_back: Any,
        c: Any,
        a: Any,
        q: Any,
        b: Any,
        learning_rate: Any,
        decay: Any,
        shrink: Any,
    ) -> None:
        num_nodes = len(starts)
        two, one, nothing = np.float32(2), np.float32(1), np.float32(0)
        for share in numba.prange(shares):
            lows = np.zeros(num_nodes, np.float32)  # least change of the pairs of a row: -1 where there is a link
            for row in range(share, num_nodes, shares):
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    lows[column[entry]] = -one
                c_i, a_i, q_i, b_i = c[row], a[row], q[row], b[row]
                start, length = starts[row], num_nodes - row
                # pieces that begin at the pair of the node with itself, so that the compiler sees plain runs of memory
                changes = change[start : start + length]
                out, back = momentum[start : start + length], momentum_back[start : start + length]
                c_j, a_j, q_j, b_j, low_j = c[row:], a[row:], q[row:], b[row:], lows[row:]
                for j in range(length):
                    double = two * changes[j]
                    out[j] = decay * out[j] + (double + (c_i * a_j[j] + q_i * b_j[j]))
                    back[j] = decay * back[j] + (double + (c_j[j] * a_i + q_j[j] * b_i))
                    low, high = low_j[j], low_j[j] + one
                    first = changes[j] - learning_rate * out[j] - shrink
                    second = changes[j] - learning_rate * back[j] - shrink
                    first = low if first < low else first
                    first = high if first > high else first
                    second = low if second < low else second
                    second = high if second > high else second
                    changes[j] = (first + second) / two
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    lows[column[entry]] = nothing

    numbers = float32[::1]
    signature = void(int64[::1], int64[::1], int32[::1], *[numbers] * 7, *[float32] * 3)
    # without fastmath, or products and sums would be contracted and differ from the plain form
    return compile_loop(
        loop, signature, name=f"pair_step_{shares}", purpose="steps of all pairs of nodes", fastmath=False
    )


@cache
def sum_loop() -> Loop:
    """Rows of Δx, x being of full vectors; tiles of rows are dealt to the shares of the sum in turn."""

    def loop(starts: Any, change: Any, x: Any, shares: Any) -> None:
        num_nodes, width = x.shape
        for share in numba.prange(len(shares)):
            total = shares[share]
            for first_row in range(share * _TILE_ROWS, num_nodes, len(shares) * _TILE_ROWS):
                last_row = min(first_row + _TILE_ROWS, num_nodes)
                for row in range(first_row, last_row):
                    of_itself = float64(change[starts[row]])
                    for position in range(width):
                        total[row, position] += of_itself * x[row, position]
                # The rows of a tile read and write the same other rows, which stay in the cache while they do.
                for first_other in range(first_row + 1, num_nodes, _TILE_OTHERS):
                    last_other = min(first_other + _TILE_OTHERS, num_nodes)
                    for row in range(first_row, last_row):
                        start, here = starts[row] - row, row * width
                        for other in range(max(first_other, row + 1), last_other):
                            weight = change[start + other]
                            if weight != 0:
                                weights, there = splat(float64(weight), LANES), other * width
                                for lane in range(0, width, LANES):
                                    to_row = fma(weights, load(x, there + lane, LANES), load(total, here + lane, LANES))
                                    store(total, here + lane, to_row)
                                    to_other = fma(
                                        weights, load(x, here + lane, LANES), load(total, there + lane, LANES)
                                    )
                                    store(total, there + lane, to_other)

    signature = void(int64[::1], float32[::1], float64[:, ::1], float64[:, :, ::1])
    return compile_loop(loop, signature, name="pair_sum", purpose="sums over all pairs of nodes")
