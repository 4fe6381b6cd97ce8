"""The compiled loop on arrays; what it means is tested in tests/kernels/test_adjacency.py."""

from __future__ import annotations

import numpy as np
import pytest

from fairsad.kernels.compiled import run
from fairsad.kernels.compiled.propagation import propagation


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_ends_are_scaled(dtype: str) -> None:
    blocks, row_pointer = np.array([0, 1, 2]), np.array([0, 2, 4])
    column = np.array([0, 1, 0, 1], dtype=np.int32)
    x = np.array([[1.0, 2.0], [10.0, 20.0]], dtype=dtype)
    result = np.empty_like(x)
    run(propagation(dtype), 4, blocks, row_pointer, column, np.array([2.0, 3.0]), x, result)
    assert result.tolist() == [[2 * (2 * 1 + 3 * 10), 2 * (2 * 2 + 3 * 20)], [3 * (2 * 1 + 3 * 10), 3 * (4 + 60)]]
