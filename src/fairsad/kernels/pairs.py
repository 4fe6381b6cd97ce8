"""Changes of the links among all pairs of nodes, for methods that learn a whole adjacency matrix."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from fairsad.kernels import exact_dtype, uses_numba
from fairsad.kernels.adjacency import Adjacency

_BYTES_PER_PAIR = 12
# The plain form works in pieces, so that it takes little memory next to the changes themselves.
_PAIRS_AT_A_TIME = 1 << 22
# The compiled loops share out rows in turn, since the first row has n pairs and the last one. Sums are kept apart for
# so many shares and added in their order: the same result with any number of threads.
_SHARES_OF_STEP, _SHARES_OF_SUM = 64, 8


class LinkChanges:
    r"""A learned adjacency matrix :math:`\hat A \in [0, 1]^{n \times n}`, as its change from the links there are.

    With A, the pattern of links with ones on its diagonal, this is :math:`\Delta = \hat A - A`, and the momentum M of
    its descent. :math:`\hat A` is symmetric, so Δ has one number for each unordered pair of nodes; M is not, and has
    two. That is 6 n² bytes, and nothing else here is as large: A itself stays a list of links, no gradient is ever
    written down, and as Δ is kept instead of :math:`\hat A`, a small change of a link of weight 1 loses no digits.

    Attributes:
        change: float32 [n (n + 1) / 2], Δ of (0, 0), (0, 1), …, (1, 1), (1, 2), …
    """

    def __init__(self, adjacency: Adjacency) -> None:
        n, device = adjacency.num_nodes, adjacency.device
        self.adjacency = adjacency
        nodes = torch.arange(n, device=device)
        # where the pairs of each node, with itself and later ones, begin
        self._starts = nodes * n - nodes * (nodes - 1) // 2
        self.change = torch.zeros(n * (n + 1) // 2, device=device)
        self._momentum = torch.zeros_like(self.change)  # of (i, j), i ≤ j
        self._momentum_back = torch.zeros_like(self.change)  # of (j, i)
        self._root_degree = adjacency.row_pointer.diff().sqrt().unsqueeze(1)

    @staticmethod
    def num_bytes(num_nodes: int) -> int:
        """What the changes among so many nodes take."""
        return _BYTES_PER_PAIR * num_nodes * (num_nodes + 1) // 2

    @property
    def num_nodes(self) -> int:
        """Nodes n."""
        return self._starts.numel()

    def step(
        self, c: Tensor, a: Tensor, q: Tensor, b: Tensor, *, learning_rate: float, momentum: float, shrink: float
    ) -> None:
        r"""One step of descent along :math:`G = 2 \Delta + c a^\top + q b^\top`, back to the box, and to symmetry.

        .. math::
            M \leftarrow \mu M + G, \quad
            \hat A \leftarrow \operatorname{clip}_{[0, 1]}(S_t(\hat A - \eta M)), \quad
            \hat A \leftarrow (\hat A + \hat A^\top) / 2,

        where :math:`S_t(x) = \operatorname{sgn}(x) \max(|x| - t, 0)`. As what is clipped at 0 needs no care for its
        sign, that is :math:`\Delta \leftarrow \operatorname{clip}(\Delta - \eta M - t)` to [-1, 0] for a link and to
        [0, 1] for any other pair.

        Args:
            c: float32 [n]; the gradient of anything that reads the matrix by few vectors is of low rank.
            a: float32 [n].
            q: float32 [n].
            b: float32 [n].
            learning_rate: η.
            momentum: μ.
            shrink: t.
        """
        if not uses_numba(self.change):
            self._step(c, a, q, b, learning_rate, momentum, shrink)
            return
        from fairsad.kernels.compiled import run
        from fairsad.kernels.compiled.pairs import step_loop

        run(
            step_loop(_SHARES_OF_STEP),
            self.change.numel() // 4,
            self._starts.numpy(),
            self.adjacency.row_pointer.numpy(),
            self.adjacency.column.numpy(),
            self.change.numpy(),
            self._momentum.numpy(),
            self._momentum_back.numpy(),
            *(each.contiguous().numpy() for each in (c, a, q, b)),
            learning_rate,
            momentum,
            shrink,
        )

    def _step(
        self, c: Tensor, a: Tensor, q: Tensor, b: Tensor, learning_rate: float, momentum: float, shrink: float
    ) -> None:
        row, column = self._linked_pairs()
        linked = self._starts[row] + column - row  # sorted, as rows and columns are
        for start, end in self._pieces():
            i, j = self._ends(torch.arange(start, end, device=c.device))
            low = torch.zeros(end - start, device=c.device)
            low[linked[torch.searchsorted(linked, start) : torch.searchsorted(linked, end)] - start] = -1
            change, out, back = (each[start:end] for each in (self.change, self._momentum, self._momentum_back))
            double = 2 * change
            out.copy_(momentum * out + (double + (c[i] * a[j] + q[i] * b[j])))
            back.copy_(momentum * back + (double + (c[j] * a[i] + q[j] * b[i])))
            first, second = (change - learning_rate * each - shrink for each in (out, back))
            for each in (first, second):
                torch.minimum(torch.maximum(each, low, out=each), low + 1, out=each)
            change.copy_((first + second) / 2)

    def gather(self, x: Tensor) -> Tensor:
        r""":math:`\hat A x`; the part of Δ is summed in float64 and skips its zeros, as most pairs stay unlinked.

        Shape:
            [n, w] to [n, w], float32.
        """
        x = x.contiguous()
        links = self._root_degree * self.adjacency.propagate(self._root_degree * x)  # which divides by both roots
        return links + (self._gather_compiled(x) if uses_numba(self.change) else self._gather(x))

    def _gather_compiled(self, x: Tensor) -> Tensor:
        from fairsad.kernels.compiled import run
        from fairsad.kernels.compiled.pairs import LANES, sum_loop

        width = x.size(1)
        filled = functional.pad(x.double(), (0, -width % LANES))
        shares = torch.zeros(_SHARES_OF_SUM, *filled.shape, dtype=torch.float64)
        steps = self.change.numel() // 10
        run(sum_loop(), steps, self._starts.numpy(), self.change.numpy(), filled.numpy(), shares.numpy())
        return shares.sum(0)[:, :width].to(x.dtype)

    def _gather(self, x: Tensor) -> Tensor:
        result = torch.zeros_like(x, dtype=exact_dtype(x.device))
        for start, end in self._pieces():
            changed = self.change[start:end].nonzero().squeeze(1)
            i, j = self._ends(changed + start)
            weight = self.change[changed + start].to(result.dtype).unsqueeze(1)
            result.index_add_(0, i, weight * x[j])
            apart = i != j
            result.index_add_(0, j[apart], weight[apart] * x[i[apart]])
        return result.to(x.dtype)

    def largest(self, ratio: float) -> tuple[Tensor, Tensor]:
        """The pairs whose change is more than ``ratio`` of the largest one there is: links to add, links to remove.

        Returns:
            int64 [2, added] and [2, removed], each pair once. A node may be paired with itself.
        """
        low, high = self.change.aminmax()
        added, removed = (self.change > ratio * high), (self.change < ratio * low)
        return tuple(torch.stack(self._ends(each.nonzero().squeeze(1))) for each in (added, removed))  # type: ignore[return-value]

    def dense(self) -> Tensor:
        r""":math:`\hat A` [n, n], for graphs that are small."""
        i, j = self._ends(torch.arange(self.change.numel(), device=self.change.device))
        changes = self.change.new_zeros(self.num_nodes, self.num_nodes)
        changes[i, j] = self.change
        changes[j, i] = self.change
        row, column = self._linked_pairs()
        changes[row, column] += 1
        changes[column[row < column], row[row < column]] += 1
        return changes

    def _linked_pairs(self) -> tuple[Tensor, Tensor]:
        """The two ends i ≤ j of every link, and of every loop."""
        nodes = torch.arange(self.num_nodes, device=self.change.device)
        row, column = torch.repeat_interleave(nodes, self.adjacency.row_pointer.diff()), self.adjacency.column.long()
        upper = row <= column
        return row[upper], column[upper]

    def _pieces(self) -> Iterator[tuple[int, int]]:
        number = self.change.numel()
        return ((start, min(start + _PAIRS_AT_A_TIME, number)) for start in range(0, number, _PAIRS_AT_A_TIME))

    def _ends(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The two nodes i ≤ j of pairs, by where their change is kept."""
        i = torch.searchsorted(self._starts, positions, right=True) - 1
        return i, positions - self._starts[i] + i
