"""Every vector operation against NumPy, for numbers of lanes that are powers of two and such that are not."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from fairsad.kernels.compiled import simd

Floats = Any


def evaluate(operation: Any, *inputs: Floats, lanes: int) -> Floats:
    """Runs compiled code that reads the inputs and writes a vector of so many lanes."""
    result = np.full(lanes, np.nan, inputs[0].dtype)
    numba.njit(operation)(*inputs, result)
    return result


@pytest.fixture(params=[(np.float32, 8, 4), (np.float64, 8, 4), (np.float32, 6, 3), (np.float32, 12, 6)], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Floats, Floats, int, int]:
    dtype, lanes, group = request.param
    chance = np.random.default_rng(0)
    a, b = chance.normal(size=(2, lanes)).astype(dtype)
    return a, b, lanes, group


def test_arithmetic(case: Any) -> None:
    a, b, n, _ = case

    def operation(a: Any, b: Any, result: Any) -> None:
        x, y = simd.load(a, 0, n), simd.load(b, 0, n)
        x = simd.fma(x, y, simd.sub(simd.add(x, y), simd.mul(x, x)))
        simd.store(result, 0, simd.div(x, y))

    np.testing.assert_allclose(evaluate(operation, a, b, lanes=n), (a * b + a + b - a * a) / b, rtol=1e-5)


def test_moving_lanes_about(case: Any) -> None:
    a, b, n, group = case
    half = n // 2

    def halves(a: Any, b: Any, result: Any) -> None:
        x, y = simd.load(a, 0, n), simd.load(b, 0, n)
        simd.store(result, 0, simd.half(x, 1))
        simd.store(result, half, simd.half(y, 0))
        simd.store(result, n, simd.join(x, simd.swap(y)))

    swapped = np.concatenate([b[half:], b[:half]])
    expected = np.concatenate([a[half:], b[:half], a, swapped])
    assert evaluate(halves, a, b, lanes=3 * n).tolist() == expected.tolist()

    def copies(a: Any, result: Any) -> None:
        x = simd.load(a, 0, n)
        simd.store(result, 0, simd.repeat(x, group))
        simd.store(result, n * group, simd.tile(x, group))

    expected = np.concatenate([a.repeat(group), np.tile(a, group)])
    assert evaluate(copies, a, lanes=2 * n * group).tolist() == expected.tolist()


def test_making_vectors(case: Any) -> None:
    a, _, n, _ = case

    def operation(a: Any, result: Any) -> None:
        simd.prefetch(a, 0, n)
        simd.store(result, 0, simd.zeros(a.dtype, n))
        simd.store(result, n, simd.splat(a[1], n))
        result[2 * n] = simd.lane(simd.load(a, 0, n), 2)

    assert evaluate(operation, a, lanes=2 * n + 1).tolist() == [0.0] * n + [a[1]] * n + [a[2]]


def test_packing_three_numbers() -> None:
    def operation(a: Any, result: Any) -> None:
        simd.store(result, 0, simd.pack(a[0], a[1], a[2]))

    assert evaluate(operation, np.array([1.0, 2.0, 3.0]), lanes=4).tolist() == [1.0, 2.0, 3.0, 0.0]


def test_sums_and_maxima_across_lanes(case: Any) -> None:
    a, _, n, group = case
    groups = n // group

    def operation(a: Any, result: Any) -> None:
        x = simd.load(a, 0, n)
        simd.store(result, 0, simd.group_total(x, group))
        simd.store(result, n, simd.group_maximum(x, group))
        simd.store(result, 2 * n, simd.sum_runs(x, group))
        simd.store(result, 2 * n + groups, simd.sum_strided(x, group))

    table = a.reshape(groups, group)
    expected = [table.sum(1).repeat(group), table.max(1).repeat(group), table.sum(1), table.sum(0)]
    np.testing.assert_allclose(
        evaluate(operation, a, lanes=2 * n + groups + group), np.concatenate(expected), rtol=1e-6
    )


def test_rectifier_and_its_derivative(case: Any) -> None:
    a, b, n, _ = case
    a = np.concatenate([a[:-3], np.array([0.0, -0.0, np.nan], a.dtype)])

    def operation(a: Any, b: Any, result: Any) -> None:
        x = simd.load(a, 0, n)
        simd.store(result, 0, simd.relu(x))
        simd.store(result, n, simd.where_positive(x, simd.load(b, 0, n)))

    result = evaluate(operation, a, b, lanes=2 * n)
    np.testing.assert_array_equal(result[: n - 1], np.maximum(a[:-1], 0))
    assert np.isnan(result[n - 1])
    np.testing.assert_array_equal(result[n:-1], np.where(a[:-1] > 0, b[:-1], 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponential_to_the_last_digits(dtype: Any) -> None:
    def operation(a: Any, result: Any) -> None:
        for start in range(0, len(a), 8):
            simd.store(result, start, simd.exp_of_nonpositive(simd.load(a, start, 8)))

    lowest = np.log(simd.NOTHING[np.dtype(dtype).name])
    x = np.concatenate([np.linspace(lowest * 0.999999, 0, 80_000), -np.geomspace(1e-30, 1, 80_000)]).astype(dtype)
    exact = np.exp(x.astype(np.longdouble))
    error = np.abs(evaluate(operation, x, lanes=len(x)).astype(np.longdouble) / exact - 1)
    assert error.max() < 2 * np.finfo(dtype).eps

    extremes = np.array([0.0, -0.0, -1e4, -np.inf, np.nan, 1.001 * lowest, -1e-45, -3e38], dtype)
    result = evaluate(operation, extremes, lanes=8)
    assert result[:2].tolist() == [1.0, 1.0]
    assert result[[2, 3, 5, 7]].tolist() == [0.0] * 4
    # what is left is so large that no product of two is subnormal
    assert simd.NOTHING[np.dtype(dtype).name] ** 2 > np.finfo(dtype).tiny
    assert np.isnan(result[4])
    assert result[6] == 1.0
