"""The benchmarks, one per file: each module here that has ``DATASETS`` offers them by name.

A package outside offers its own through the entry point group ``fairsad.datasets``: the entry point's name is the
dataset's, and what it names is a :class:`~fairsad.datasets.base.Dataset`.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from fairsad.datasets.base import SPLIT_SEED, Card, Dataset
from fairsad.errors import DataError

if TYPE_CHECKING:
    from fairsad.graph import FairGraph

__all__ = ["SPLIT_SEED", "Card", "Dataset", "get", "load", "names"]

logger = logging.getLogger(__name__)


def names() -> tuple[str, ...]:
    """The names of all datasets, those of other packages last."""
    return (*_built_in(), *_plugged_in())


def get(name: str) -> Dataset:
    """The dataset of that name, with its card; nothing is read or downloaded.

    Raises:
        DataError: There is none of that name, or the one of another package is not a dataset.
    """
    if name in _built_in():
        return _built_in()[name]
    if name not in _plugged_in():
        raise DataError(
            f"there is no dataset {name!r}; expected one of {', '.join(names())}. "
            "For tables of your own, write a graph card (.toml)."
        )
    entry = _plugged_in()[name]
    dataset = entry.load()
    if not isinstance(dataset, Dataset):
        raise DataError(
            f"the entry point {name} = {entry.value!r} names a {type(dataset).__name__}; expected a "
            "fairsad.datasets.Dataset. Correct it in the package that declares it."
        )
    return dataset


def load(
    name: str, *, split_seed: int = SPLIT_SEED, scale: bool | None = None, offline: bool | None = None
) -> FairGraph:
    """Load a benchmark by name; see :meth:`fairsad.datasets.base.Dataset.load`.

    Example:
        >>> graph = load("german")
        >>> graph.num_nodes, graph.edge_index.size(1) // 2
        (1000, 21742)
    """
    return get(name).load(split_seed=split_seed, scale=scale, offline=offline)


@cache
def _built_in() -> dict[str, Dataset]:
    found: dict[str, Dataset] = {}
    for module in iter_modules(__path__):
        for dataset in getattr(import_module(f"{__name__}.{module.name}"), "DATASETS", ()):
            found[dataset.card.name] = dataset
    return found


@cache
def _plugged_in() -> dict[str, EntryPoint]:
    found = {entry.name: entry for entry in entry_points(group="fairsad.datasets")}
    for name in found.keys() & _built_in().keys():
        logger.warning("%s offers a dataset %r, a name that is taken; it is left out", found.pop(name).value, name)
    return found
