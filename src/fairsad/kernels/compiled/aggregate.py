r"""The compiled loops behind ``fairsad.kernels.aggregate``.

One pass over the entries of each row does everything: forward, weights and messages of all K channels; backward, all
gradients of the row's node. The backward loop rests on the symmetry of the pattern. Row i with neighbours j sees both
the entry (i, j), where i is the target, and the entry (j, i), where i is the source:

- the gradient of message i is :math:`\sum_j w_{ji} \, g_j`, over entries where i is the source,
- the gradient of the target part of i comes from :math:`w_{ij}`, that of its source part from :math:`w_{ji}`,

so every thread writes rows of its own only: no atomics, no second pass, and the same bits with any number of threads.
The weights are computed again instead of kept: that costs a few multiplications per entry, less than reading them back
in the transposed order would, and no memory.

A comment ``[a_ij | a_ji]`` is a vector with K lanes for each of the two directions of a link.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numba
from numba import int32, int64, void

from fairsad.kernels.compiled import Loop, compile_loop
from fairsad.kernels.compiled.simd import (
    add,
    div,
    exp_of_nonpositive,
    fma,
    group_maximum,
    group_total,
    half,
    join,
    lane,
    load,
    mul,
    prefetch,
    relu,
    repeat,
    splat,
    store,
    sub,
    sum_runs,
    sum_strided,
    swap,
    tile,
    where_positive,
    zeros,
)

# How many entries ahead the loops ask for a neighbour's rows: two or three random cache lines per entry, which the
# processor by itself does not look ahead for far enough. On a graph larger than the cache that is a factor of three.
_AHEAD = 64

# Where the products of two exponentials add up to less than this, those that were taken for nothing may have counted;
# see ``linear_loops``.
_TINY = {"float32": 1e-10, "float64": 1e-130}


class Loops(NamedTuple):
    """The two directions of one aggregation."""

    forward: Loop
    backward: Loop


@cache
def sum_loop(width: int, dtype: str) -> Loop:
    """Plain sums over neighbours, its own backward pass since the pattern is symmetric."""

    def loop(blocks: Any, row_pointer: Any, column: Any, scale: Any, values: Any, result: Any) -> None:
        last = len(column) - 1
        for block in numba.prange(len(blocks) - 1):
            for row in range(blocks[block], blocks[block + 1]):
                total = zeros(values.dtype, width)
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    prefetch(values, int64(column[min(entry + _AHEAD, last)]) * width, width)
                    total = add(total, load(values, int64(column[entry]) * width, width))
                store(result, row * width, mul(total, splat(scale, width)))

    scalar = getattr(numba, dtype)
    signature = void(int64[::1], int64[::1], int32[::1], scalar, *[scalar[:, ::1]] * 2)
    return compile_loop(loop, signature, name=f"sum_{width}_{dtype}", purpose=f"plain sums of width {width}")


@cache
def linear_loops(num_channels: int, channel_dim: int, dtype: str) -> Loops:
    r"""Weights that are the softmax of P_u + Q_v.

    The softmax of a sum needs no exponential per entry: with node tables :math:`e^{P - \max P}` and
    :math:`e^{Q - \max Q}` it is their product, divided by its sum over channels. Raw features can make logits in the
    thousands; then target and source may want different channels so badly that all products vanish. A sum below
    ``_TINY`` shows it, and that entry is computed from the logits themselves. Above it, the exponentials that are 0 for
    being below ``simd.NOTHING`` are less than a rounding error of the sum, so the result is exact to rounding.
    """
    k, q = num_channels, channel_dim
    width, both = k * q, 2 * k
    tiny = _TINY[dtype]

    def forward(
        blocks: Any,
        row_pointer: Any,
        column: Any,
        messages: Any,
        pair: Any,
        tables: Any,
        result: Any,
    ) -> None:
        last = len(column) - 1
        for block in numba.prange(len(blocks) - 1):
            for row in range(blocks[block], blocks[block + 1]):
                logits = load(pair, row * both, both)
                store(tables, row * both, exp_of_nonpositive(sub(logits, group_maximum(logits, k))))
        for block in numba.prange(len(blocks) - 1):
            for row in range(blocks[block], blocks[block + 1]):
                total = zeros(messages.dtype, width)
                here = load(tables, row * both, k)
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    soon = int64(column[min(entry + _AHEAD, last)])
                    prefetch(tables, soon * both, both)
                    prefetch(messages, soon * width, width)
                    neighbour = int64(column[entry])
                    share = mul(here, load(tables, neighbour * both + k, k))
                    norm = group_total(share, k)
                    if lane(norm, 0) < tiny:
                        logits = add(load(pair, row * both, k), load(pair, neighbour * both + k, k))
                        share = exp_of_nonpositive(sub(logits, group_maximum(logits, k)))
                        norm = group_total(share, k)
                    weight = repeat(div(share, norm), q)
                    total = fma(weight, load(messages, neighbour * width, width), total)
                store(result, row * width, total)

    def backward(
        blocks: Any,
        row_pointer: Any,
        column: Any,
        messages: Any,
        pair: Any,
        tables: Any,
        gradient: Any,
        message_gradient: Any,
        pair_gradient: Any,
    ) -> None:
        last = len(column) - 1
        for block in numba.prange(len(blocks) - 1):
            for row in range(blocks[block], blocks[block + 1]):
                here = load(tables, row * both, both)
                own_message = load(messages, row * width, width)
                own_gradient = load(gradient, row * width, width)
                to_message = zeros(messages.dtype, width)
                to_logits = zeros(messages.dtype, both)
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    soon = int64(column[min(entry + _AHEAD, last)])
                    prefetch(tables, soon * both, both)
                    prefetch(messages, soon * width, width)
                    prefetch(gradient, soon * width, width)
                    neighbour = int64(column[entry])
                    share = mul(here, swap(load(tables, neighbour * both, both)))
                    norm = group_total(share, k)
                    if lane(norm, 0) < tiny or lane(norm, k) < tiny:
                        logits = add(load(pair, row * both, both), swap(load(pair, neighbour * both, both)))
                        share = exp_of_nonpositive(sub(logits, group_maximum(logits, k)))
                        norm = group_total(share, k)
                    weight = div(share, norm)  # [w_ij | w_ji]
                    message = load(messages, neighbour * width, width)
                    incoming = load(gradient, neighbour * width, width)
                    to_weight = sum_runs(join(mul(own_gradient, message), mul(incoming, own_message)), q)
                    weighted = mul(weight, to_weight)
                    to_logits = add(to_logits, sub(weighted, mul(weight, group_total(weighted, k))))
                    to_message = fma(repeat(half(weight, 1), q), incoming, to_message)
                store(message_gradient, row * width, to_message)
                store(pair_gradient, row * both, to_logits)

    rows = getattr(numba, dtype)[:, ::1]
    graph = (int64[::1], int64[::1], int32[::1])
    sizes, purpose = f"{k}_{q}_{dtype}", f"{k} channels of width {q}"
    return Loops(
        compile_loop(
            forward,
            void(*graph, *[rows] * 4),
            name=f"linear_forward_{sizes}",
            purpose=purpose,
        ),
        compile_loop(
            backward,
            void(*graph, *[rows] * 6),
            name=f"linear_backward_{sizes}",
            purpose=purpose,
        ),
    )


@cache
def relu_loops(num_channels: int, channel_dim: int, hidden_dim: int, dtype: str) -> Loops:
    r"""Weights that are the softmax of a layer on relu(P_u + Q_v).

    The layer's weight is read as one vector of h·K lanes, hidden unit by hidden unit. With every hidden unit repeated K
    times next to it, the K logits are one product and a strided sum, and so is everything in the backward pass.
    """
    k, q, h = num_channels, channel_dim, hidden_dim
    width, layer, both = k * q, h * k, 2 * h

    def forward(
        blocks: Any,
        row_pointer: Any,
        column: Any,
        messages: Any,
        pair: Any,
        head_weight: Any,
        head_bias: Any,
        result: Any,
    ) -> None:
        last = len(column) - 1
        for block in numba.prange(len(blocks) - 1):
            matrix, bias = load(head_weight, 0, layer), load(head_bias, 0, k)
            for row in range(blocks[block], blocks[block + 1]):
                total = zeros(messages.dtype, width)
                here = load(pair, row * both, h)
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    soon = int64(column[min(entry + _AHEAD, last)])
                    prefetch(pair, soon * both, both)
                    prefetch(messages, soon * width, width)
                    neighbour = int64(column[entry])
                    hidden = relu(add(here, load(pair, neighbour * both + h, h)))
                    logits = add(bias, sum_strided(mul(repeat(hidden, k), matrix), k))
                    share = exp_of_nonpositive(sub(logits, group_maximum(logits, k)))
                    weight = repeat(div(share, group_total(share, k)), q)
                    total = fma(weight, load(messages, neighbour * width, width), total)
                store(result, row * width, total)

    def backward(
        blocks: Any,
        row_pointer: Any,
        column: Any,
        messages: Any,
        pair: Any,
        head_weight: Any,
        head_bias: Any,
        gradient: Any,
        message_gradient: Any,
        pair_gradient: Any,
        head_gradient: Any,
    ) -> None:
        last = len(column) - 1
        for block in numba.prange(len(blocks) - 1):
            matrix, bias = load(head_weight, 0, layer), load(head_bias, 0, k)
            block_to_matrix, block_to_bias = zeros(messages.dtype, layer), zeros(messages.dtype, k)
            for row in range(blocks[block], blocks[block + 1]):
                here = load(pair, row * both, both)
                own_message = load(messages, row * width, width)
                own_gradient = load(gradient, row * width, width)
                to_message = zeros(messages.dtype, width)
                to_hidden = zeros(messages.dtype, both)
                # summed row by row before it joins the block's sum: shorter sums, smaller rounding errors
                to_matrix, to_bias = zeros(messages.dtype, layer), zeros(messages.dtype, k)
                for entry in range(row_pointer[row], row_pointer[row + 1]):
                    soon = int64(column[min(entry + _AHEAD, last)])
                    prefetch(pair, soon * both, both)
                    prefetch(messages, soon * width, width)
                    prefetch(gradient, soon * width, width)
                    neighbour = int64(column[entry])
                    hidden = relu(add(here, swap(load(pair, neighbour * both, both))))  # [hidden_ij | hidden_ji]
                    out, back = repeat(half(hidden, 0), k), repeat(half(hidden, 1), k)
                    logits = join(
                        add(bias, sum_strided(mul(out, matrix), k)), add(bias, sum_strided(mul(back, matrix), k))
                    )
                    share = exp_of_nonpositive(sub(logits, group_maximum(logits, k)))
                    weight = div(share, group_total(share, k))
                    message = load(messages, neighbour * width, width)
                    incoming = load(gradient, neighbour * width, width)
                    to_weight = sum_runs(join(mul(own_gradient, message), mul(incoming, own_message)), q)
                    weighted = mul(weight, to_weight)
                    to_logits = sub(weighted, mul(weight, group_total(weighted, k)))
                    of_out, of_back = tile(half(to_logits, 0), h), tile(half(to_logits, 1), h)
                    through = join(sum_runs(mul(of_out, matrix), k), sum_runs(mul(of_back, matrix), k))
                    to_hidden = add(to_hidden, where_positive(hidden, through))
                    to_message = fma(repeat(half(weight, 1), q), incoming, to_message)
                    # every entry is met twice, once from each end; the head counts it where i is the target
                    to_matrix = fma(out, of_out, to_matrix)
                    to_bias = add(to_bias, half(to_logits, 0))
                store(message_gradient, row * width, to_message)
                store(pair_gradient, row * both, to_hidden)
                block_to_matrix = add(block_to_matrix, to_matrix)
                block_to_bias = add(block_to_bias, to_bias)
            store(head_gradient, block * (layer + k), block_to_matrix)
            store(head_gradient, block * (layer + k) + layer, block_to_bias)

    rows, flat = getattr(numba, dtype)[:, ::1], getattr(numba, dtype)[::1]
    graph = (int64[::1], int64[::1], int32[::1])
    sizes, purpose = f"{k}_{q}_{h}_{dtype}", f"{k} channels of width {q} with {h} hidden units"
    return Loops(
        compile_loop(
            forward,
            void(*graph, rows, rows, flat, flat, rows),
            name=f"relu_forward_{sizes}",
            purpose=purpose,
        ),
        compile_loop(
            backward,
            void(*graph, rows, rows, flat, flat, *[rows] * 4),
            name=f"relu_backward_{sizes}",
            purpose=purpose,
        ),
    )
