from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from fairsad.data.sampling import RandomWalks, Subgraph, WholeGraph
from fairsad.graph import FairGraph
from tests.graphs import toy_graph


def pattern_of(graph: FairGraph) -> Tensor:
    """A + I."""
    pattern = torch.eye(graph.num_nodes, dtype=torch.bool)
    pattern[graph.edge_index[0], graph.edge_index[1]] = True
    return pattern


def propagation(graph: FairGraph) -> Tensor:
    links = pattern_of(graph).float()
    scale = links.sum(1).rsqrt()
    return scale[:, None] * links * scale[None, :]


def toy_graph_of(number: int, *links: tuple[int, int]) -> FairGraph:
    return toy_graph(number, edge_index=torch.tensor(links, dtype=torch.int64).reshape(-1, 2).t())


def met(part: Subgraph) -> tuple[int, ...]:
    return tuple(part.nodes.tolist())


def test_the_whole_graph_propagates_as_it_does_and_every_node_counts_the_same() -> None:
    graph = toy_graph()
    part = WholeGraph(graph).draw()
    assert torch.equal(part.nodes, torch.arange(60))
    assert part.num_nodes == 60
    assert torch.equal(part.pattern(), pattern_of(graph))
    torch.testing.assert_close(part.matrix().to_dense(), propagation(graph))
    torch.testing.assert_close(part.shares, torch.full((60,), 1 / 60))
    h = torch.randn(60, 3)
    torch.testing.assert_close(torch.sparse.mm(part.matrix(), h), graph.adjacency().propagate(h), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("roots", "length"), [(1, 0), (4, 0), (3, 2), (10, 5), (100, 3)])
def test_a_subgraph_has_all_links_among_the_nodes_that_walks_meet(roots: int, length: int) -> None:
    graph = toy_graph()
    torch.manual_seed(0)
    sampler = RandomWalks(graph, roots, length, coverage=3)
    for _ in range(5):
        part = sampler.draw()
        assert met(part) == tuple(sorted(set(met(part))))
        assert 1 <= part.num_nodes <= min(roots * (length + 1), 60)
        assert torch.equal(part.pattern(), pattern_of(graph)[part.nodes][:, part.nodes])
        assert len(part.rows) == int(part.pattern().sum())  # each entry once
        assert part.values.isfinite().all()
        assert (part.values > 0).all()
        assert (part.shares > 0).all()
    assert met(part) != met(sampler.draw()) or roots == 100


def test_walks_go_from_neighbour_to_neighbour() -> None:
    path = toy_graph_of(12, *pairwise(range(2, 12)))  # nodes 0 and 1 are alone
    torch.manual_seed(0)
    sampler = RandomWalks(path, num_roots=1, walk_length=4, coverage=1)
    seen = [met(sampler.draw()) for _ in range(300)]
    for nodes in seen:
        assert nodes == tuple(range(nodes[0], nodes[-1] + 1))
        assert len(nodes) <= 5
        assert len(nodes) > 1 or nodes in ((0,), (1,))
    assert {(0,), (1,)} < set(seen)
    assert {len(nodes) for nodes in seen} == {1, 2, 3, 4, 5}


def test_a_walk_starts_anywhere_and_takes_every_link_with_the_same_probability() -> None:
    hub = toy_graph_of(6, (1, 2), (1, 3), (1, 4), (2, 5))
    torch.manual_seed(0)
    sampler, rounds = RandomWalks(hub, num_roots=1, walk_length=1, coverage=1), 12_000
    found = Counter(met(sampler.draw()) for _ in range(rounds))
    # from the one end and from the other, a sixth each time the number of its neighbours
    expected = {(0,): 1.0, (1, 2): 1 / 3 + 1 / 2, (1, 3): 1 / 3 + 1, (1, 4): 1 / 3 + 1, (2, 5): 1 / 2 + 1}
    assert found.keys() == expected.keys()
    for nodes, sixths in expected.items():
        share = sixths / 6
        assert found[nodes] / rounds == pytest.approx(share, abs=4 * (share * (1 - share) / rounds) ** 0.5)


def test_shares_and_values_are_inverse_to_how_often_nodes_and_links_are_met() -> None:
    """By plain loops over the subgraphs that are counted beforehand, drawn once more."""
    graph, coverage = toy_graph(30), 20
    torch.manual_seed(4)
    sampler = RandomWalks(graph, num_roots=4, walk_length=2, coverage=coverage)
    part = sampler.draw()
    torch.manual_seed(4)
    nodes_met, links_met, number = Counter[int](), Counter[tuple[int, int]](), 0
    while nodes_met.total() < coverage * 30:
        nodes = sampler.draw().nodes.tolist()
        nodes_met.update(nodes)
        links_met.update((u, v) for u in nodes for v in nodes)
        number += 1
    judged = propagation(graph)
    for u, share in zip(met(part), part.shares.tolist(), strict=True):
        assert share == pytest.approx(number / (30 * nodes_met[u]))
    entries = zip(part.nodes[part.rows].tolist(), part.nodes[part.columns].tolist(), part.values.tolist(), strict=True)
    for u, v, value in entries:
        assert value == pytest.approx(judged[u, v].item() * nodes_met[u] / links_met[u, v], rel=1e-5)


def test_sums_with_shares_and_what_arrives_are_right_on_average() -> None:
    graph = toy_graph(40)
    chance = torch.Generator().manual_seed(1)
    degree = pattern_of(graph).sum(1).float()
    h = torch.stack([degree, torch.randn(40, generator=chance)], dim=1)  # nodes of many links are met more often
    torch.manual_seed(0)
    sampler, rounds = RandomWalks(graph, num_roots=6, walk_length=2, coverage=1500), 4000
    means, plain = torch.zeros(rounds, 2), torch.zeros(rounds, 2)
    arrived, squares, there = torch.zeros(40, 2), torch.zeros(40, 2), torch.zeros(40, 1)
    for index in range(rounds):
        part = sampler.draw()
        means[index], plain[index] = part.shares @ h[part.nodes], h[part.nodes].mean(dim=0)
        sums = torch.sparse.mm(part.matrix(), h[part.nodes])
        arrived[part.nodes] += sums
        squares[part.nodes] += sums**2
        there[part.nodes] += 1

    error = means.std(dim=0) / rounds**0.5
    assert ((means.mean(dim=0) - h.mean(dim=0)).abs() < 5 * error).all()
    assert (plain.mean(dim=0) - h.mean(dim=0))[0] > 20 * error[0]

    expected, arrived = propagation(graph) @ h, arrived / there
    # as often as links are met here and were met while they were counted, both of which scatter
    error = ((squares / there - arrived**2) / there).sqrt() * (1 + rounds / sampler._num_counted) ** 0.5
    off = (arrived - expected).abs() / (error + 1e-6)
    assert (off < 5).all()
    assert off.mean() < 1.5


def test_a_graph_without_links_is_its_loops() -> None:
    torch.manual_seed(0)
    for sampler in (WholeGraph(toy_graph_of(9)), RandomWalks(toy_graph_of(9), 2, 3, coverage=5)):
        part = sampler.draw()
        assert torch.equal(part.matrix().to_dense(), torch.eye(part.num_nodes))
        assert torch.equal(part.pattern(), torch.eye(part.num_nodes, dtype=torch.bool))


def test_what_was_never_met_before_counts_as_met_once() -> None:
    graph = toy_graph(200)
    torch.manual_seed(0)
    sampler = RandomWalks(graph, num_roots=5, walk_length=1, coverage=1)
    judged = propagation(graph)
    for _ in range(20):
        part = sampler.draw()
        assert part.shares.isfinite().all()
        assert part.shares.max() <= sampler._num_counted / 200 + 1e-6
        entries = judged[part.nodes[part.rows], part.nodes[part.columns]] * sampler._num_counted
        assert (part.values <= entries + 1e-6).all()


def test_the_same_seed_meets_the_same_nodes() -> None:
    seen = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        sampler = RandomWalks(toy_graph(), 5, 2, coverage=5)
        seen.append([met(sampler.draw()) for _ in range(5)])
    assert seen[0] == seen[1] != seen[2]
