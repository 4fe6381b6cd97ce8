from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from fairsad.errors import DataError
from fairsad.kernels import ranksums as module
from fairsad.kernels import use_backend
from fairsad.kernels.ranksums import distance_statistics
from tests.judges import signed_distances

ALL_PAIRS_OF_3 = torch.tensor([[0, 1], [0, 2], [1, 2], [2, 2]])


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


def judge(columns: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All distances, written down; differentiable, with the derivative 0 at ties."""
    distances = (columns.double()[:, :, None] - columns.double()[:, None]).abs()
    products = (distances[pairs[:, 0]] * distances[pairs[:, 1]]).sum((1, 2))
    return products, distances.square().sum((1, 2)), distances.sum(2)


def compare(columns: Tensor, pairs: Tensor) -> None:
    columns = columns.detach().requires_grad_()
    ours, theirs = distance_statistics(columns, pairs), judge(columns, pairs)
    spread = float((columns.max() - columns.min()).detach()) or 1.0
    weights = []
    chance = torch.Generator().manual_seed(0)
    for mine, judged in zip(ours, theirs, strict=True):
        power = 1 if judged is theirs[2] else 2
        torch.testing.assert_close(mine, judged, rtol=1e-10, atol=1e-10 * columns.size(1) ** 2 * spread**power)
        weights.append(torch.randn(judged.shape, generator=chance, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(sum((w * s).sum() for w, s in zip(weights, ours, strict=True)), columns)
    (judged,) = torch.autograd.grad(sum((w * s).sum() for w, s in zip(weights, theirs, strict=True)), columns)
    eps = torch.finfo(columns.dtype).eps
    torch.testing.assert_close(gradient, judged, rtol=10 * eps, atol=10 * eps * float(judged.abs().max()) + 1e-300)


def test_signed_sums_of_distances_one_by_one() -> None:
    x, y = np.array([3.0, 1.0, 3.0, 0.0]), np.array([1.0, 5.0, 2.0, 1.0])
    # row 0: sgn(3-1)|1-5| + sgn(3-3)|1-2| + sgn(3-0)|1-1|
    assert signed_distances(x, y).tolist() == [4.0, -4.0 - 3.0 + 4.0, 3.0 + 1.0, -4.0 - 1.0]
    columns = torch.tensor(np.stack([x, y]), requires_grad=True)
    products = distance_statistics(columns, torch.tensor([[0, 1]])).products
    products.sum().backward()
    assert columns.grad is not None
    assert columns.grad[0].tolist() == (2 * signed_distances(x, y)).tolist()
    assert columns.grad[1].tolist() == (2 * signed_distances(y, x)).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_rows", [1, 2, 3, 64, 257])
def test_random_columns(backend: str, num_rows: int, dtype: torch.dtype) -> None:
    compare(torch.randn(3, num_rows, dtype=dtype), ALL_PAIRS_OF_3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ties_as_dropout_makes_them(backend: str, dtype: torch.dtype) -> None:
    columns = torch.nn.functional.dropout(torch.randn(3, 300, dtype=dtype))
    assert (columns == 0).float().mean() > 0.4
    compare(columns, ALL_PAIRS_OF_3)


def test_minus_zero_ties_with_zero(backend: str) -> None:
    columns = torch.tensor([[0.0, -0.0, 1.0, -0.0, -1.0], [2.0, 1.0, 5.0, 3.0, 4.0], [0.0, 0.0, -0.0, 0.0, -0.0]])
    compare(columns, ALL_PAIRS_OF_3)


def test_a_shift_costs_no_digits(backend: str) -> None:
    columns = torch.randn(3, 200, dtype=torch.float64)
    plain = distance_statistics(columns, ALL_PAIRS_OF_3)
    moved = distance_statistics(columns + 1e6, ALL_PAIRS_OF_3)
    for one, other in zip(plain, moved, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-6)


def test_constant_columns_are_exactly_zero(backend: str) -> None:
    columns = torch.full((3, 50), 0.1, dtype=torch.float64)
    columns[1] = torch.randn(50)
    columns.requires_grad_()
    statistics = distance_statistics(columns, ALL_PAIRS_OF_3)
    assert statistics.products.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert statistics.squares[0] == statistics.squares[2] == 0.0
    assert not statistics.distance_sums[[0, 2]].any()
    statistics.products.sum().backward()
    assert columns.grad is not None
    assert not columns.grad.any()


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.just(3), st.integers(1, 20)), elements=st.integers(-2, 2).map(float)),
    st.sampled_from([1.0, 1e-8, 1e8]),
)
@example(np.zeros((3, 7)), 1.0)
def test_any_pattern_of_ties(values: Any, scale: float) -> None:
    for backend in ("numba", "torch"):
        with use_backend(backend):  # type: ignore[arg-type]
            compare(torch.from_numpy(values * scale), ALL_PAIRS_OF_3)


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        np.float32,
        st.tuples(st.just(3), st.integers(1, 30)),
        elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=True),
        fill=st.sampled_from([0.0, -0.0, 1.0]),
    )
)
def test_any_numbers(values: Any) -> None:
    for backend in ("numba", "torch"):
        with use_backend(backend):  # type: ignore[arg-type]
            compare(torch.from_numpy(values.copy()), ALL_PAIRS_OF_3)


@pytest.mark.parametrize("ties", ["none", "few", "half zero", "across buckets", "constant"])
def test_more_rows_than_one_bucket_holds(backend: str, ties: str) -> None:
    chance = np.random.default_rng(0)
    x, y = chance.normal(size=(2, 5000))
    if ties == "few":
        x, y = np.round(x, 2), np.round(x + y, 2)
    elif ties == "half zero":
        x, y = x * (chance.random(5000) < 0.5), y * (chance.random(5000) < 0.5)
    elif ties == "across buckets":  # one run of equal values over several buckets, in the middle and at the end
        x, y = np.clip(x, None, 1.0), np.clip(y, -0.05, 0.9)
    elif ties == "constant":
        y = np.zeros(5000)
    columns = torch.from_numpy(np.stack([x, y])).requires_grad_()
    statistics = distance_statistics(columns, torch.tensor([[0, 1]]))
    to_x, to_y = signed_distances(x, y), signed_distances(y, x)
    assert statistics.products.item() == pytest.approx(2 * (x * to_x).sum(), rel=1e-11)
    statistics.products.backward()
    assert columns.grad is not None
    np.testing.assert_allclose(columns.grad.numpy(), 2 * np.stack([to_x, to_y]), rtol=0, atol=1e-8)


def test_gradcheck(backend: str) -> None:
    columns = torch.randn(3, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: tuple(distance_statistics(c, ALL_PAIRS_OF_3)), columns)


def test_without_gradient_the_values_are_the_same(backend: str) -> None:
    columns = torch.randn(3, 40)
    plain = distance_statistics(columns, ALL_PAIRS_OF_3)
    for one, other in zip(plain, distance_statistics(columns.requires_grad_(), ALL_PAIRS_OF_3), strict=True):
        assert not one.requires_grad
        assert torch.equal(one, other)


def test_nan_stays_visible(backend: str) -> None:
    columns = torch.randn(3, 40)
    columns[1, 7] = float("nan")
    statistics = distance_statistics(columns, ALL_PAIRS_OF_3)
    assert statistics.products.isnan().tolist() == [True, False, True, False]
    assert statistics.squares.isnan().tolist() == [False, True, False]


def test_the_plain_form_takes_pairs_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS_AT_A_TIME", 100)
    with use_backend("torch"):
        compare(torch.randn(3, 64), ALL_PAIRS_OF_3)


def test_the_same_bits_with_one_thread_and_with_two() -> None:
    columns = torch.nn.functional.dropout(torch.randn(16, 3000)).requires_grad_()
    pairs = torch.combinations(torch.arange(16))
    usual = torch.get_num_threads()
    outcomes = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            statistics = distance_statistics(columns, pairs)
            total = statistics.products.sum() + statistics.distance_sums.square().sum()
            outcomes.append([*statistics, *torch.autograd.grad(total, columns)])
    finally:
        torch.set_num_threads(usual)
    for one, two in zip(*outcomes, strict=True):
        assert torch.equal(one, two)


def test_no_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3, 0\); expected \[columns, rows\] with at least one row"):
        distance_statistics(torch.zeros(3, 0), ALL_PAIRS_OF_3)
