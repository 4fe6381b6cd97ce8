from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from fairsad.errors import DataError
from fairsad.kernels import adjacency as module
from fairsad.kernels import use_backend
from fairsad.kernels.adjacency import Adjacency, sum_rows
from tests.judges import neighbours, random_links


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


def rows(adjacency: Adjacency) -> list[list[int]]:
    pointer, column = adjacency.row_pointer.tolist(), adjacency.column.tolist()
    return [column[start:end] for start, end in pairwise(pointer)]


@pytest.mark.parametrize("num_links", [0, 5, 200])
def test_rows_are_the_sorted_neighbours_and_the_node_itself(num_links: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EDGES_AT_A_TIME", 7)
    edges = random_links(30, num_links, isolated=(0, 12, 29))
    adjacency = Adjacency.from_edge_index(edges, 30)
    assert rows(adjacency) == neighbours(edges, 30)
    assert adjacency.num_nodes == 30
    assert adjacency.num_entries == edges.size(1) + 30
    assert adjacency.row_pointer.dtype == torch.int64
    assert adjacency.column.dtype == torch.int32
    assert adjacency.to("cpu") is adjacency


def broken(change: str) -> Tensor:
    edges = random_links(20, 60)
    if change == "self-loop":
        return torch.cat([edges, torch.tensor([[19], [19]])], dim=1)
    if change == "repeat":
        return edges[:, [0, *range(edges.size(1))]]
    if change == "order":
        return edges.flip(1)
    if change == "one direction":
        return edges[:, 1:]
    if change == "turned":  # as many links in every row, but not the mirrored ones
        return torch.tensor([[0, 1, 2], [1, 2, 0]])
    if change == "beyond":
        return torch.tensor([[0, 20], [20, 0]])
    if change == "negative":
        return torch.tensor([[-1, 0], [0, -1]])
    return edges.int()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("self-loop", "self-loops; expected none"),
        ("repeat", "not sorted by"),
        ("order", "not sorted by"),
        ("one direction", "in one direction only"),
        ("turned", "in one direction only"),
        ("beyond", "names nodes 0 to 20; expected 0 to 19"),
        ("negative", "names nodes -1 to 0"),
        ("type", r"torch.int32 of shape .* expected int64"),
    ],
)
@pytest.mark.parametrize("at_a_time", [3, 1 << 18])
def test_edges_in_another_form_are_refused(
    change: str, message: str, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EDGES_AT_A_TIME", at_a_time)
    with pytest.raises(DataError, match=message):
        Adjacency.from_edge_index(broken(change), 20)


def test_blocks_are_whole_rows_that_cover_the_graph_evenly() -> None:
    adjacency = Adjacency.from_edge_index(random_links(200, 3000), 200)
    first_rows, first_entries = adjacency.row_blocks(500)
    assert first_rows[0] == 0
    assert first_rows[-1] == 200
    assert torch.equal(adjacency.row_pointer[first_rows], first_entries)
    largest_row = int(adjacency.row_pointer.diff().max())
    assert first_entries.diff().max() <= 500 + largest_row
    assert first_entries.diff().min() >= 500 - 2 * largest_row
    assert adjacency.row_blocks(500) is adjacency.row_blocks(500)


def test_a_row_larger_than_a_block_stays_whole() -> None:
    hub = torch.arange(1, 100)
    edges = torch.cat([torch.stack([torch.zeros_like(hub), hub]), torch.stack([hub, torch.zeros_like(hub)])], dim=1)
    blocks = Adjacency.from_edge_index(edges, 100).row_blocks(10)
    assert blocks[0].tolist()[-1] == 100
    assert (blocks[0].diff() >= 0).all()


@pytest.mark.parametrize("width", [1, 5, 40])
def test_propagation_is_the_normalised_matrix_product(backend: str, width: int) -> None:
    edges = random_links(50, 120)
    matrix = torch.eye(50, dtype=torch.float64)
    matrix[edges[0], edges[1]] = 1
    root = matrix.sum(1).rsqrt()
    matrix = root[:, None] * matrix * root
    adjacency = Adjacency.from_edge_index(edges, 50)
    x = torch.randn(50, width, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(adjacency.propagate(x), matrix @ x, rtol=1e-14, atol=1e-14)
    assert torch.autograd.gradcheck(adjacency.propagate, x[:, :1].detach().requires_grad_())
    torch.testing.assert_close(adjacency.propagate(x.float()), (matrix @ x.float().double()).float())
    transposed = x.detach().t().contiguous().t()
    torch.testing.assert_close(adjacency.propagate(transposed), matrix @ transposed)


def test_propagation_sums_in_float64(backend: str) -> None:
    # 1000 neighbours whose values cancel but for a remainder that float32 sums would lose
    hub = torch.arange(1, 1001)
    zero = torch.zeros_like(hub)
    edges = torch.cat([torch.stack([zero, hub]), torch.stack([hub, zero])], dim=1)
    x = torch.zeros(1001, 1)
    x[1:501], x[501:1000], x[1000] = 1e7, -1e7, -1e7 + 1
    result = Adjacency.from_edge_index(edges, 1001).propagate(x)[0]
    assert result.item() == pytest.approx(1 / np.sqrt(1001 * 2), rel=1e-6)


def test_propagation_in_pieces_and_on_threads_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency = Adjacency.from_edge_index(random_links(300, 9000), 300)
    x = torch.randn(300, 8)
    whole = adjacency.propagate(x)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(adjacency.propagate(x), whole)
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setattr(module, "_NUMBERS_AT_A_TIME", 512)
    with use_backend("torch"):
        torch.testing.assert_close(adjacency.propagate(x), whole)


def test_propagation_of_other_rows_is_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 2\); expected \[2, d\]"):
        Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2).propagate(torch.ones(3, 2))


@pytest.mark.parametrize("devices", [("cpu", "cuda"), ()])
def test_sums_of_rows_with_and_without_segment_sums(devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DEVICES_WITH_SEGMENT_SUMS", devices)
    terms, lengths = torch.randn(10, 3, dtype=torch.float64), torch.tensor([3, 0, 5, 2])
    by_hand = torch.stack([piece.sum(0) for piece in terms.split(lengths.tolist())])
    torch.testing.assert_close(sum_rows(terms, lengths), by_hand)


@pytest.mark.parametrize("num_hops", [1, 2, 3])
def test_what_is_around_some_nodes_is_enough_for_them_and_no_more(
    num_hops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS_AT_A_TIME", 11)
    edges = random_links(120, 90, isolated=(5, 77))
    whole = Adjacency.from_edge_index(edges, 120)
    nodes = torch.tensor([77, 3, 40, 41, 3])
    kept, rounds, place = whole.around(nodes, num_hops)
    assert torch.equal(kept[place], nodes)

    distance = np.full(120, 99)
    distance[nodes] = 0
    around = neighbours(edges, 120)
    for hop in range(1, num_hops + 1):
        for node in np.flatnonzero(distance == hop - 1):
            distance[around[node]] = np.minimum(distance[around[node]], hop)
    assert kept.tolist() == np.flatnonzero(distance <= num_hops).tolist()
    assert len(rounds) == num_hops
    for hops_after, part in zip(reversed(range(num_hops)), rounds, strict=True):
        expected = [
            [v for v in around[u] if v == u or min(distance[u], distance[v]) <= hops_after] for u in kept.tolist()
        ]
        assert [kept[row].tolist() for row in rows(part)] == expected

    x = torch.randn(120, 2, dtype=torch.float64)
    inside = x[kept]
    for part in rounds:
        x, inside = sums(whole, x), sums(part, inside)
    torch.testing.assert_close(inside[place], x[nodes])


def sums(adjacency: Adjacency, x: Tensor) -> Tensor:
    return torch.stack([x[row].sum(0) for row in rows(adjacency)])
