"""Graphs that are rebuilt from a node table once and kept, so that loading takes a moment from then on."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsad.data.download import cache_folder
from fairsad.data.progress import terminal_progress
from fairsad.data.similarity import similarity_edges
from fairsad.files import whole_file

# Part of every key: raise it when similarity_edges changes what it returns, and old files are no longer used.
RECIPE_VERSION = 1

IntArray = npt.NDArray[np.int64]

logger = logging.getLogger(__name__)


def rebuilt_edges(name: str, features: npt.NDArray[np.float64], threshold: float, *, source_sha256: str) -> IntArray:
    """Similarity edges of a published table, from ``derived`` in the cache folder or rebuilt and kept there.

    A file there that is damaged or belongs to other data is rebuilt; a folder that cannot be written to costs the
    rebuilding every time, with a warning, and nothing else.

    Args:
        name: What the graph is called, first part of the file's name.
        features: [n, d] the table.
        threshold: As :func:`similarity_edges` takes it.
        source_sha256: Hash of the file the table was read from.

    Returns:
        int64 [2, m], directed rows i → j.
    """
    recipe = f"{RECIPE_VERSION} {source_sha256} {features.shape} {threshold!r}"
    key = hashlib.sha256(recipe.encode()).hexdigest()
    path = cache_folder() / "derived" / f"{name}-edges-{key[:16]}.safetensors"
    edges = _read(path, key)
    if edges is None:
        with terminal_progress(f"rebuilding the {name} graph") as report:
            edges = similarity_edges(features, threshold, progress=report)
        _write(path, key, edges)
    return edges


def _read(path: Path, key: str) -> IntArray | None:
    """The kept edges, or ``None`` where there are none that can be trusted."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            edges: IntArray = file.get_tensor("edges").astype(np.int64)
    except (OSError, SafetensorError) as error:
        logger.warning("%s cannot be read (%s); the graph is rebuilt", path, error)
        return None
    if metadata.get("key") != key or metadata.get("sha256") != _digest(edges):
        logger.warning("%s is damaged or belongs to other data; the graph is rebuilt", path)
        return None
    return edges


def _write(path: Path, key: str, edges: IntArray) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        with whole_file(path) as partial:
            save_file({"edges": edges.astype(np.int32)}, partial, metadata={"key": key, "sha256": _digest(edges)})
    except (OSError, SafetensorError) as error:  # safetensors has an error of its own for a full disk
        logger.warning("the rebuilt graph could not be kept in %s: %s", path.parent, error)


def _digest(edges: npt.NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(edges).data).hexdigest()
