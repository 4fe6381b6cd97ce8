r"""The aggregation of the disentangled convolution: one pass over the links for all K channels.

.. math::
    o^k_u = \sum_{v \in \mathcal{N}(u) \cup \{u\}} w^k_{uv} \, m^k_v, \qquad
    w_{uv} = \operatorname{softmax}\bigl(\operatorname{head}(P_u + Q_v)\bigr)

Neither the [links, 2d] matrix of pairs nor the [links, K, q] messages of links ever exist; the weights [links, K] exist
only a block of rows at a time in the plain form, and not at all in the compiled one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fairsad.errors import DataError
from fairsad.kernels import dtype_name, uses_numba
from fairsad.kernels.adjacency import Adjacency, sum_rows

# The plain form works on blocks of rows whose largest intermediate has about this many numbers.
_NUMBERS_AT_A_TIME = 1 << 24


class Assignment(NamedTuple):
    r"""What decides how much of each link goes to each channel, Eq. (2), as parts of nodes.

    Attributes:
        target: [n, h], :math:`P_u` of the node that receives, with the bias.
        source: [n, h], :math:`Q_v` of the neighbour.
        head: Weight [K, h] and bias [K] of the layer that follows a ReLU of the sum, or ``None``: the sum [K] is
            already the logits.
    """

    target: Tensor
    source: Tensor
    head: tuple[Tensor, Tensor] | None = None


def aggregate(adjacency: Adjacency, messages: Tensor, assignment: Assignment | None = None) -> Tensor:
    r"""Sum the neighbours' messages in each channel, weighted by the assignment; Eq. (3) without its update.

    Exact at any size of logits. The gradient is exact too, costs one more pass over the links and reaches everything
    that goes in; deterministic on the CPU with any number of threads, and on CUDA.

    Args:
        adjacency: Neighbours of each node, itself among them.
        messages: [n, K, q].
        assignment: Decides the weights; without one every channel has the weight 1/K. With a single channel
            every weight is 1, whatever the assignment.

    Returns:
        [n, K, q].

    Raises:
        DataError: Shapes that do not belong together.
    """
    _check(adjacency, messages, assignment)
    num_channels = messages.size(1)
    # Slices of a wider product are copied: rows that begin with a cache line are worth more than the copy costs.
    rows = messages.flatten(1).contiguous()
    if assignment is None or num_channels == 1:
        total = _Sum.apply(rows, adjacency, 1.0 / num_channels)  # type: ignore[no-untyped-call]
    else:
        pair = torch.cat([assignment.target, assignment.source], dim=1)
        head = assignment.head or (None, None)
        total = _WeightedSum.apply(rows, pair, *head, adjacency, num_channels)  # type: ignore[no-untyped-call]
    return total.view_as(messages)  # type: ignore[no-any-return]


class _Sum(torch.autograd.Function):
    """Equal weights: a plain sum, whose gradient is the same sum again, the pattern being symmetric."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, adjacency: Adjacency, weight: float) -> Tensor:
        ctx.adjacency, ctx.weight, ctx.compiled = adjacency, weight, uses_numba(messages)
        return _plain_sum(adjacency, messages, weight, ctx.compiled)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _plain_sum(ctx.adjacency, gradient.contiguous(), ctx.weight, ctx.compiled), None, None


def _plain_sum(adjacency: Adjacency, messages: Tensor, weight: float, compiled: bool) -> Tensor:
    result = torch.empty_like(messages)
    if compiled:
        from fairsad.kernels.compiled import run
        from fairsad.kernels.compiled.aggregate import sum_loop

        loop = sum_loop(messages.size(1), dtype_name(messages))
        run(loop, adjacency.num_entries, *_graph(adjacency), weight, *_arrays(messages, result))
        return result
    for block in _blocks(adjacency, messages.size(1)):
        result[block.rows] = weight * sum_rows(messages[block.column], block.lengths)
    return result


# Weight [K, h] and bias [K] of the layer after the ReLU, if there is one.
_Head = tuple[Tensor, Tensor] | None

# What a backward pass returns: gradients of messages, pair, head weight and head bias.
_Gradients = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


class _WeightedSum(torch.autograd.Function):
    """Softmax weights. The forward pass keeps nothing of the links, the backward pass computes weights again.

    The target part P and the source part Q of a node stand side by side in ``pair`` [n, 2h].
    """

    @staticmethod
    def forward(
        ctx: Any,
        messages: Tensor,
        pair: Tensor,
        head_weight: Tensor | None,
        head_bias: Tensor | None,
        adjacency: Adjacency,
        num_channels: int,
    ) -> Tensor:
        ctx.adjacency, ctx.num_channels, ctx.compiled = adjacency, num_channels, uses_numba(messages)
        head = None if head_weight is None or head_bias is None else (head_weight, head_bias)
        if ctx.compiled:
            result, tables = _forward_compiled(adjacency, messages, pair, head, num_channels)
        else:
            result, tables = _forward_plain(adjacency, messages, pair, head, num_channels), None
        ctx.save_for_backward(messages, pair, head_weight, head_bias, tables)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        messages, pair, head_weight, head_bias, tables = ctx.saved_tensors
        head = None if head_weight is None else (head_weight, head_bias)
        gradient = gradient.contiguous()
        if ctx.compiled:
            gradients = _backward_compiled(ctx.adjacency, messages, pair, tables, head, ctx.num_channels, gradient)
        else:
            gradients = _backward_plain(ctx.adjacency, messages, pair, head, ctx.num_channels, gradient)
        return *gradients, None, None


# --- compiled form ------------------------------------------------------------------------------------------------


def _forward_compiled(
    adjacency: Adjacency, messages: Tensor, pair: Tensor, head: _Head, num_channels: int
) -> tuple[Tensor, Tensor | None]:
    """Returns the sums and, where there is no head, the tables of exponentials that the backward pass uses again."""
    from fairsad.kernels.compiled import run

    loop = _loops(messages, pair, head, num_channels).forward
    result = torch.empty_like(messages)
    if head is None:
        tables = torch.empty_like(pair)
        run(loop, adjacency.num_entries, *_graph(adjacency), *_arrays(messages, pair, tables, result))
        return result, tables
    run(loop, adjacency.num_entries, *_graph(adjacency), *_arrays(messages, pair, *_by_hidden_unit(head), result))
    return result, None


def _backward_compiled(
    adjacency: Adjacency,
    messages: Tensor,
    pair: Tensor,
    tables: Tensor,
    head: _Head,
    num_channels: int,
    gradient: Tensor,
) -> _Gradients:
    from fairsad.kernels.compiled import run

    loop = _loops(messages, pair, head, num_channels).backward
    graph = _graph(adjacency)
    message_gradient, pair_gradient = torch.empty_like(messages), torch.empty_like(pair)
    if head is None:
        run(
            loop,
            adjacency.num_entries,
            *graph,
            *_arrays(messages, pair, tables, gradient, message_gradient, pair_gradient),
        )
        return message_gradient, pair_gradient, None, None
    weight, bias = _by_hidden_unit(head)
    partial = messages.new_empty(len(graph[0]) - 1, weight.numel() + bias.numel())
    run(
        loop,
        adjacency.num_entries,
        *graph,
        *_arrays(messages, pair, weight, bias, gradient, message_gradient, pair_gradient, partial),
    )
    *to_weight, to_bias = partial.sum(0).view(-1, num_channels)
    return message_gradient, pair_gradient, torch.stack(to_weight, dim=1), to_bias


def _loops(messages: Tensor, pair: Tensor, head: _Head, num_channels: int) -> Any:
    from fairsad.kernels.compiled.aggregate import linear_loops, relu_loops

    sizes, dtype = (num_channels, messages.size(1) // num_channels), dtype_name(messages)
    return linear_loops(*sizes, dtype) if head is None else relu_loops(*sizes, pair.size(1) // 2, dtype)


def _graph(adjacency: Adjacency) -> list[Any]:
    return _arrays(adjacency.thread_blocks(), adjacency.row_pointer, adjacency.column)


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().numpy() for tensor in tensors]


def _by_hidden_unit(head: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return head[0].t().flatten(), head[1].contiguous()


# --- plain form ---------------------------------------------------------------------------------------------------


class _Block(NamedTuple):
    """A run of rows: which, the row and column of each of its entries, and how many entries each row has."""

    rows: slice
    row: Tensor
    column: Tensor
    lengths: Tensor


def _blocks(adjacency: Adjacency, numbers_per_entry: int) -> Iterator[_Block]:
    rows, entries = adjacency.row_blocks(max(1, _NUMBERS_AT_A_TIME // numbers_per_entry)).tolist()
    for row, next_row, entry, next_entry in zip(rows, rows[1:], entries, entries[1:], strict=False):
        lengths = adjacency.row_pointer[row : next_row + 1].diff()
        nodes = torch.arange(row, next_row, device=adjacency.device)
        repeated = torch.repeat_interleave(nodes, lengths, output_size=next_entry - entry)
        yield _Block(slice(row, next_row), repeated, adjacency.column[entry:next_entry].long(), lengths)


def _weights(pair: Tensor, head: _Head, receiver: Tensor, sender: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of links, and the hidden units they come from."""
    target, source = pair.chunk(2, dim=1)
    hidden = target[receiver] + source[sender]
    if head is not None:
        hidden = hidden.relu()
        return functional.linear(hidden, *head).softmax(dim=1), hidden
    return hidden.softmax(dim=1), hidden


def _forward_plain(adjacency: Adjacency, messages: Tensor, pair: Tensor, head: _Head, num_channels: int) -> Tensor:
    result = torch.empty_like(messages)
    channels = messages.view(len(messages), num_channels, -1)
    for block in _blocks(adjacency, messages.size(1) + pair.size(1)):
        weights, _ = _weights(pair, head, block.row, block.column)
        terms = weights.unsqueeze(2) * channels[block.column]
        result[block.rows] = sum_rows(terms.flatten(1), block.lengths)
    return result


def _backward_plain(
    adjacency: Adjacency, messages: Tensor, pair: Tensor, head: _Head, num_channels: int, gradient: Tensor
) -> _Gradients:
    """As the compiled loop: each row meets its links from both ends and sums what belongs to its own node."""
    message_gradient, pair_gradient = torch.empty_like(messages), torch.empty_like(pair)
    head_gradient = None if head is None else (torch.zeros_like(head[0]), torch.zeros_like(head[1]))
    channels, incoming = (rows.view(len(rows), num_channels, -1) for rows in (messages, gradient))
    for block in _blocks(adjacency, messages.size(1) + pair.size(1)):
        sums = []
        for receiver, sender in ((block.row, block.column), (block.column, block.row)):
            weights, hidden = _weights(pair, head, receiver, sender)
            to_weights = (incoming[receiver] * channels[sender]).sum(2)
            through = weights * (to_weights - (weights * to_weights).sum(1, keepdim=True))
            if head is not None and head_gradient is not None:
                if receiver is block.row:  # every entry is met twice; the head counts it once
                    head_gradient[0].add_(through.t() @ hidden)
                    head_gradient[1].add_(through.sum(0))
                through = (through @ head[0]) * (hidden > 0)
            sums.append(sum_rows(through, block.lengths))
        pair_gradient[block.rows] = torch.cat(sums, dim=1)
        # the weights of the second turn are those of links over which the row's node sends
        terms = weights.unsqueeze(2) * incoming[block.column]
        message_gradient[block.rows] = sum_rows(terms.flatten(1), block.lengths)
    return message_gradient, pair_gradient, *(head_gradient or (None, None))


def _check(adjacency: Adjacency, messages: Tensor, assignment: Assignment | None) -> None:
    num_nodes = adjacency.num_nodes
    if messages.dim() != 3 or messages.size(0) != num_nodes or 0 in messages.shape[1:]:
        raise DataError(
            f"messages have shape {tuple(messages.shape)}; expected [{num_nodes}, channels, width], one row per node "
            "of the adjacency."
        )
    if assignment is None:
        return
    hidden_dim = assignment.target.size(-1)
    num_channels = messages.size(1)
    expected: dict[str, tuple[int, ...]] = {"target": (num_nodes, hidden_dim), "source": (num_nodes, hidden_dim)}
    found: dict[str, Tensor] = {"target": assignment.target, "source": assignment.source}
    if assignment.head is None:
        expected["target"] = expected["source"] = (num_nodes, num_channels)
    else:
        expected |= {"head weight": (num_channels, hidden_dim), "head bias": (num_channels,)}
        found |= dict(zip(("head weight", "head bias"), assignment.head, strict=True))
    for name, tensor in found.items():
        if tuple(tensor.shape) != expected[name] or tensor.dtype != messages.dtype:
            raise DataError(
                f"the assignment's {name} is {tensor.dtype} of shape {tuple(tensor.shape)}; expected {messages.dtype} "
                f"of shape {expected[name]}, to fit messages of shape {tuple(messages.shape)}."
            )
