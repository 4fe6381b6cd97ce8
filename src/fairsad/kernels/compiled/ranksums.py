r"""The compiled loops behind ``fairsad.kernels.ranksums``.

``rank_loop`` sorts columns, ``cross_loop`` does the one thing that takes more than sorting: for a pair of columns
(x, y) it finds

.. math::
    S_i = \sum_j \sigma_{ij}, \quad T_i = \sum_j \sigma_{ij} y_j, \quad U_i = \sum_j \sigma_{ij} x_j, \qquad
    \sigma_{ij} = \operatorname{sgn}(x_i - x_j) \operatorname{sgn}(y_i - y_j)

from which both wanted vectors follow, since :math:`|y_i - y_j| = \operatorname{sgn}(y_i - y_j) (y_i - y_j)`:

.. math::
    D(x; y)_i = y_i S_i - T_i, \qquad D(y; x)_i = x_i S_i - U_i.

Rows are visited in the order of x. A binary tree over the ranks of y holds the sums of (1, x, y) of all rows visited
so far; walking from a leaf to the root and adding each sibling, positive if it is to the left, negative if to the
right, gives

.. math::
    A_i = \sum_{j\,:\,x_j < x_i} \operatorname{sgn}(y_i - y_j) \, (1, x_j, y_j).

Equal y share a leaf and so count 0. Rows of equal x are asked for before any of them enters the tree and once more
after all have; the second answer is the sum over :math:`x_j \le x_i`. With M_i, the sum over all rows,

.. math::
    (S, U, T)_i = A^{<}_i - (M_i - A^{\le}_i) = A^{<}_i + A^{\le}_i - M_i,

for any pattern of ties. A tree over a million ranks would miss the cache at every step. The rows are therefore first
dealt into buckets of neighbouring ranks; one small tree counts whole buckets, another one serves each bucket in turn.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import float64, int32, int64, void

from fairsad.kernels.compiled import Loop, compile_loop
from fairsad.kernels.compiled.simd import add, fma, lane, load, pack, splat, store, sub, zeros

# Ranks per bucket, as a power of two: its tree is 128 kB and stays in the second-level cache.
_BUCKET_LEVELS = 11

_njit: Any = numba.njit(nogil=True, error_model="numpy", fastmath={"contract", "nsz"}, forceinline=True)


@cache
def rank_loop(dtype: str) -> Loop:
    """Sort columns and sum their distances.

    A radix sort of (bit pattern, row) pairs, eight bits at a time: bit patterns of floating-point numbers compare as
    integers once negative ones are inverted and the sign bit of the others is set.
    """
    unsigned = np.uint32 if dtype == "float32" else np.uint64
    bits = 32 if dtype == "float32" else 64
    sign = unsigned(1 << (bits - 1))
    zero = unsigned(0)

    def loop(
        columns: Any,
        patterns: Any,
        order: Any,
        values: Any,
        first: Any,
        last: Any,
        distance_sums: Any,
        record_values: Any,
        record_places: Any,
    ) -> None:
        num_columns, num_rows = columns.shape
        for column in numba.prange(num_columns):
            key, next_key = np.empty(num_rows, unsigned), np.empty(num_rows, unsigned)
            row, next_row = np.empty(num_rows, np.int32), np.empty(num_rows, np.int32)
            for position in range(num_rows):
                pattern = patterns[column, position]
                if pattern == sign:  # -0.0 equals 0.0
                    pattern = zero
                key[position] = ~pattern if pattern & sign else pattern | sign
                row[position] = position
            start = np.empty(257, np.int64)
            for shift in range(0, bits, 8):
                start[:] = 0
                for position in range(num_rows):
                    start[((key[position] >> unsigned(shift)) & unsigned(255)) + 1] += 1
                for value in range(256):
                    start[value + 1] += start[value]
                for position in range(num_rows):
                    value = (key[position] >> unsigned(shift)) & unsigned(255)
                    next_key[start[value]], next_row[start[value]] = key[position], row[position]
                    start[value] += 1
                key, next_key = next_key, key
                row, next_row = next_row, row

            # Distances do not depend on a shift; around the median the sums below lose the least to rounding, and a
            # constant column is exactly 0.
            median = float64(columns[column, row[num_rows // 2]])
            total = 0.0
            for position in range(num_rows):
                order[column, position] = row[position]
                values[column, position] = float64(columns[column, row[position]]) - median
                total += values[column, position]
            below = 0.0
            begin = 0
            while begin < num_rows:
                end = begin + 1
                within = values[column, begin]
                while end < num_rows and key[end] == key[begin]:
                    within += values[column, end]
                    end += 1
                signed = 2.0 * below + within - total  # sum of smaller values minus sum of larger ones
                for position in range(begin, end):
                    value = values[column, position]
                    first[column, position], last[column, position] = begin, end
                    distance_sums[column, row[position]] = value * (begin + end - num_rows) - signed
                    record_values[column, row[position], 0] = value
                    record_places[column, row[position], 1] = (int64(begin) << 32) | position
                below += within
                begin = end

    number, wide, narrow = getattr(numba, dtype), float64[:, ::1], int32[:, ::1]
    pattern = getattr(numba, np.dtype(unsigned).name)
    signature = void(
        number[:, ::1], pattern[:, ::1], narrow, wide, narrow, narrow, wide, float64[:, :, ::1], int64[:, :, ::1]
    )
    return compile_loop(loop, signature, name=f"rank_{dtype}", purpose="distance correlation", fastmath=False)


@_njit
def _ask(tree: Any, node: Any) -> Any:
    """Signed sum of all that is in the tree beside a leaf: left of it minus right of it."""
    result = zeros(tree.dtype, 4)
    while node > 1:
        sign = float64(2 * (node & 1) - 1)
        result = fma(splat(sign, 4), load(tree, (node ^ 1) * 4, 4), result)
        node >>= 1
    return result


@_njit
def _enter(tree: Any, node: Any, weight: Any) -> None:
    """Add a row to its leaf and to everything above, but the root, which nobody asks."""
    while node > 1:
        store(tree, node * 4, add(load(tree, node * 4, 4), weight))
        node >>= 1


# One row of a pair of columns is one cache line of eight numbers: A (four lanes), x, y, and two integers in the same
# memory, seen through a second array: rank and place in the sorted y (32 bits each), and place in the sorted x.
_ROW, _X, _Y, _PLACES_Y, _PLACE_X = 8, 4, 5, 6, 7


@_njit
def _visit(tree: Any, leaves: int, shift: int, begin: int, end: int, numbers: Any, integers: Any) -> None:
    """A run of rows with equal x meets the tree: each is asked for, then all enter, then each is asked for again."""
    alone = end == begin + 1
    for row in range(begin * _ROW, end * _ROW, _ROW):
        asked = _ask(tree, leaves + ((integers[row + _PLACES_Y] >> shift) & (leaves - 1)))
        if alone:  # a row is not beside itself, so the second answer is the first
            asked = add(asked, asked)
        store(numbers, row, add(load(numbers, row, 4), asked))
    for row in range(begin * _ROW, end * _ROW, _ROW):
        leaf = (integers[row + _PLACES_Y] >> shift) & (leaves - 1)
        _enter(tree, leaves + leaf, pack(1.0, numbers[row + _X], numbers[row + _Y]))
    if not alone:
        for row in range(begin * _ROW, end * _ROW, _ROW):
            asked = _ask(tree, leaves + ((integers[row + _PLACES_Y] >> shift) & (leaves - 1)))
            store(numbers, row, add(load(numbers, row, 4), asked))


@_njit
def _leaves(number: int) -> int:
    """The smallest power of two that is enough."""
    leaves = 1
    while leaves < number:
        leaves *= 2
    return leaves


@cache
def cross_loop() -> Loop:
    """Both vectors D of each pair of columns, each in the sorted order of its own column, and sum_i x_i D(x; y)_i.

    With no room for the vectors (``sums`` of length 0) only the sums are returned.
    """

    def loop(
        pairs: Any,
        order: Any,
        values: Any,
        first: Any,
        last: Any,
        record_values: Any,
        record_places: Any,
        num_workers: Any,
        sums: Any,
        products: Any,
    ) -> None:
        num_rows = order.shape[1]
        num_buckets = ((num_rows - 1) >> _BUCKET_LEVELS) + 1
        coarse, fine = _leaves(num_buckets), _leaves(min(num_rows, 1 << _BUCKET_LEVELS))
        coarse_shift, fine_shift = 32 + _BUCKET_LEVELS, 32
        for worker in numba.prange(num_workers):
            numbers = np.empty(num_rows * _ROW)
            dealt_numbers = np.empty(num_rows * _ROW if num_buckets > 1 else 0)
            coarse_tree, fine_tree = np.empty(coarse * 8), np.empty(fine * 8)
            everything = np.empty(fine * 4)
            bucket_end = np.empty(num_buckets, np.int64)
            for pair in range(worker, len(pairs), num_workers):
                of_x, of_y = pairs[pair, 0], pairs[pair, 1]
                rows, places = numbers, numbers.view(np.int64)
                total = zeros(values.dtype, 4)
                for position in range(num_rows):
                    element, row = order[of_x, position], position * _ROW
                    x, y = values[of_x, position], record_values[of_y, element, 0]
                    store(rows, row, zeros(values.dtype, 4))
                    rows[row + _X], rows[row + _Y] = x, y
                    places[row + _PLACES_Y], places[row + _PLACE_X] = record_places[of_y, element, 1], position
                    total = add(total, pack(1.0, x, y))

                bucket_end[0] = num_rows
                if num_buckets > 1:
                    # Rows against all other buckets, then dealt into their own. A bucket begins with the first run of
                    # equal y whose rank is in it.
                    coarse_tree[:] = 0.0
                    begin = 0
                    while begin < num_rows:
                        end = int64(last[of_x, begin])
                        _visit(coarse_tree, coarse, coarse_shift, begin, end, rows, places)
                        begin = end
                    for bucket in range(num_buckets):
                        begin = bucket << _BUCKET_LEVELS
                        bucket_end[bucket] = begin if first[of_y, begin] == begin else last[of_y, begin]
                    for row in range(0, num_rows * _ROW, _ROW):
                        bucket = places[row + _PLACES_Y] >> coarse_shift
                        store(dealt_numbers, bucket_end[bucket] * _ROW, load(rows, row, _ROW))
                        bucket_end[bucket] += 1
                    rows, places = dealt_numbers, dealt_numbers.view(np.int64)

                # Rows against their own bucket.
                below = zeros(values.dtype, 4)
                product = 0.0
                bucket_begin = 0
                for bucket in range(num_buckets):
                    fine_tree[:] = 0.0
                    begin = bucket_begin
                    while begin < bucket_end[bucket]:
                        run_end = last[of_x, places[begin * _ROW + _PLACE_X]]
                        end = begin + 1
                        while end < bucket_end[bucket] and places[end * _ROW + _PLACE_X] < run_end:
                            end += 1
                        _visit(fine_tree, fine, fine_shift, begin, end, rows, places)
                        begin = end
                    for leaf in range(fine):  # M, the same for all rows of a rank
                        here = load(fine_tree, (fine + leaf) * 4, 4)
                        store(everything, leaf * 4, sub(add(add(below, below), here), total))
                        below = add(below, here)
                    for row in range(bucket_begin * _ROW, bucket_end[bucket] * _ROW, _ROW):
                        leaf = (places[row + _PLACES_Y] >> fine_shift) & (fine - 1)
                        signed = sub(load(rows, row, 4), load(everything, leaf * 4, 4))  # S, U, T
                        to_x = rows[row + _Y] * lane(signed, 0) - lane(signed, 2)
                        to_y = rows[row + _X] * lane(signed, 0) - lane(signed, 1)
                        product += rows[row + _X] * to_x
                        if len(sums) > 0:
                            sums[pair, 0, places[row + _PLACE_X]] = to_x
                            sums[pair, 1, places[row + _PLACES_Y] & 0xFFFFFFFF] = to_y
                    bucket_begin = bucket_end[bucket]
                products[pair] = product

    wide, narrow = float64[:, ::1], int32[:, ::1]
    signature = void(
        int64[:, ::1],
        narrow,
        wide,
        narrow,
        narrow,
        float64[:, :, ::1],
        int64[:, :, ::1],
        int64,
        float64[:, :, ::1],
        float64[::1],
    )
    return compile_loop(loop, signature, name="cross", purpose="distance correlation", fastmath=False)


@cache
def gradient_loop(dtype: str) -> Loop:
    """The backward pass of ``fairsad.kernels.ranksums``, column by column."""

    def loop(
        pairs: Any,
        order: Any,
        values: Any,
        first: Any,
        last: Any,
        sums: Any,
        to_products: Any,
        to_squares: Any,
        to_distance_sums: Any,
        gradient: Any,
    ) -> None:
        num_columns, num_rows = order.shape
        for column in numba.prange(num_columns):
            result, weight = np.empty(num_rows), np.empty(num_rows)
            of_values, of_weights = 0.0, 0.0
            for position in range(num_rows):
                weight[position] = to_distance_sums[column, order[column, position]]
                of_weights += weight[position]
                of_values += values[column, position]
            for position in range(num_rows):
                result[position] = 4.0 * to_squares[column] * (num_rows * values[column, position] - of_values)
            for pair in range(len(pairs)):
                for side in range(2):
                    if pairs[pair, side] == column:
                        factor = 2.0 * to_products[pair]
                        for position in range(num_rows):
                            result[position] += factor * sums[pair, side, position]
            below = 0.0
            begin = 0
            while begin < num_rows:
                end = last[column, begin]
                within = 0.0
                for position in range(begin, end):
                    within += weight[position]
                signed = 2.0 * below + within - of_weights
                for position in range(begin, end):
                    balance = first[column, position] + end - num_rows
                    gradient[column, order[column, position]] = result[position] + balance * weight[position] + signed
                below += within
                begin = end

    number, wide, narrow = getattr(numba, dtype)[:, ::1], float64[:, ::1], int32[:, ::1]
    signature = void(
        int64[:, ::1],
        narrow,
        wide,
        narrow,
        narrow,
        float64[:, :, ::1],
        float64[::1],
        float64[::1],
        wide,
        number,
    )
    return compile_loop(loop, signature, name=f"gradient_{dtype}", purpose="distance correlation", fastmath=False)
