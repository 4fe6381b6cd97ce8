from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fairsad.kernels import pairs as module
from fairsad.kernels import use_backend
from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.pairs import LinkChanges
from tests.judges import random_links

SETTINGS = {"learning_rate": 0.02, "momentum": 0.9, "shrink": 1e-3}


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(module, "_PAIRS_AT_A_TIME", 97)
    with use_backend(request.param):
        yield request.param


def changes(num_nodes: int) -> LinkChanges:
    links = random_links(num_nodes, 3 * num_nodes) if num_nodes > 2 else torch.zeros(2, 0, dtype=torch.int64)
    return LinkChanges(Adjacency.from_edge_index(links, num_nodes))


class Dense:
    """The same descent on whole matrices."""

    def __init__(self, start: Tensor) -> None:
        self.start = start
        self.change, self.momentum = torch.zeros_like(start), torch.zeros_like(start)

    def step(self, c: Tensor, a: Tensor, q: Tensor, b: Tensor) -> None:
        gradient = 2 * self.change + (c[:, None] * a[None, :] + q[:, None] * b[None, :])
        self.momentum = SETTINGS["momentum"] * self.momentum + gradient
        moved = self.change - SETTINGS["learning_rate"] * self.momentum - SETTINGS["shrink"]
        moved = torch.minimum(torch.maximum(moved, -self.start), 1 - self.start)
        self.change = (moved + moved.T) / 2

    def proximal_step(self, gradient: Tensor) -> None:
        """As the method is written down: on the adjacency itself, in its own order."""
        matrix = self.start + self.change
        self.momentum = SETTINGS["momentum"] * self.momentum + gradient
        matrix = matrix - SETTINGS["learning_rate"] * self.momentum
        matrix = (matrix.sign() * (matrix.abs() - SETTINGS["shrink"]).clamp(min=0)).clamp(0, 1)
        self.change = (matrix + matrix.T) / 2 - self.start


@pytest.mark.parametrize("num_nodes", [1, 2, 33, 90, 300])
def test_steps_equal_those_of_whole_matrices_to_the_last_bit(num_nodes: int, backend: str) -> None:
    ours = changes(num_nodes)
    dense = Dense(ours.dense())
    assert set(dense.start.unique().tolist()) <= {0.0, 1.0}
    torch.manual_seed(1)
    for _ in range(6):
        vectors = torch.randn(4, num_nodes).unbind()
        ours.step(*vectors, **SETTINGS)
        dense.step(*vectors)
    assert torch.equal(ours.dense() - dense.start, (dense.start + dense.change) - dense.start)
    i, j = ours._ends(torch.arange(len(ours.change)))
    assert torch.equal(ours.change, dense.change[i, j])
    if num_nodes > 2:
        assert (dense.change > 0).any()
        assert (dense.change < 0).any()
        assert (dense.change == 0).any()


def test_what_is_clipped_is_the_method_s_proximal_step(backend: str) -> None:
    ours = changes(40)
    dense = Dense(ours.dense())
    torch.manual_seed(2)
    for _ in range(8):
        c, a, q, b = (torch.randn(4, 40) / 2).unbind()
        ours.step(c, a, q, b, **SETTINGS)
        dense.proximal_step(2 * dense.change + torch.outer(c, a) + torch.outer(q, b))
        learned = ours.dense()
        torch.testing.assert_close(learned, dense.start + dense.change, atol=1e-5, rtol=0)
        assert torch.equal(learned, learned.T)
        assert learned.min() >= 0
        assert learned.max() <= 1


@pytest.mark.parametrize("num_nodes", [1, 33, 90, 300])
@pytest.mark.parametrize("width", [1, 8, 11])
def test_gathering_is_a_product_with_the_matrix(num_nodes: int, width: int, backend: str) -> None:
    ours = changes(num_nodes)
    torch.manual_seed(3)
    x = torch.randn(num_nodes, width)
    torch.testing.assert_close(ours.gather(x), ours.dense() @ x, rtol=1e-5, atol=1e-5)
    ours.step(*torch.randn(4, num_nodes).unbind(), **SETTINGS)
    assert num_nodes == 1 or (ours.change != 0).any()
    torch.testing.assert_close(ours.gather(x), ours.dense() @ x, rtol=1e-5, atol=1e-5)


def test_the_largest_changes_are_relative_to_the_largest_of_their_sign(backend: str) -> None:
    ours = LinkChanges(Adjacency.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 4))
    #                            00    01    02   03   11   12    13   22   23   33
    ours.change = torch.tensor([-0.1, -0.4, 0.8, 0.3, 0.0, -0.1, 0.5, -0.3, 0.0, 0.0])
    found = {
        ratio: tuple(list(zip(*each.tolist(), strict=True)) for each in ours.largest(ratio)) for ratio in (0, 0.5, 1)
    }
    assert found[0] == ([(0, 2), (0, 3), (1, 3)], [(0, 0), (0, 1), (1, 2), (2, 2)])
    assert found[0.5] == ([(0, 2), (1, 3)], [(0, 1), (2, 2)])
    assert found[1] == ([], [])
    assert all(each.size(1) == 0 for each in changes(5).largest(0.0))


def test_the_memory_told_is_the_memory_taken() -> None:
    ours = changes(50)
    taken = sum(each.nbytes for each in (ours.change, ours._momentum, ours._momentum_back))
    assert LinkChanges.num_bytes(50) == taken
