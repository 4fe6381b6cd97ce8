from __future__ import annotations

import numpy as np
import pytest
import torch

from fairsad.kernels.compiled.pairs import LANES, step_loop, sum_loop
from tests.kernels.test_pairs import SETTINGS, changes


def test_any_number_of_threads_gives_the_same_bits() -> None:
    found = []
    usual = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(4)
        ours = changes(700)
        for _ in range(3):
            ours.step(*torch.randn(4, 700).unbind(), **SETTINGS)
        found.append((ours.change.clone(), ours.gather(torch.randn(700, 9))))
    torch.set_num_threads(usual)
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.parametrize("shares", [1, 3, 8])
def test_every_pair_is_in_one_share_of_the_sum(shares: int) -> None:
    num_nodes = 300  # more than a tile of rows, and than a tile of others
    change = np.ones(num_nodes * (num_nodes + 1) // 2, dtype=np.float32)
    starts = np.array([row * num_nodes - row * (row - 1) // 2 for row in range(num_nodes)])
    x = np.random.default_rng(5).integers(-9, 9, (num_nodes, LANES)).astype(np.float64)
    parts = np.zeros((shares, num_nodes, LANES))
    sum_loop()(starts, change, x, parts)
    assert np.array_equal(parts.sum(0), np.tile(x.sum(0), (num_nodes, 1)))


def test_the_number_of_shares_does_not_change_a_step() -> None:
    found = []
    for shares in (1, 7, 64):
        torch.manual_seed(6)
        ours = changes(90)
        vectors = [each.numpy() for each in torch.randn(4, 90).unbind()]
        adjacency = ours.adjacency
        arrays = (ours.change.numpy(), ours._momentum.numpy(), ours._momentum_back.numpy())
        rows = (ours._starts.numpy(), adjacency.row_pointer.numpy(), adjacency.column.numpy())
        step_loop(shares)(*rows, *arrays, *vectors, *SETTINGS.values())
        found.append(ours.change)
    assert found[0].any()
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
