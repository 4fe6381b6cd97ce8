"""What a model predicted, and for whom: the validated columns that every evaluation starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.evaluation.rates import FloatArray, GroupCounts, IntArray, as_codes, resolve_positive
from fairsad.groups import Groups, intersect

Partition = Groups | npt.ArrayLike


@dataclass(frozen=True, eq=False)
class Predictions:
    """Labels, predictions and groups of the same rows, with the names of classes and groups.

    Attributes:
        labels: int64 [n], -1 where unknown.
        predictions: int64 [n], -1 where there is none.
        partitions: The groups by each sensitive attribute, and by all of them together where that was asked for.
        scores: float64 [n] (of the positive class) or [n, classes]; NaN where there is none. None without scores.
        class_names: One name per class.
        positive: Code of the positive class; None to take each class against the rest.
    """

    labels: IntArray
    predictions: IntArray
    partitions: dict[str, Groups]
    scores: FloatArray | None
    class_names: tuple[str, ...]
    positive: int | None

    @classmethod
    def build(
        cls,
        labels: npt.ArrayLike,
        predictions: npt.ArrayLike,
        sensitive: Mapping[str, Partition],
        scores: npt.ArrayLike | None = None,
        *,
        class_names: Sequence[str] | None = None,
        positive: int | None = None,
        intersection: bool = True,
    ) -> Predictions:
        """Check the columns and bring them into one form.

        Args:
            labels: Integer codes [n], -1 where unknown.
            predictions: Integer codes [n], -1 where there is none.
            sensitive: For each attribute its :class:`~fairsad.groups.Groups`, or integer codes with -1 for unknown.
            scores: [n], higher meaning more likely positive, or [n, classes].
            class_names: One name per class (default: the codes).
            positive: Code of the positive class (default: 1 of two classes, otherwise none).
            intersection: Whether several attributes are also combined into one partition.

        Raises:
            DataError: If columns do not fit together.
        """
        groups = {name: _as_groups(name, partition) for name, partition in sensitive.items()}
        if intersection and len(groups) > 1:
            values = [
                [group.removeprefix(f"{name}=") for group in partition.names] for name, partition in groups.items()
            ]
            columns = [partition.codes for partition in groups.values()]
            groups[" × ".join(groups)] = intersect(columns, list(groups), values)
        for name, partition in groups.items():
            GroupCounts.from_codes(labels, predictions, partition, class_names)  # explains any column that does not fit
            if not len(partition):
                raise DataError(f"attribute '{name}' has no groups; expected at least one known value. Leave it out.")
        counts = GroupCounts.from_codes(labels, predictions, None, class_names)
        positive = resolve_positive(positive, counts.class_names)
        return cls(
            as_codes(labels, "labels"),
            as_codes(predictions, "predictions"),
            groups,
            None if scores is None else _as_scores(scores, counts, len(np.asarray(labels)), positive),
            counts.class_names,
            positive,
        )

    @property
    def targets(self) -> tuple[int, ...]:
        """The classes that rates are taken for: the positive one, or each in turn."""
        return tuple(range(len(self.class_names))) if self.positive is None else (self.positive,)

    def counts(self, attribute: str | None = None) -> GroupCounts:
        """Counts by the groups of an attribute, or of all rows as one group."""
        groups = None if attribute is None else self.partitions[attribute]
        return GroupCounts.from_codes(self.labels, self.predictions, groups, self.class_names)

    def scores_of(self, target: int) -> FloatArray:
        """The scores of one class.

        Raises:
            DataError: If there are no scores.
        """
        if self.scores is None:
            raise DataError("there are no scores; expected one number per row. Pass scores=...")
        return self.scores if self.scores.ndim == 1 else self.scores[:, target]

    def on_same_nodes_as(self, other: Predictions) -> bool:
        """Whether the labels and the groups agree row by row, as they must for a paired comparison."""
        return (
            self.class_names == other.class_names
            and self.positive == other.positive
            and np.array_equal(self.labels, other.labels)
            and self.partitions.keys() == other.partitions.keys()
            and all(
                partition.names == other.partitions[name].names
                and np.array_equal(partition.codes, other.partitions[name].codes)
                for name, partition in self.partitions.items()
            )
        )


def _as_groups(name: str, partition: Partition) -> Groups:
    if isinstance(partition, Groups):
        return partition
    codes = as_codes(partition, f"the values of attribute '{name}'")
    return Groups(codes, tuple(f"{name}={code}" for code in range(codes.max(initial=-1) + 1)))


def _as_scores(scores: npt.ArrayLike, counts: GroupCounts, rows: int, positive: int | None) -> FloatArray:
    array = np.asarray(scores)
    num_classes = len(counts.class_names)
    if array.dtype.kind not in "fiub" or array.shape not in ((rows,), (rows, num_classes)):
        raise DataError(
            f"scores are an array of {array.dtype} with shape {array.shape}; expected numbers of shape ({rows},) or "
            f"({rows}, {num_classes}). Pass one score per row, or one per row and class."
        )
    if array.ndim == 1 and positive is None:
        raise DataError(
            f"there is one score per row and there are {num_classes} classes ({', '.join(counts.class_names)}); "
            "expected to know which class the score is of. Pass positive=..., or scores of shape (rows, classes)."
        )
    return array.astype(np.float64)
