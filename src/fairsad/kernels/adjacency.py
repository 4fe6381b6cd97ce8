"""The compiled form of a graph's links: who is next to whom, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fairsad.errors import DataError
from fairsad.kernels import dtype_name, exact_dtype, uses_numba

# Everything but the compiled loops works in pieces, so that 100 million edges take little memory next to themselves.
_EDGES_AT_A_TIME = 1 << 18
_ROWS_AT_A_TIME = 1 << 17
_NUMBERS_AT_A_TIME = 1 << 24
_MOST_BLOCKS = 256
_DEVICES_WITH_SEGMENT_SUMS = ("cpu", "cuda")


@dataclass(frozen=True, eq=False)
class Adjacency:
    r"""Pattern of A + I in compressed sparse rows: the neighbours of each node, itself among them.

    The pattern is symmetric, so these rows are also its columns: the kernels use the same arrays for sums over incoming
    and over outgoing links, and a backward pass needs no transpose.

    Attributes:
        row_pointer: int64 [n + 1]; the entries of row u are ``row_pointer[u]`` to ``row_pointer[u + 1]``.
        column: int32 [entries], neighbours in increasing order within each row, exactly one of them the node itself.
    """

    row_pointer: Tensor
    column: Tensor
    _blocks: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    @property
    def num_nodes(self) -> int:
        """Rows n."""
        return self.row_pointer.numel() - 1

    @property
    def num_entries(self) -> int:
        """Entries: both directions of every link, and one self-loop per node."""
        return self.column.numel()

    @property
    def device(self) -> torch.device:
        """Where the arrays are."""
        return self.column.device

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Build the rows from links without self-loops.

        Args:
            edge_index: int64 [2, m], both directions of every link, sorted by (row, column), without repeats and
                self-loops, as in ``FairGraph.edge_index``.
            num_nodes: Rows n.

        Raises:
            DataError: The edges are not in that form.
        """
        if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype != torch.int64:
            raise DataError(
                f"edge_index is {edge_index.dtype} of shape {tuple(edge_index.shape)}; expected int64 [2, m]. "
                "FairGraph.build brings edges into that form."
            )
        if num_nodes >= 2**31:
            raise DataError(f"{num_nodes} nodes are more than node numbers allow; at most {2**31 - 1}.")
        source, target = edge_index[0].contiguous(), edge_index[1].contiguous()
        _check_edges(source, target, num_nodes)
        nodes = torch.arange(num_nodes + 1, device=edge_index.device)
        row_pointer = torch.searchsorted(source, nodes) + nodes
        column = torch.full((source.numel() + num_nodes,), -1, dtype=torch.int32, device=edge_index.device)
        for start in range(0, source.numel(), _EDGES_AT_A_TIME):
            rows, columns = source[start : start + _EDGES_AT_A_TIME], target[start : start + _EDGES_AT_A_TIME]
            # Every row before this one took one place for its self-loop, and so did this one if that was passed.
            place = torch.arange(start, start + rows.numel(), device=rows.device) + rows + (columns > rows)
            column[place] = columns.to(torch.int32)
        column.masked_scatter_(column < 0, nodes[:-1].to(torch.int32))
        return cls(row_pointer, column)

    def to(self, device: str | torch.device) -> Adjacency:
        """The same rows on another device."""
        device = torch.device(device)
        if device == self.device:
            return self
        return Adjacency(self.row_pointer.to(device), self.column.to(device))

    def row_blocks(self, entries_per_block: int) -> Tensor:
        """Runs of whole rows with about equally many entries each, for loops whose work is in the entries.

        Depends on the graph and the argument only, so that results put together block by block are the same with any
        number of threads. Computed once per argument.

        Returns:
            int64 [2, blocks + 1] on the CPU: first row of each block (and the end), first entry of each block.
        """
        blocks = self._blocks.get(entries_per_block)
        if blocks is None:
            number = max(1, -(-self.num_entries // entries_per_block))
            wanted = torch.arange(number + 1, device=self.device) * self.num_entries // number
            rows = torch.searchsorted(self.row_pointer, wanted)
            blocks = torch.stack([rows, self.row_pointer[rows]]).cpu()
            self._blocks[entries_per_block] = blocks
        return blocks

    def thread_blocks(self) -> Tensor:
        """Row blocks for compiled loops, int64 [blocks + 1]: enough to share out evenly, few enough to cost nothing."""
        return self.row_blocks(max(4096, -(-self.num_entries // _MOST_BLOCKS)))[0]

    def propagate(self, x: Tensor) -> Tensor:
        r"""One step of GCN propagation, :math:`D^{-1/2} (A + I) D^{-1/2} x`.

        Summed in float64 and returned in the type of ``x``. Differentiable: the matrix is symmetric, so the gradient is
        propagated the same way.

        Shape:
            [n, d] to [n, d].
        """
        if x.dim() != 2 or x.size(0) != self.num_nodes:
            raise DataError(f"x has shape {tuple(x.shape)}; expected [{self.num_nodes}, d], one row per node.")
        return _Propagation.apply(x, self)  # type: ignore[no-any-return,no-untyped-call]

    def around(self, nodes: Tensor, num_hops: int) -> tuple[Tensor, tuple[Adjacency, ...], Tensor]:
        """The part of the graph that ``num_hops`` rounds of summing over neighbours need to be right at some nodes.

        That is all nodes within ``num_hops`` links. A round with h more rounds after it needs the links that end within
        h links of them: what arrives anywhere else is too late. So the last round has the links of the nodes alone,
        and its sums are right at the nodes alone.

        Args:
            nodes: int64 [t], where the result is wanted.
            num_hops: Rounds of summing.

        Returns:
            The kept nodes int64 [k] in increasing order, the adjacency of each round, and where among the kept nodes
            each of ``nodes`` is.
        """
        far = num_hops + 1
        distance = torch.full((self.num_nodes,), far, dtype=torch.int64, device=self.device)
        distance[nodes] = 0
        frontier = nodes
        for hop in range(1, far):
            for some in torch.split(frontier, _ROWS_AT_A_TIME):
                reached = self.column[self.entries(some)[0]].long()
                distance[reached[distance[reached] == far]] = hop
            frontier = (distance == hop).nonzero().squeeze(1)
        kept = (distance < far).nonzero().squeeze(1)
        place = torch.empty_like(distance)
        place[kept] = torch.arange(kept.numel(), device=self.device)
        rounds = tuple(self._near(kept, place, distance, hops_after) for hops_after in reversed(range(num_hops)))
        return kept, rounds, place[nodes]

    def _near(self, kept: Tensor, place: Tensor, distance: Tensor, most: int) -> Adjacency:
        """Rows of the kept nodes, with the links that have an end within ``most`` links, and every node itself."""
        columns, lengths = [], []
        for some in torch.split(kept, _ROWS_AT_A_TIME):
            entries, rows = self.entries(some)
            neighbours = self.column[entries].long()
            needed = torch.minimum(distance[rows], distance[neighbours]) <= most
            needed |= rows == neighbours
            columns.append(place[neighbours[needed]].to(torch.int32))
            ends = torch.searchsorted(rows[needed], some, right=True)
            lengths.append(ends.diff(prepend=ends.new_zeros(1)))
        row_pointer = torch.cat([kept.new_zeros(1), *lengths]).cumsum(0)
        return Adjacency(row_pointer, torch.cat(columns))

    def entries(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of all entries of some rows, and the row of each."""
        starts = self.row_pointer[rows]
        lengths = self.row_pointer[rows + 1] - starts
        ends = lengths.cumsum(0)
        repeated = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), lengths)
        position = torch.arange(repeated.numel(), device=rows.device) - (ends - lengths)[repeated]
        return starts[repeated] + position, rows[repeated]


class _Propagation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        degree = adjacency.row_pointer.diff().to(exact_dtype(x.device))
        scale = degree.rsqrt()
        if not uses_numba(x):
            return _propagate(adjacency, x, scale)
        from fairsad.kernels.compiled import run
        from fairsad.kernels.compiled.propagation import propagation

        x = x.detach().contiguous()
        result = torch.empty_like(x)
        run(
            propagation(dtype_name(x)),
            adjacency.num_entries * (1 + x.size(1) // 16),
            adjacency.thread_blocks().numpy(),
            adjacency.row_pointer.numpy(),
            adjacency.column.numpy(),
            scale.numpy(),
            x.numpy(),
            result.numpy(),
        )
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.adjacency.propagate(gradient), None


def _propagate(adjacency: Adjacency, x: Tensor, scale: Tensor) -> Tensor:
    result = torch.empty_like(x)
    width = max(x.size(1), 1)
    rows, entries = adjacency.row_blocks(max(1, _NUMBERS_AT_A_TIME // width)).tolist()
    for row, next_row, entry, next_entry in zip(rows, rows[1:], entries, entries[1:], strict=False):
        column = adjacency.column[entry:next_entry].long()
        terms = x[column].to(scale.dtype) * scale[column].unsqueeze(1)
        lengths = adjacency.row_pointer[row : next_row + 1].diff()
        result[row:next_row] = sum_rows(terms, lengths) * scale[row:next_row].unsqueeze(1)
    return result


def sum_rows(terms: Tensor, lengths: Tensor) -> Tensor:
    """Sums of consecutive runs of rows, in a fixed order on the CPU and on CUDA.

    Args:
        terms: [entries, width].
        lengths: int64 [runs], how many rows each run has.
    """
    if terms.device.type in _DEVICES_WITH_SEGMENT_SUMS:
        return torch.segment_reduce(terms, "sum", lengths=lengths, axis=0, unsafe=True)
    run = torch.repeat_interleave(torch.arange(lengths.numel(), device=terms.device), lengths)
    return terms.new_zeros(lengths.numel(), terms.size(1)).index_add_(0, run, terms)


def _check_edges(source: Tensor, target: Tensor, num_nodes: int) -> None:
    cure = "FairGraph.build brings edges into the expected form."
    imbalance = torch.zeros((), dtype=torch.int64, device=source.device)
    for start in range(0, source.numel(), _EDGES_AT_A_TIME):
        # one edge of overlap, to compare neighbours across pieces
        rows, columns = (end[max(start - 1, 0) : start + _EDGES_AT_A_TIME] for end in (source, target))
        lowest, highest = (
            int(torch.stack([end.aminmax()[side] for end in (rows, columns)]).aminmax()[side]) for side in (0, 1)
        )
        if lowest < 0 or highest >= num_nodes:
            raise DataError(f"edge_index names nodes {lowest} to {highest}; expected 0 to {num_nodes - 1}. {cure}")
        if bool((rows == columns).any()):
            raise DataError(f"edge_index has self-loops; expected none, they are added here. {cure}")
        in_order = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (columns[1:] > columns[:-1]))
        if not bool(in_order.all()):
            raise DataError(f"edge_index is not sorted by (row, column) without repeats. {cure}")
        if start > 0:
            rows, columns = rows[1:], columns[1:]
        imbalance += (_mixed(rows) * columns - _mixed(columns) * rows).sum()
    # The sum is antisymmetric in the two ends, so both directions of a link cancel exactly (also after overflow),
    # and a link that has one direction only leaves a remainder but for a chance of 1 in 2^64.
    if int(imbalance) != 0:
        raise DataError(f"edge_index has links in one direction only; expected both directions of every link. {cure}")


def _mixed(nodes: Tensor) -> Tensor:
    """A well-scattered 64-bit number per node (overflow wraps around and is meant to)."""
    scattered = (nodes + 1) * 0x2545F4914F6CDD1D
    return (scattered ^ (scattered >> 29)) * 0x369DEA0F31A53F85
