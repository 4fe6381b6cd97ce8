"""Groups as a table: several sensitive attributes, their values, and the intersections.

Needs numpy only, so that the evaluation of somebody else's predictions never has to import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

UNKNOWN = -1

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """A partition of nodes: ``codes[i]`` is the group of node i, -1 where it is unknown.

    Attributes:
        codes: int64 [n], in 0..len(names)-1, or -1.
        names: One name per group, such as ``"gender=Female & age=young"``.
    """

    codes: IntArray
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def select(self, rows: npt.NDArray[Any]) -> Groups:
        """The same groups, of some of the rows: a boolean mask or row numbers."""
        return Groups(self.codes[rows], self.names)


def intersect(
    columns: Sequence[npt.NDArray[np.integer]],
    attribute_names: Sequence[str],
    value_names: Sequence[Sequence[str]],
) -> Groups:
    """Combine attributes into one partition: every combination of values is a group, the last varying fastest.

    A node with an unknown value in any attribute has an unknown group. Combinations nobody has keep their
    number, so that two graphs of one population agree on what a group number means.

    Example:
        >>> sex, age = np.array([0, 1, -1]), np.array([1, 0, 0])
        >>> groups = intersect([sex, age], ["sex", "age"], [["f", "m"], ["old", "young"]])
        >>> groups.codes.tolist()
        [1, 2, -1]
        >>> groups.names[2]
        'sex=m & age=old'
    """
    codes = np.zeros(len(columns[0]) if columns else 0, dtype=np.int64)
    known = np.ones(codes.shape, dtype=bool)
    names: list[str] = [""]
    for column, attribute, values in zip(columns, attribute_names, value_names, strict=True):
        known &= column >= 0
        codes = codes * len(values) + column
        names = [
            f"{name} & {attribute}={value}" if name else f"{attribute}={value}" for name in names for value in values
        ]
    codes[~known] = UNKNOWN
    return Groups(codes, tuple(names))
