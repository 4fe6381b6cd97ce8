"""The compiled loops on arrays; what they mean is tested in tests/kernels/test_aggregate.py."""

from __future__ import annotations

import numpy as np
import pytest

from fairsad.kernels.compiled import aggregate as module
from fairsad.kernels.compiled import run
from fairsad.kernels.compiled.aggregate import linear_loops, relu_loops, sum_loop
from fairsad.kernels.compiled.simd import NOTHING

# Two linked nodes and one alone, in two blocks of rows.
BLOCKS, ROW_POINTER = np.array([0, 1, 3]), np.array([0, 2, 4, 5])
COLUMN = np.array([0, 1, 0, 1, 2], dtype=np.int32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_plain_sums(dtype: str) -> None:
    values = np.array([[1, 2, 3], [10, 20, 30], [5, 5, 5]], dtype=dtype)
    result = np.empty_like(values)
    run(sum_loop(3, dtype), 5, BLOCKS, ROW_POINTER, COLUMN, 0.5, values, result)
    assert result.tolist() == [[5.5, 11, 16.5], [5.5, 11, 16.5], [2.5, 2.5, 2.5]]


def test_tables_hold_exponentials_below_each_rows_maximum() -> None:
    pair = np.array([[0, 1, 5, 3], [0, 0, 0, -1], [700, 0, -2, 0]], dtype=np.float64)
    messages, tables = np.ones((3, 2)), np.empty((3, 4))
    result = np.empty_like(messages)
    run(linear_loops(2, 1, "float64").forward, 5, BLOCKS, ROW_POINTER, COLUMN, messages, pair, tables, result)
    expected = np.exp(pair.reshape(3, 2, 2) - pair.reshape(3, 2, 2).max(2, keepdims=True)).reshape(3, 4)
    np.testing.assert_allclose(tables, expected, rtol=1e-14, atol=NOTHING["float64"])
    assert tables[2, 1] == 0.0  # e^-700
    np.testing.assert_allclose(result.sum(1), [2, 2, 1])


def test_head_gradients_come_block_by_block() -> None:
    rng = np.random.default_rng(0)
    messages, gradient, pair = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 6))
    weight, bias = rng.normal(size=6), rng.normal(size=2)
    loop = relu_loops(2, 2, 3, "float64").backward
    arrays = (messages, pair, weight, bias, gradient)

    def partial(blocks: np.ndarray) -> np.ndarray:
        result = np.full((len(blocks) - 1, 8), np.nan)
        run(loop, 5, blocks, ROW_POINTER, COLUMN, *arrays, np.empty((3, 4)), np.empty((3, 6)), result)
        return result

    two, one = partial(BLOCKS), partial(np.array([0, 3]))
    assert two.shape == (2, 8)
    np.testing.assert_allclose(two.sum(0), one[0], rtol=1e-12)
    assert not np.allclose(two[0], 0)
    assert not np.allclose(two[1], 0)


def test_loops_of_one_size_are_made_once() -> None:
    assert linear_loops(2, 1, "float64") is linear_loops(2, 1, "float64")
    assert module._TINY.keys() == {"float32", "float64"}
