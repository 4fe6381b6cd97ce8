"""The compiled loops on arrays; what they mean is tested in tests/kernels/test_ranksums.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairsad.kernels.compiled import run
from fairsad.kernels.compiled.ranksums import cross_loop, gradient_loop, rank_loop
from tests.judges import signed_distances


def rank(columns: Any) -> dict[str, Any]:
    shape = columns.shape
    arrays = {
        "order": np.empty(shape, np.int32),
        "values": np.empty(shape),
        "first": np.empty(shape, np.int32),
        "last": np.empty(shape, np.int32),
        "distance_sums": np.empty(shape),
    }
    records = np.empty((*shape, 2))
    patterns = columns.view(f"uint{8 * columns.itemsize}")
    run(
        rank_loop(columns.dtype.name), columns.size, columns, patterns, *arrays.values(), records, records.view("int64")
    )
    return arrays | {"records": records}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sorting_is_stable_and_knows_its_runs(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    columns = np.stack([rng.normal(size=700), rng.integers(-3, 4, 700), np.zeros(700), rng.normal(size=700) * 1e-30])
    columns[1, 5] = -0.0
    columns[0, :4] = [np.inf, -np.inf, 1e30, -1e30]
    columns = columns.astype(dtype)
    ranked = rank(columns)
    for column, order, values, first, last in zip(
        columns, *(ranked[name] for name in ("order", "values", "first", "last")), strict=True
    ):
        assert order.tolist() == np.argsort(column, kind="stable").tolist()
        ordered = column[order].astype(np.float64)
        np.testing.assert_array_equal(values, ordered - ordered[350])
        assert first.tolist() == np.searchsorted(column[order], column[order], "left").tolist()
        assert last.tolist() == np.searchsorted(column[order], column[order], "right").tolist()


def test_records_tell_value_run_and_place_of_each_row() -> None:
    columns = np.array([[2.0, -1.0, 2.0, 0.5]])
    records = rank(columns)["records"]
    assert records[0, :, 0].tolist() == [0.0, -3.0, 0.0, -1.5]  # shifted by the upper median, 2
    places = records.view("int64")[0, :, 1]
    assert (places >> 32).tolist() == [2, 0, 2, 1]
    assert (places & 0xFFFFFFFF).tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize("num_rows", [1, 6, 2048, 2049, 4500])
@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_vectors_of_pairs_in_the_order_of_their_own_columns(num_rows: int, num_workers: int) -> None:
    rng = np.random.default_rng(num_rows)
    columns = np.round(rng.normal(size=(3, num_rows)), 2)
    ranked = rank(columns)
    pairs = np.array([[0, 1], [2, 0], [1, 1]])
    sums, products = np.empty((3, 2, num_rows)), np.empty(3)
    common = [ranked[name] for name in ("order", "values", "first", "last")]
    records = (ranked["records"], ranked["records"].view("int64"))
    run(cross_loop(), 10**9, pairs, *common, *records, num_workers, sums, products)
    for (x, y), (to_x, to_y), product in zip(pairs, sums, products, strict=True):
        expected = signed_distances(columns[x], columns[y])
        np.testing.assert_allclose(to_x, expected[ranked["order"][x]], rtol=0, atol=1e-9)
        np.testing.assert_allclose(
            to_y, signed_distances(columns[y], columns[x])[ranked["order"][y]], rtol=0, atol=1e-9
        )
        assert product == pytest.approx((columns[x] * expected).sum(), rel=1e-10, abs=1e-9)

    kept_nothing = np.empty(3)
    run(cross_loop(), 10**9, pairs, *common, *records, num_workers, np.empty((0, 2, num_rows)), kept_nothing)
    assert kept_nothing.tolist() == products.tolist()


def test_gradient_of_sums_of_distances() -> None:
    columns = np.array([[3.0, 1.0, 3.0, 0.0]])
    ranked = rank(columns)
    weights = np.array([[1.0, 10.0, 100.0, 1000.0]])
    gradient = np.empty((1, 4))
    common = [ranked[name] for name in ("order", "values", "first", "last")]
    nothing = (np.empty((0, 2, 4)), np.empty(0), np.zeros(1))
    run(gradient_loop("float64"), 4, np.empty((0, 2), np.int64), *common, *nothing, weights, gradient)
    # row 0 is farther right than rows 1 and 3 and level with row 2: (1 + 10) + (1 + 1000)
    assert gradient[0].tolist() == [11 + 1001, -11 - 110 + 1010, 110 + 1100, -1001 - 1010 - 1100]
