from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fairsad.errors import DataError
from fairsad.kernels import aggregate as module
from fairsad.kernels import use_backend
from fairsad.kernels.adjacency import Adjacency
from fairsad.kernels.aggregate import Assignment, aggregate
from tests.judges import dense_sums, eq_2_weights, eq_3_sums, neighbours, random_links

NODES = 14
LINKS = random_links(NODES, 30, isolated=(0, 9))
ADJACENCY = Adjacency.from_edge_index(LINKS, NODES)


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


def inputs(
    num_channels: int,
    width: int,
    hidden: int | None,
    num_nodes: int = NODES,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Assignment]:
    chance = torch.Generator().manual_seed(num_channels + 10 * width)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=chance, dtype=torch.float64).to(dtype)

    parts = hidden or num_channels
    head = None if hidden is None else (draw(num_channels, hidden), draw(num_channels))
    assignment = Assignment(scale * draw(num_nodes, parts), scale * draw(num_nodes, parts), head)
    return draw(num_nodes, num_channels, width), assignment


# Channels, width, hidden units: those of the paper first, then sizes that are no powers of two, single lanes, many.
SHAPES = [(4, 4, None), (4, 4, 4), (4, 4, 16), (3, 5, None), (5, 1, 3), (2, 3, 1), (16, 1, None)]


@pytest.mark.parametrize("hidden", [None, 3])
def test_eq_2_link_weights_by_plain_loops(backend: str, hidden: int | None) -> None:
    _, assignment = inputs(4, 1, hidden)
    # Each node sends its own unit vector, so what arrives from v at u is the weight of that link.
    messages = torch.eye(NODES, dtype=torch.float64).unsqueeze(1).expand(-1, 4, -1)
    arrived = aggregate(ADJACENCY, messages, assignment)
    by_hand = torch.zeros_like(arrived)
    for u, around in enumerate(neighbours(LINKS, NODES)):
        for v in around:
            by_hand[u, :, v] = torch.tensor(eq_2_weights(assignment, u, v))
    torch.testing.assert_close(arrived, by_hand)
    degrees = ADJACENCY.row_pointer.diff().double()
    torch.testing.assert_close(arrived.sum((1, 2)), degrees)  # weights of a link add up to 1


@pytest.mark.parametrize(("num_channels", "width", "hidden"), SHAPES)
def test_eq_3_weighted_sums_by_plain_loops(backend: str, num_channels: int, width: int, hidden: int | None) -> None:
    messages, assignment = inputs(num_channels, width, hidden)
    result = aggregate(ADJACENCY, messages, assignment)
    torch.testing.assert_close(result, eq_3_sums(LINKS, messages, assignment), rtol=1e-13, atol=1e-13)


def test_eq_3_equal_weights_by_plain_loops(backend: str) -> None:
    messages, _ = inputs(4, 3, None)
    torch.testing.assert_close(aggregate(ADJACENCY, messages), eq_3_sums(LINKS, messages, None))


def test_a_single_channel_has_weight_one_whatever_the_assignment(backend: str) -> None:
    messages, assignment = inputs(1, 4, 3)
    result = aggregate(ADJACENCY, messages, assignment)
    torch.testing.assert_close(result, eq_3_sums(LINKS, messages, None))
    torch.testing.assert_close(result, eq_3_sums(LINKS, messages, assignment))


@pytest.mark.parametrize(("num_channels", "width", "hidden"), SHAPES)
def test_gradients_are_those_of_the_dense_form(backend: str, num_channels: int, width: int, hidden: int | None) -> None:
    messages, assignment = inputs(num_channels, width, hidden)
    leaves = [messages, assignment.target, assignment.source, *(assignment.head or ())]
    for leaf in leaves:
        leaf.requires_grad_()
    direction = torch.randn(messages.shape, dtype=torch.float64)
    ours = torch.autograd.grad((aggregate(ADJACENCY, messages, assignment) * direction).sum(), leaves)
    judge = torch.autograd.grad((dense_sums(LINKS, messages, assignment) * direction).sum(), leaves)
    for mine, theirs in zip(ours, judge, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("hidden", [None, 3])
def test_gradcheck(backend: str, hidden: int | None) -> None:
    messages, assignment = inputs(3, 2, hidden)
    leaves = [messages, assignment.target, assignment.source, *(assignment.head or ())]

    def function(*tensors: Tensor) -> Tensor:
        head = (tensors[3], tensors[4]) if hidden else None
        return aggregate(ADJACENCY, tensors[0], Assignment(tensors[1], tensors[2], head))

    assert torch.autograd.gradcheck(function, [leaf.requires_grad_() for leaf in leaves])


def test_gradcheck_of_equal_weights(backend: str) -> None:
    messages, _ = inputs(3, 2, None)
    assert torch.autograd.gradcheck(lambda m: aggregate(ADJACENCY, m), messages.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [10.0, 40.0, 5000.0])
def test_logits_in_the_thousands_give_the_exact_softmax(backend: str, dtype: torch.dtype, scale: float) -> None:
    # Between a scale of 40 and a few hundred the products of exponentials vanish one after the other.
    messages, assignment = inputs(4, 4, None, scale=scale, dtype=dtype)
    leaves = [messages, assignment.target, assignment.source]
    exact = [leaf.double().requires_grad_() for leaf in leaves]
    judge = dense_sums(LINKS, exact[0], Assignment(exact[1], exact[2]))
    result = aggregate(ADJACENCY, *_assigned([leaf.requires_grad_() for leaf in leaves]))
    # Adding logits of this size rounds them: an error of the input, not of the softmax.
    tolerance = 8 * torch.finfo(dtype).eps * max(scale, 1.0)
    torch.testing.assert_close(result.double(), judge, rtol=tolerance, atol=tolerance)
    direction = torch.randn_like(messages)
    ours = torch.autograd.grad((result * direction).sum(), leaves)
    theirs = torch.autograd.grad((judge * direction).sum(), exact)
    for mine, judged in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.double(), judged, rtol=10 * tolerance, atol=10 * tolerance)


def _assigned(leaves: list[Tensor]) -> tuple[Tensor, Assignment]:
    return leaves[0], Assignment(leaves[1], leaves[2])


@pytest.mark.parametrize("gap", [50.0, 60.0, 100.0, 200.0, 1e4])
def test_ends_that_want_different_channels_share_the_link_exactly(backend: str, gap: float) -> None:
    # Node 0 insists on channel 0, node 1 on channel 1, equally: all products of exponentials vanish, but the sums tie.
    adjacency = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2)
    target = torch.tensor([[gap, 0.0, -gap], [0.0, gap, -gap]])
    source = target.clone()
    messages = torch.stack([torch.zeros(3, 1), torch.ones(3, 1)])
    result = aggregate(adjacency, messages, Assignment(target, source))
    torch.testing.assert_close(result[0, :2, 0], torch.tensor([0.5, 0.5]), rtol=1e-6, atol=1e-6)
    assert result[0, 2, 0] == pytest.approx(0.0, abs=1e-6)


def test_float32_is_as_exact_as_float32(backend: str) -> None:
    for num_channels, width, hidden in SHAPES:
        messages, assignment = inputs(num_channels, width, hidden, dtype=torch.float32)
        target, source, head = assignment
        wide = None if head is None else (head[0].double(), head[1].double())
        exact = dense_sums(LINKS, messages.double(), Assignment(target.double(), source.double(), wide))
        torch.testing.assert_close(aggregate(ADJACENCY, messages, assignment).double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hidden", [None, 4])
def test_no_links_leave_each_node_with_itself(backend: str, hidden: int | None) -> None:
    adjacency = Adjacency.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), NODES)
    messages, assignment = inputs(4, 4, hidden)
    result = aggregate(adjacency, messages, assignment)
    torch.testing.assert_close(result, eq_3_sums(torch.zeros(2, 0, dtype=torch.int64), messages, assignment))


@pytest.mark.parametrize("hidden", [None, 4])
def test_nan_stays_visible(backend: str, hidden: int | None) -> None:
    messages, assignment = inputs(4, 4, hidden)
    assignment.target[3, 1] = float("nan")
    result = aggregate(ADJACENCY, messages, assignment)
    assert result[3].isnan().all()
    assert not result[0].isnan().any()


@pytest.mark.parametrize("hidden", [None, 5])
def test_slices_of_a_wider_product_need_no_copy_by_the_caller(backend: str, hidden: int | None) -> None:
    messages, assignment = inputs(4, 3, hidden)
    parts = [messages.flatten(1), assignment.target, assignment.source]
    product = torch.cat(parts, dim=1)
    rows, target, source = product.split([part.size(1) for part in parts], dim=1)
    result = aggregate(ADJACENCY, rows.unflatten(1, (4, 3)), Assignment(target, source, assignment.head))
    assert torch.equal(result, aggregate(ADJACENCY, messages, assignment))


def test_the_plain_form_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, assignment = inputs(4, 4, 3)
    leaves = [messages, assignment.target, *(assignment.head or ())]
    for leaf in leaves:
        leaf.requires_grad_()
    whole = aggregate(ADJACENCY, messages, assignment)
    gradients = torch.autograd.grad(whole.square().sum(), leaves)
    monkeypatch.setattr(module, "_NUMBERS_AT_A_TIME", 200)
    with use_backend("torch"):
        pieces = aggregate(ADJACENCY, messages, assignment)
        torch.testing.assert_close(pieces, whole)
        for ours, theirs in zip(torch.autograd.grad(pieces.square().sum(), leaves), gradients, strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("hidden", [None, 4])
def test_the_same_bits_with_one_thread_and_with_two(hidden: int | None) -> None:
    num_nodes = 2000
    adjacency = Adjacency.from_edge_index(random_links(num_nodes, 40_000), num_nodes)
    assert adjacency.num_entries > 20_000  # enough that a second thread is used
    messages, assignment = inputs(4, 4, hidden, num_nodes=num_nodes, dtype=torch.float32)
    leaves = [messages, assignment.target, assignment.source, *(assignment.head or ())]
    for leaf in leaves:
        leaf.requires_grad_()
    direction = torch.randn_like(messages)
    usual = torch.get_num_threads()
    outcomes = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            result = aggregate(adjacency, messages, assignment)
            outcomes.append([result, *torch.autograd.grad((result * direction).sum(), leaves)])
    finally:
        torch.set_num_threads(usual)
    for one, two in zip(*outcomes, strict=True):
        assert torch.equal(one, two)


def test_order_of_nodes_does_not_matter(backend: str) -> None:
    messages, assignment = inputs(4, 4, None)
    order = torch.randperm(NODES)
    place = torch.empty_like(order)
    place[order] = torch.arange(NODES)
    links = place[LINKS]
    links = links[:, (links[0] * NODES + links[1]).argsort()]
    moved = Assignment(assignment.target[order], assignment.source[order])
    result = aggregate(Adjacency.from_edge_index(links, NODES), messages[order], moved)
    torch.testing.assert_close(result, aggregate(ADJACENCY, messages, assignment)[order])


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    messages, assignment = inputs(4, 4, 3)
    with pytest.raises(DataError, match=r"messages have shape \(13, 4, 4\); expected \[14, channels, width\]"):
        aggregate(ADJACENCY, messages[1:], assignment)
    with pytest.raises(DataError, match=r"source is torch.float64 of shape \(14, 2\); expected .* \(14, 3\)"):
        aggregate(ADJACENCY, messages, assignment._replace(source=assignment.source[:, :2]))
    with pytest.raises(DataError, match=r"target is torch.float64 of shape \(14, 3\); expected .* \(14, 4\)"):
        aggregate(ADJACENCY, messages, assignment._replace(head=None))
    with pytest.raises(DataError, match=r"target is torch.float64 .* expected torch.float32"):
        aggregate(ADJACENCY, messages.float(), assignment)
    head = (torch.zeros(3, 3, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))
    with pytest.raises(DataError, match=r"head weight is torch.float64 of shape \(3, 3\); expected .* \(4, 3\)"):
        aggregate(ADJACENCY, messages, assignment._replace(head=head))
