from __future__ import annotations

import math
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
from fairsad.kernels import use_backend
from fairsad.losses.distance_correlation import distance_correlation_loss, distance_correlation_matrix
from tests.judges import channel_pairs, dense_distance_correlation, eq_11_covariance

RATIOS = ["pooled", "per_column"]


@pytest.fixture(params=["numba", "torch"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_backend(request.param):
        yield request.param


def by_column(channels: Tensor, k: int) -> list[list[float]]:
    return channels[:, k].t().tolist()


def test_eq_7_pooled_ratio_by_plain_loops(backend: str) -> None:
    channels = torch.randn(9, 3, 2, dtype=torch.float64)
    by_hand = 0.0
    for k, other in channel_pairs(3):
        first, second = by_column(channels, k), by_column(channels, other)
        scale = eq_11_covariance(first, first) * eq_11_covariance(second, second)
        by_hand += eq_11_covariance(first, second) / math.sqrt(scale)
    assert distance_correlation_loss(channels).item() == pytest.approx(by_hand, rel=1e-12)


def test_eq_11_12_distance_covariance_as_the_authors_code_sums_it(backend: str) -> None:
    channels = torch.randn(9, 3, 2, dtype=torch.float64)
    by_hand = 0.0
    for k, other in channel_pairs(3):
        for x, y in zip(by_column(channels, k), by_column(channels, other), strict=True):
            xy, xx, yy = (eq_11_covariance([a], [b]) / 81 for a, b in ((x, y), (x, x), (y, y)))
            by_hand += xy / math.sqrt(xx * yy + 1e-9)
    assert distance_correlation_loss(channels, ratio="per_column").item() == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.xdist_group("dcor")
def test_single_columns_agree_with_dcor(backend: str) -> None:
    # Compiles when it is imported, into one cache: two processes that do so at the same time can crash.
    import dcor

    channels = torch.randn(200, 3, 1, dtype=torch.float64)
    channels[:, 1] += channels[:, 0].square()
    channels[:, 2] = channels[:, 2].round()
    columns = channels[:, :, 0].numpy()
    matrix = distance_correlation_matrix(channels)
    for k in range(3):
        for other in range(3):
            judge = dcor.distance_correlation_sqr(columns[:, k], columns[:, other])
            assert matrix[k, other].item() == pytest.approx(judge, rel=1e-9)
    assert distance_correlation_loss(channels).item() == pytest.approx(matrix.triu(1).sum().item(), rel=1e-12)


def compare(channels: Tensor, ratio: Any) -> None:
    """Value to 1e-6 and gradient to 1e-5 of the dense matrices, in float64; NaN nowhere."""
    ours, theirs = channels.clone().requires_grad_(), channels.double().requires_grad_()
    value, judge = distance_correlation_loss(ours, ratio=ratio), dense_distance_correlation(theirs, ratio)
    assert value.dtype == channels.dtype
    assert value.item() == pytest.approx(judge.item(), rel=1e-6, abs=1e-9)
    (gradient,), (judged,) = torch.autograd.grad(value, ours), torch.autograd.grad(judge, theirs)
    assert gradient.isfinite().all()
    assert (gradient.double() - judged).norm() <= 1e-5 * judged.norm() + 1e-9


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["random", "dropout", "signs", "constant channel", "constant columns", "large offset"])
def test_value_and_gradient_equal_the_dense_form(backend: str, kind: str, dtype: torch.dtype, ratio: str) -> None:
    torch.manual_seed(0)
    channels = torch.randn(150, 4, 4, dtype=dtype)
    if kind == "dropout":
        channels = torch.nn.functional.dropout(channels)
    elif kind == "signs":  # channels of width 1, normalised
        channels = channels[:, :, :1].sign()
    elif kind == "constant channel":
        channels[:, 2] = torch.tensor([0.0, 1.0, -3.0, 0.1])
    elif kind == "constant columns":
        channels[:, 0, 1] = channels[:, 3, 2] = 0.3
    elif kind == "large offset":
        channels += 100
    compare(channels, ratio)


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(2, 12), st.just(3), st.integers(1, 2)), elements=st.integers(-1, 1)),
    st.sampled_from(RATIOS),
)
@example(np.ones((5, 3, 2)), "pooled")
@example(np.ones((5, 3, 2)), "per_column")
def test_any_ties_and_constant_columns(values: Any, ratio: str) -> None:
    for backend in ("numba", "torch"):
        with use_backend(backend):  # type: ignore[arg-type]
            compare(torch.from_numpy(values), ratio)


@pytest.mark.parametrize("ratio", RATIOS)
def test_nothing_varies_nothing_depends(backend: str, ratio: Any) -> None:
    for channels in (torch.full((20, 4, 4), 0.1), torch.randn(1, 4, 4)):
        channels.requires_grad_()
        loss = distance_correlation_loss(channels, ratio=ratio)
        loss.backward()
        assert loss.item() == 0.0
        assert channels.grad is not None
        assert not channels.grad.any()


@pytest.mark.parametrize("ratio", RATIOS)
def test_gradcheck(backend: str, ratio: Any) -> None:
    channels = torch.randn(7, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: distance_correlation_loss(z, ratio=ratio), channels)


def test_one_channel_depends_on_no_other() -> None:
    assert distance_correlation_loss(torch.randn(10, 1, 4)).item() == 0.0


@pytest.mark.parametrize(("ratio", "bound"), [("pooled", 6.0), ("per_column", 6.0 * 3)])
def test_equal_channels_reach_the_bound(backend: str, ratio: Any, bound: float) -> None:
    column = torch.randn(100, 1, 3, dtype=torch.float64)
    scales = torch.tensor([1.0, 10.0, 0.5, -3.0], dtype=torch.float64)[None, :, None]
    loss = distance_correlation_loss(column * scales + scales, ratio=ratio)
    assert loss.item() == pytest.approx(bound, rel=1e-6)


def test_order_and_shift_of_channels_do_not_matter(backend: str) -> None:
    channels = torch.randn(60, 4, 2, dtype=torch.float64)
    loss = distance_correlation_loss(channels)
    torch.testing.assert_close(distance_correlation_loss(channels.flip(1)), loss)
    torch.testing.assert_close(distance_correlation_loss(channels + torch.randn(1, 4, 2)), loss)
    torch.testing.assert_close(distance_correlation_loss(channels[torch.randperm(60)]), loss)


def test_matrix_of_measured_dependence(backend: str) -> None:
    channels = torch.randn(80, 4, 3)
    channels[:, 1] = -2 * channels[:, 0] + 1
    channels[:, 3] = 0.7
    matrix = distance_correlation_matrix(channels.requires_grad_())
    assert not matrix.requires_grad
    assert torch.equal(matrix, matrix.t())
    torch.testing.assert_close(matrix.diagonal(), torch.tensor([1.0, 1.0, 1.0, 0.0]))
    assert matrix[0, 1].item() == pytest.approx(1.0)
    assert not matrix[3].any()
    assert 0 < matrix[0, 2] < 0.5


def test_unknown_ratio_is_refused() -> None:
    with pytest.raises(DataError, match="unknown ratio 'mean' .* expected 'pooled' or 'per_column'"):
        distance_correlation_loss(torch.randn(5, 2, 2), ratio="mean")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_million_rows_within_a_minute_and_four_gigabytes() -> None:
    import resource
    import time

    channels = torch.nn.functional.dropout(torch.randn(1_000_000, 4, 4)).requires_grad_()
    distance_correlation_loss(channels[:1000]).backward()
    start = time.perf_counter()
    distance_correlation_loss(channels, ratio="per_column").backward()
    assert time.perf_counter() - start < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 * 2**20  # kB
