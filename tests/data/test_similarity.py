from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairsad.data import similarity
from fairsad.data.similarity import similarity_edges
from fairsad.errors import DataError


def brute_force(features: npt.NDArray[np.float64], threshold: float) -> set[tuple[int, int]]:
    """The definition, one pair at a time."""
    count = len(features)
    similar = [
        [1.0 / (1.0 + np.sqrt(np.sum((features[i] - features[j]) ** 2))) for j in range(count)] for i in range(count)
    ]
    return {
        (i, j)
        for i in range(count)
        for j in range(count)
        if i != j and similar[i][j] > threshold * max(similar[i][k] for k in range(count) if k != i)
    }


def pairs(edges: npt.NDArray[np.int64]) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in edges.T}


# Few different values, so that ties and duplicate rows are the rule; and any values, so that scales differ wildly.
TABLES = st.one_of(
    arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.integers(0, 3).map(float)),
    arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 3)),
        elements=st.floats(-1e6, 1e6, allow_nan=False, width=32),
    ),
)


@given(features=TABLES, threshold=st.sampled_from([0.25, 0.5, 0.6, 0.75, 0.8, 0.99]))
@settings(deadline=None)
def test_the_links_are_those_of_the_definition(features: npt.NDArray[np.float64], threshold: float) -> None:
    assert pairs(similarity_edges(features, threshold)) == brute_force(features, threshold)


@pytest.mark.parametrize("block", [1, 7, 40 * 5, 1 << 22])
def test_the_links_do_not_depend_on_the_block(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).integers(0, 4, (40, 3)).astype(float)
    monkeypatch.setattr(similarity, "_BLOCK", block)
    monkeypatch.setattr(similarity, "_PAIRS", 5)
    assert pairs(similarity_edges(features, 0.5)) == brute_force(features, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_close_rows_far_from_each_other_s_cluster_are_told_apart(seed: int) -> None:
    # Two clusters 1e8 apart: squares are near 1e16, so the matrix product alone errs by more than the distances.
    chance = np.random.default_rng(seed)
    features = chance.normal(size=(30, 3)) + 1e8 * np.repeat([[-1.0], [1.0]], 15, axis=0)
    assert pairs(similarity_edges(features, 0.8)) == brute_force(features, 0.8)


def test_a_nearest_neighbour_closer_than_the_rounding_error_costs_no_link() -> None:
    # Squares near 1e8 err by 1e-8, the squared distance of the nearest, whose root decides where the last link is.
    chance, threshold, nearest = np.random.default_rng(0), 0.8, 1e-4
    last = (1 + nearest) / threshold - 1
    start = chance.choice([-1e4, 1e4], 60)[:, None] + 10 * np.arange(60)[:, None]
    features = np.concatenate([start, start + nearest, start - (last - 1e-5)])
    expected = brute_force(features, threshold)
    assert {(i, i + 120) for i in range(60)} <= expected
    assert pairs(similarity_edges(features, threshold)) == expected


def test_a_tie_at_the_threshold_is_not_a_link() -> None:
    # Nearest at 0: similarity 1. At distance 1 it is 1/2, exactly the threshold, and "greater" is asked for.
    features = [[0.0], [0.0], [1.0]]
    assert pairs(similarity_edges(features, 0.5)) == {(0, 1), (1, 0), (2, 0), (2, 1)}
    assert (0, 2) in pairs(similarity_edges(features, 0.49))


def test_an_outlier_keeps_its_nearest_neighbour() -> None:
    edges = pairs(similarity_edges([[0.0], [0.1], [1000.0]], 0.99999))
    assert {(i, j) for i, j in edges if i == 2} == {(2, 1)}


def test_rows_are_sorted_and_of_the_right_type() -> None:
    edges = similarity_edges(np.random.default_rng(1).normal(size=(50, 4)), 0.8)
    assert edges.dtype == np.int64
    keys = edges[0] * 50 + edges[1]
    assert (np.diff(keys) > 0).all()


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_rows_have_no_links(count: int) -> None:
    assert similarity_edges(np.ones((count, 2)), 0.5).shape == (2, 0)


def test_progress_ends_with_all_rows_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_BLOCK", 30)
    seen: list[tuple[int, int]] = []
    similarity_edges(np.arange(10.0)[:, None], 0.5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 10), (6, 10), (9, 10), (10, 10)]


def test_memory_stays_far_below_the_square_of_the_rows() -> None:
    features = np.random.default_rng(2).normal(size=(6000, 5))
    tracemalloc.start()
    similarity_edges(features, 0.9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6000 * 6000 * 8 / 5


@pytest.mark.parametrize(
    ("features", "threshold", "message"),
    [
        ([["a"], ["b"]], 0.5, "not all numbers"),
        ([1.0, 2.0], 0.5, r"shape \(2,\)"),
        (np.empty((3, 0)), 0.5, r"shape \(3, 0\)"),
        ([[1.0], [np.nan]], 0.5, "not finite"),
        ([[1.0], [np.inf]], 0.5, "not finite"),
        ([[1.0], [1e200]], 0.5, "beyond 1e150"),
        ([[1.0], [2.0]], "high", "threshold 'high'"),
        ([[1.0], [2.0]], True, "threshold True"),
        ([[1.0], [2.0]], 0.0, "threshold 0.0"),
        ([[1.0], [2.0]], 1, "threshold 1"),
        ([[1.0], [2.0]], float("nan"), "threshold nan"),
    ],
)
def test_what_cannot_be_compared_is_said_so(features: Any, threshold: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        similarity_edges(features, threshold)


def test_a_table_whose_rows_are_all_alike_is_stopped() -> None:
    with pytest.raises(DataError, match=r"100 rows 9900 links; expected at most 5000 .* Raise the threshold"):
        similarity_edges(np.zeros((100, 2)), 0.8, max_edges=5000)


def published_edges(path: Path) -> npt.NDArray[np.int64]:
    import pandas as pd

    rows = pd.read_csv(path, sep=" ", header=None).to_numpy().astype(np.int64)
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))].T


@pytest.mark.parametrize(
    ("name", "dropped", "threshold", "count"),
    [
        ("bail", ["RECID"], 0.6, 403977),
        ("credit", ["NoDefaultNextMonth", "Single"], 0.7, 200526),
    ],
)
def test_the_published_edges_row_for_row(
    name: str, dropped: list[str], threshold: float, count: int, published: Path
) -> None:
    import pandas as pd

    nodes = pd.read_csv(published / name / f"{name}.csv").drop(columns=dropped)
    expected = published_edges(published / name / f"{name}_edges.txt")
    edges = similarity_edges(nodes.to_numpy(dtype=np.float64), threshold)
    assert edges.shape == (2, count)
    np.testing.assert_array_equal(edges, expected)
