r"""Sums over all pairs of rows, in n log n time and memory that grows with n: what distance covariance is made of.

For single columns x and y with distances :math:`a_{ij} = |x_i - x_j|` and :math:`b_{ij} = |y_i - y_j|` three things are
needed, and their derivatives, with sgn(0) = 0 so that ties count for nothing:

**Sums of distances** of each row. In sorted order they are prefix sums. A weight :math:`w_i` on each passes

.. math::
    \frac{\partial}{\partial x_i} \sum_k w_k \sum_j a_{kj} = \sum_j \operatorname{sgn}(x_i - x_j) (w_i + w_j),

prefix sums again.

**Sums of squares**, closed: :math:`\sum_{ij} a_{ij}^2 = 2 n \sum_i x_i^2 - 2 (\sum_i x_i)^2`.

**Sums of products.** Since :math:`a_{ij} = \operatorname{sgn}(x_i - x_j) (x_i - x_j)` and the sign is antisymmetric,

.. math::
    \sum_{ij} a_{ij} b_{ij} = 2 \sum_i x_i D(x; y)_i, \qquad
    D(x; y)_i = \sum_j \operatorname{sgn}(x_i - x_j) \, |y_i - y_j|,

and the same vector is the derivative: :math:`\partial / \partial x_i = 2 D(x; y)_i`, with
:math:`\partial / \partial y_i = 2 D(y; x)_i`. It is the only part that takes more than sorting; one pass over the rows
in the order of x, with a tree over the ranks of y, gives both vectors.

Sums run in float64 whatever the type of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fairsad.errors import DataError
from fairsad.kernels import dtype_name, exact_dtype, uses_numba

# The plain form takes as many pairs at a time as keep its intermediates at about this many rows.
_ROWS_AT_A_TIME = 1 << 21


class DistanceStatistics(NamedTuple):
    r"""Sums over pairs of rows, differentiable in the columns.

    Attributes:
        products: [pairs], :math:`\sum_{ij} a_{ij} b_{ij}` of each pair of columns.
        squares: [columns], :math:`\sum_{ij} a_{ij}^2` of each column.
        distance_sums: [columns, n], :math:`\sum_j a_{ij}` of each row.
    """

    products: Tensor
    squares: Tensor
    distance_sums: Tensor


def distance_statistics(columns: Tensor, pairs: Tensor) -> DistanceStatistics:
    """Everything that distance covariances of the columns are made of, exactly.

    Args:
        columns: [columns, n], float32 or float64.
        pairs: int64 [pairs, 2], columns whose distances are multiplied.

    Returns:
        Sums in float64 (in float32 on devices that have nothing wider).

    Raises:
        DataError: There are no rows.
    """
    if columns.dim() != 2 or columns.size(1) == 0:
        raise DataError(
            f"columns have shape {tuple(columns.shape)}; expected [columns, rows] with at least one row. "
            "Distances need somebody to be measured between."
        )
    return DistanceStatistics(*_Statistics.apply(columns.contiguous(), pairs))  # type: ignore[no-untyped-call]


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, columns: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.compiled, ctx.dtype = uses_numba(columns), columns.dtype
        num_rows = columns.size(1)
        ranked = _rank_compiled(columns) if ctx.compiled else _rank_plain(columns)
        cross = _cross_compiled if ctx.compiled else _cross_plain
        sums, products = cross(ranked, pairs, keep_sums=ctx.needs_input_grad[0])
        squares = 2 * num_rows * ranked.values.square().sum(1) - 2 * ranked.values.sum(1).square()
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(pairs, ranked.order, ranked.values, ranked.first, ranked.last, sums)
        return 2 * products, squares, ranked.distance_sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_products: Tensor, to_squares: Tensor, to_distance_sums: Tensor) -> tuple[Tensor, None]:
        gradient = _gradient_compiled if ctx.compiled else _gradient_plain
        return gradient(ctx.saved_tensors, to_products, to_squares, to_distance_sums, ctx.dtype), None


@dataclass(frozen=True)
class _Ranked:
    """Sorted columns, each [columns, n].

    Attributes:
        order: Row at each place of the sorted column.
        values: Sorted, shifted by the median.
        first: Place at which the run of equal values begins; so many values are smaller.
        last: Place after its end.
        distance_sums: In the order of rows.
        records: [columns, n, 2], compiled form only: of each row its value and, in the bits of the second number, the
            begin of its run (upper half) and its place (lower half). One cache line tells another column all it asks.
    """

    order: Tensor
    values: Tensor
    first: Tensor
    last: Tensor
    distance_sums: Tensor
    records: Tensor | None = None


# --- compiled form ------------------------------------------------------------------------------------------------


def _rank_compiled(columns: Tensor) -> _Ranked:
    from fairsad.kernels.compiled import run
    from fairsad.kernels.compiled.ranksums import rank_loop

    order, first, last = (torch.empty(columns.shape, dtype=torch.int32) for _ in range(3))
    values, distance_sums = (torch.empty(columns.shape, dtype=torch.float64) for _ in range(2))
    records = torch.empty(*columns.shape, 2, dtype=torch.float64)
    numbers = columns.detach().numpy()
    run(
        rank_loop(dtype_name(columns)),
        columns.numel(),
        numbers,
        numbers.view(f"uint{8 * columns.element_size()}"),
        *(tensor.numpy() for tensor in (order, values, first, last, distance_sums)),
        *_two_views(records),
    )
    return _Ranked(order, values, first, last, distance_sums, records)


def _cross_compiled(ranked: _Ranked, pairs: Tensor, keep_sums: bool) -> tuple[Tensor, Tensor]:
    from fairsad.kernels.compiled import run
    from fairsad.kernels.compiled.ranksums import cross_loop

    assert ranked.records is not None
    num_pairs, num_rows = len(pairs), ranked.order.size(1)
    sums = torch.empty(num_pairs if keep_sums else 0, 2, num_rows, dtype=torch.float64)
    products = torch.empty(num_pairs, dtype=torch.float64)
    run(
        cross_loop(),
        3 * num_pairs * num_rows,
        *(tensor.numpy() for tensor in (pairs.contiguous(), ranked.order, ranked.values, ranked.first, ranked.last)),
        *_two_views(ranked.records),
        min(torch.get_num_threads(), num_pairs),
        sums.numpy(),
        products.numpy(),
    )
    return sums, products


def _gradient_compiled(
    saved: tuple[Tensor, ...],
    to_products: Tensor,
    to_squares: Tensor,
    to_distance_sums: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    from fairsad.kernels.compiled import run
    from fairsad.kernels.compiled.ranksums import gradient_loop

    order = saved[1]
    gradient = torch.empty(order.shape, dtype=dtype)
    run(
        gradient_loop(dtype_name(gradient)),
        gradient.numel(),
        *(tensor.contiguous().numpy() for tensor in (*saved, to_products, to_squares, to_distance_sums)),
        gradient.numpy(),
    )
    return gradient


def _two_views(records: Tensor) -> tuple[Any, Any]:
    array = records.numpy()
    return array, array.view("int64")


# --- plain form ---------------------------------------------------------------------------------------------------


def _rank_plain(columns: Tensor) -> _Ranked:
    num_rows = columns.size(1)
    ordered, order = torch.sort(columns, dim=1, stable=True)
    values = ordered.to(exact_dtype(columns.device))
    values = values - values[:, num_rows // 2, None]
    first, last = _runs(ordered.diff(dim=1) != 0)
    sums = values * (first + last - num_rows) - _signed_sums(values, first, last)
    return _Ranked(order, values, first, last, torch.empty_like(sums).scatter_(1, order, sums))


def _runs(begins: Tensor) -> tuple[Tensor, Tensor]:
    """Begin and end of the run of each place; ``begins`` [..., n - 1] marks where runs begin, after the first place."""
    length = begins.size(-1) + 1
    places = torch.arange(1, length, device=begins.device)
    edge = begins.new_zeros((*begins.shape[:-1], 1), dtype=torch.int64)
    first = torch.cat([edge, torch.where(begins, places, 0)], dim=-1).cummax(-1).values
    last = torch.cat([torch.where(begins, places, length), edge + length], dim=-1)
    return first, last.flip(-1).cummin(-1).values.flip(-1)


def _signed_sums(weights: Tensor, first: Tensor, last: Tensor) -> Tensor:
    r""":math:`\sum_j \operatorname{sgn}(x_i - x_j) w_j` in sorted order."""
    before = torch.nn.functional.pad(weights.cumsum(1), (1, 0))
    return before.gather(1, first) + before.gather(1, last) - before[:, -1:]


def _cross_plain(ranked: _Ranked, pairs: Tensor, keep_sums: bool) -> tuple[Tensor, Tensor]:
    num_rows = ranked.order.size(1)
    at_a_time = max(1, _ROWS_AT_A_TIME // num_rows)
    places = torch.arange(num_rows, device=pairs.device).expand_as(ranked.order)
    rank = torch.empty_like(ranked.order).scatter_(1, ranked.order, ranked.first)
    place = torch.empty_like(ranked.order).scatter_(1, ranked.order, places)
    sums, products = [], []
    for some in torch.split(pairs, at_a_time):
        of_x, of_y = some.unbind(1)
        order, x = ranked.order[of_x], ranked.values[of_x]
        place_y = place[of_y].gather(1, order)
        y = ranked.values[of_y].gather(1, place_y)
        concordance = _concordance(ranked.first[of_x], rank[of_y].gather(1, order), x, y)
        to_x = y * concordance[:, 0] - concordance[:, 2]
        to_y = x * concordance[:, 0] - concordance[:, 1]
        products.append((x * to_x).sum(1))
        if keep_sums:
            sums.append(torch.stack([to_x, torch.empty_like(to_y).scatter_(1, place_y, to_y)], dim=1))
    return torch.cat(sums) if sums else x.new_empty(0, 2, num_rows), torch.cat(products)


def _concordance(rank_x: Tensor, rank_y: Tensor, x: Tensor, y: Tensor) -> Tensor:
    r""":math:`\sum_j \operatorname{sgn}(x_i - x_j) \operatorname{sgn}(y_i - y_j) (1, x_j, y_j)`, shape [pairs, 3, n].

    Rows come in the order of x. Two different ranks of y agree down from the highest bit and differ first in some bit,
    which says which is larger. So the sum is taken bit by bit: among rows whose higher bits agree, those with a 1
    count the others positively, those with a 0 negatively. Cumulative sums over such a group give it for all its rows;
    then the group is split in two by the bit, in order, and the next bit follows.
    """
    num_rows = rank_x.size(1)
    places = torch.arange(num_rows, device=x.device).expand_as(rank_x)
    row = places
    weights = torch.stack([torch.ones_like(x), x, y], dim=1)
    result = torch.zeros_like(weights)
    for bit in reversed(range((num_rows - 1).bit_length())):
        group = rank_y >> (bit + 1)
        above = group.diff(dim=1) != 0
        group_first, group_last = _runs(above)
        run_first, run_last = _runs(above | (rank_x.diff(dim=1) != 0))
        ones = (rank_y >> bit & 1).bool()

        def total(sums: Tensor, begin: Tensor, end: Tensor) -> Tensor:
            def at(place: Tensor) -> Tensor:
                return sums.gather(2, place.unsqueeze(1).expand(-1, sums.size(1), -1))

            return at(end) - at(begin)

        of_ones, of_zeros = (
            torch.nn.functional.pad((weights * side.unsqueeze(1)).cumsum(2), (1, 0)) for side in (ones, ~ones)
        )
        from_zeros = total(of_zeros, group_first, run_first) - total(of_zeros, run_last, group_last)
        from_ones = total(of_ones, group_first, run_first) - total(of_ones, run_last, group_last)
        result = result + torch.where(ones.unsqueeze(1), from_zeros, -from_ones)

        # Split: zeros keep their order at the front of the group, ones at its back.
        zeros_before = torch.nn.functional.pad((~ones).long().cumsum(1), (1, 0))
        zeros_of_group = zeros_before.gather(1, group_last) - zeros_before.gather(1, group_first)
        earlier_zeros = zeros_before[:, :-1] - zeros_before.gather(1, group_first)
        earlier_ones = places - group_first - earlier_zeros
        target = group_first + torch.where(ones, zeros_of_group + earlier_ones, earlier_zeros)
        source = torch.empty_like(target).scatter_(1, target, places)
        rank_x, rank_y, row = (tensor.gather(1, source) for tensor in (rank_x, rank_y, row))
        weights, result = (tensor.gather(2, source.unsqueeze(1).expand_as(tensor)) for tensor in (weights, result))
    return torch.empty_like(result).scatter_(2, row.unsqueeze(1).expand_as(result), result)


def _gradient_plain(
    saved: tuple[Tensor, ...],
    to_products: Tensor,
    to_squares: Tensor,
    to_distance_sums: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    pairs, order, values, first, last, sums = saved
    num_columns, num_rows = order.shape
    result = 4 * to_squares.unsqueeze(1) * (num_rows * values - values.sum(1, keepdim=True))
    # A product with a matrix of one number per column, and not index_add: its order of summing is fixed.
    shares = values.new_zeros(num_columns, 2 * len(pairs))
    shares[pairs.flatten(), torch.arange(2 * len(pairs), device=pairs.device)] = 2 * to_products.repeat_interleave(2)
    result += shares @ sums.flatten(0, 1)
    weights = to_distance_sums.gather(1, order)
    result += (first + last - num_rows) * weights + _signed_sums(weights, first, last)
    return torch.empty_like(result).scatter_(1, order, result).to(dtype)
