r"""Similarity graphs: links between rows of a table that are nearly as close as the closest row is.

With the similarity of two rows

.. math::
    \mathrm{sim}(i, j) = \frac{1}{1 + \lVert x_i - x_j \rVert_2},

row i is linked to every other row j with sim(i, j) > t · max_{k≠i} sim(i, k). The threshold t is relative to each
row's own nearest neighbour: an outlier keeps its nearest neighbour however far that is, so no node is left alone.
The German, Bail and Credit benchmarks were made this way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

# Distances held at a time: 16 MB, which is small on any machine, and larger blocks are slower.
_BLOCK = 1 << 21
# Candidate pairs whose exact distance is computed at a time.
_PAIRS = 1 << 17


def similarity_edges(
    features: Any,
    threshold: float,
    *,
    max_edges: int = 50_000_000,
    progress: Callable[[int, int], None] | None = None,
) -> IntArray:
    r"""Link every row to the rows that are nearly as similar to it as its nearest neighbour.

    The n × n distances are never held at once: a block of rows at a time, a matrix product gives squared distances up
    to a rounding error that is bounded, and so a superset of the links. Only these pairs are measured exactly,
    :math:`\sqrt{\sum (x_i - x_j)^2}` in float64, and compared; ties and duplicate rows come out the same on every
    machine. Time grows with n², memory with n and the number of links.

    Args:
        features: [n, d] finite numbers. Columns count by their scale, so bring them to comparable scales first.
        threshold: t, between 0 and 1. Higher means fewer links.
        max_edges: Directed links at most, a guard against a table whose rows are all alike.
        progress: Called with the number of rows done and n after each block.

    Returns:
        int64 [2, m], directed i → j and sorted by (i, j); i may be near j's nearest while j is not near i's, so the
        graph in use takes both directions (``FairGraph.build`` does).

    Raises:
        DataError: Features that are not a table of finite numbers, a threshold outside (0, 1), too many links.

    Example:
        >>> similarity_edges([[0.0], [1.0], [10.0]], 0.8).tolist()
        [[0, 1, 2, 2], [1, 0, 0, 1]]
    """
    table = _checked(features)
    _check_threshold(threshold)
    num_rows = len(table)
    if num_rows < 2:
        return np.empty((2, 0), dtype=np.int64)

    # Rounding errors grow with the length of the vectors, which is shortest around the mean.
    centred = table - table.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    # [-2 x_i, 1, |x_i|²] · [x_j, |x_j|², 1] = |x_i - x_j|², so one product does it all.
    left = np.column_stack([-2.0 * centred, np.ones(num_rows), squares])
    right = np.column_stack([centred, squares, np.ones(num_rows)]).T.copy()
    # A dot product of length d + 2 errs by at most (d + 2)/2 eps times the sum of its terms' sizes, which is here at
    # most 2(|x_i|² + |x_j|²); centring, the squares and the exact distance add less. The factor leaves room for all.
    slack = 4.0 * (table.shape[1] + 8) * np.finfo(np.float64).eps * (squares + squares.max())

    kept: list[IntArray] = []
    num_edges = 0
    block_rows = max(1, _BLOCK // num_rows)
    distances = np.empty((block_rows, num_rows))
    for start in range(0, num_rows, block_rows):
        stop = min(start + block_rows, num_rows)
        block = np.matmul(left[start:stop], right, out=distances[: stop - start])
        block[np.arange(stop - start), np.arange(start, stop)] = np.inf
        edges = _block_edges(table, block, start, threshold, slack[start:stop])
        num_edges += edges.shape[1]
        if num_edges > max_edges:
            raise DataError(
                f"similarity threshold {threshold} gives the first {stop} of {num_rows} rows {num_edges} links; "
                f"expected at most {max_edges} in all. Raise the threshold, or add columns that tell the rows apart."
            )
        kept.append(edges)
        if progress is not None:
            progress(stop, num_rows)
    return np.concatenate(kept, axis=1)


def _block_edges(table: FloatArray, block: FloatArray, start: int, threshold: float, slack: FloatArray) -> IntArray:
    """Links of the rows from ``start`` on; ``block`` holds their squared distances, within ``slack``."""
    # sim > t · max sim  ⇔  d < (1 + d_nearest) / t - 1, and what follows is surely no smaller than that d².
    nearest = np.sqrt(np.maximum(block.min(axis=1) + slack, 0.0))
    reach = ((1.0 + nearest) / threshold - 1.0) ** 2 * (1.0 + 1e-12) + slack
    rows, columns = np.divmod(np.flatnonzero(block <= reach[:, None]), block.shape[1])
    similarity = 1.0 / (1.0 + _exact_distances(table, rows + start, columns))
    highest = np.zeros(len(block))
    np.maximum.at(highest, rows, similarity)
    linked = similarity > threshold * highest[rows]
    return np.stack([rows[linked] + start, columns[linked]])


def _exact_distances(table: FloatArray, rows: IntArray, columns: IntArray) -> FloatArray:
    distances = np.empty(len(rows))
    for start in range(0, len(rows), _PAIRS):
        part = slice(start, start + _PAIRS)
        difference = table[rows[part]] - table[columns[part]]
        distances[part] = np.sqrt(np.square(difference).sum(axis=1))
    return distances


def _checked(features: Any) -> FloatArray:
    try:
        table = np.ascontiguousarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "similarity features are not all numbers; expected a table of numbers, a row per node. "
            "Encode text columns first."
        ) from None
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError(
            f"similarity features have shape {table.shape}; expected [rows, columns] with at least one column."
        )
    # Squared distances must stay finite too.
    if not np.isfinite(table).all() or (table.size and np.abs(table).max() > 1e150):
        raise DataError(
            "similarity features hold values that are not finite or beyond 1e150; expected finite numbers. "
            "Fill or drop missing values and bring the columns to comparable scales."
        )
    return table


def _check_threshold(threshold: Any) -> None:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold < 1:
        raise DataError(
            f"similarity threshold {threshold!r}; expected a number between 0 and 1, such as 0.8. "
            "It is the share of the nearest neighbour's similarity that a link needs."
        )
