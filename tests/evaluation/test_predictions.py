from __future__ import annotations

import numpy as np
import pytest

from fairsad.errors import DataError
from fairsad.evaluation.predictions import Predictions
from fairsad.groups import Groups

LABELS, PREDICTIONS = np.array([0, 1, 1, -1]), np.array([0, 1, -1, 1])
SEX = Groups(np.array([0, 1, -1, 0]), ("sex=f", "sex=m"))


def test_attributes_are_kept_and_combined() -> None:
    built = Predictions.build(LABELS, PREDICTIONS, {"sex": SEX, "age": np.array([2, 0, 1, 1])})
    assert list(built.partitions) == ["sex", "age", "sex × age"]
    assert built.partitions["age"].names == ("age=0", "age=1", "age=2")
    both = built.partitions["sex × age"]
    assert both.names[:2] == ("sex=f & age=0", "sex=f & age=1")
    assert both.codes.tolist() == [2, 3, -1, 1]
    assert len(Predictions.build(LABELS, PREDICTIONS, {"sex": SEX, "age": LABELS}, intersection=False).partitions) == 2


def test_counts_book_every_row_once() -> None:
    built = Predictions.build(LABELS, PREDICTIONS, {"sex": SEX})
    counts = built.counts("sex")
    assert (counts.num_rows, counts.unknown_label, counts.unknown_prediction, counts.unknown_group) == (2, 1, 1, 0)
    assert built.counts().group_names == ("all",)


def test_targets_follow_the_number_of_classes() -> None:
    assert Predictions.build([0, 1], [1, 1], {"sex": [0, 1]}).targets == (1,)
    assert Predictions.build([0, 2], [1, 1], {"sex": [0, 1]}).targets == (0, 1, 2)
    assert Predictions.build([0, 2], [1, 1], {"sex": [0, 1]}, positive=2).targets == (2,)


def test_scores_are_of_the_positive_class_or_of_each() -> None:
    single = Predictions.build([0, 1], [1, 1], {"sex": [0, 1]}, [0.2, np.nan])
    assert single.scores_of(1).tolist()[0] == 0.2
    table = np.arange(6.0).reshape(2, 3)
    several = Predictions.build([0, 2], [1, 1], {"sex": [0, 1]}, table)
    assert several.scores_of(2).tolist() == [2.0, 5.0]
    with pytest.raises(DataError, match="there are no scores"):
        Predictions.build([0, 1], [1, 1], {"sex": [0, 1]}).scores_of(1)


@pytest.mark.parametrize(
    ("labels", "sensitive", "scores", "message"),
    [
        ([0, 1], {"sex": [0, 1, 0]}, None, "groups have 3 rows and labels have 2"),
        ([0, 1], {"sex": ["f", "m"]}, None, "the values of attribute 'sex' are an array of <U1"),
        ([0, 1], {"sex": [-1, -1]}, None, "attribute 'sex' has no groups"),
        ([0, 1], {"sex": [0, 1]}, [0.5], r"scores are an array of float64 with shape \(1,\)"),
        ([0, 1], {"sex": [0, 1]}, ["a", "b"], "scores are an array of <U1"),
        ([0, 2], {"sex": [0, 1]}, [0.5, 0.5], "one score per row and there are 3 classes"),
    ],
)
def test_columns_that_do_not_fit_are_explained(
    labels: list[int], sensitive: dict[str, list[int]], scores: list[float] | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Predictions.build(labels, [0, 1], sensitive, scores)


def test_being_on_the_same_nodes_is_about_labels_groups_and_classes() -> None:
    base = Predictions.build(LABELS, PREDICTIONS, {"sex": SEX})
    assert base.on_same_nodes_as(Predictions.build(LABELS, np.array([1, 1, 1, 1]), {"sex": SEX}))
    assert not base.on_same_nodes_as(Predictions.build(LABELS[::-1].copy(), PREDICTIONS, {"sex": SEX}))
    assert not base.on_same_nodes_as(Predictions.build(LABELS, PREDICTIONS, {"gender": SEX}))
    swapped = Groups(SEX.codes, SEX.names[::-1])
    assert not base.on_same_nodes_as(Predictions.build(LABELS, PREDICTIONS, {"sex": swapped}))
    assert not base.on_same_nodes_as(Predictions.build(LABELS, PREDICTIONS, {"sex": SEX}, positive=0))
