"""Training, validation and test nodes: the recipes of the benchmarks, and one for a user's own table.

Every recipe draws with Python's ``random``, whose shuffle is the same on every platform and version, so a seed
names a split for good.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Three disjoint masks over all nodes, and how they were made."""

    train_mask: BoolArray
    val_mask: BoolArray
    test_mask: BoolArray
    recipe: str


def split_by_class(y: npt.NDArray[Any], *, seed: int, train_cap_per_class: int) -> Split:
    """The recipe of German, Bail and Credit: each class is shuffled and cut on its own.

    Of each class the first half trains, but no more than ``train_cap_per_class`` nodes; the third quarter
    validates and the last quarter tests.
    """
    chance = random.Random(seed)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    # All classes are drawn from one stream, in order of class: part of the published recipe.
    for label in sorted({int(value) for value in y if value >= 0}):
        members = np.flatnonzero(y == label).tolist()
        chance.shuffle(members)
        _cut(members, parts, train_cap_per_class)
    return _split(
        len(y), parts, f"per class 50/25/25 %, at most {train_cap_per_class} training nodes a class, seed {seed}"
    )


def split_labelled(y: npt.NDArray[Any], *, seed: int, train_cap: int, test_known: BoolArray | None = None) -> Split:
    """The recipe of Pokec and NBA: all labelled nodes are shuffled together.

    Args:
        y: Class of each node, -1 where unlabelled.
        seed: Names the split.
        train_cap: Training nodes at most.
        test_known: Where given, nodes outside it are taken out of the test part (the published recipe tests
            only where the sensitive attribute is known, and validates everywhere).
    """
    labelled = np.flatnonzero(y >= 0).tolist()
    random.Random(seed).shuffle(labelled)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    _cut(labelled, parts, train_cap)
    if test_known is not None:
        parts[2][:] = [node for node in parts[2] if test_known[node]]
    tested = "" if test_known is None else ", tested where the sensitive value is known"
    return _split(
        len(y), parts, f"all labelled nodes 50/25/25 %, at most {train_cap} training nodes{tested}, seed {seed}"
    )


def split_fractions(y: npt.NDArray[Any], *, train: float, val: float, seed: int) -> Split:
    """A split of the labelled nodes that keeps the class shares; what is left after train and val tests.

    Raises:
        DataError: Fractions outside (0, 1), nothing left to test on, or a part that would stay empty.
    """
    for name, fraction in (("train", train), ("val", val)):
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
            raise DataError(f"split fraction {name} = {fraction!r}; expected a number between 0 and 1, such as 0.5.")
    if train + val >= 1:
        raise DataError(
            f"split fractions train = {train} and val = {val} leave nothing to test on; "
            "expected a sum below 1, such as 0.5 and 0.25."
        )
    chance = random.Random(seed)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in sorted({int(value) for value in np.unique(y) if value >= 0}):
        members = np.flatnonzero(y == label).tolist()
        chance.shuffle(members)
        first, second = round(train * len(members)), round((train + val) * len(members))
        for part, chosen in zip(parts, (members[:first], members[first:second], members[second:]), strict=True):
            part.extend(chosen)
    for part, name in zip(parts, ("training", "validation", "test"), strict=True):
        if not part:
            raise DataError(
                f"the {name} part of the split is empty: {int((y >= 0).sum())} labelled nodes with train = {train}, "
                f"val = {val}; expected at least one node in each part. Label more nodes or change the fractions."
            )
    rest = round(1 - train - val, 10)
    return _split(len(y), parts, f"per class {train:g}/{val:g}/{rest:g} of the labelled nodes, seed {seed}")


def _cut(members: list[int], parts: tuple[list[int], list[int], list[int]], train_cap: int) -> None:
    half, three_quarters = int(0.5 * len(members)), int(0.75 * len(members))
    parts[0].extend(members[: min(half, train_cap)])
    parts[1].extend(members[half:three_quarters])
    parts[2].extend(members[three_quarters:])


def _split(num_nodes: int, parts: tuple[list[int], list[int], list[int]], recipe: str) -> Split:
    train_mask, val_mask, test_mask = (np.zeros(num_nodes, dtype=bool) for _ in parts)
    for mask, part in zip((train_mask, val_mask, test_mask), parts, strict=True):
        mask[part] = True
    return Split(train_mask, val_mask, test_mask, recipe)
