from __future__ import annotations

import random

import numpy as np
import pytest

from fairsad.data.splits import Split, split_by_class, split_fractions, split_labelled
from fairsad.errors import DataError


def disjoint(split: Split) -> bool:
    return bool((split.train_mask.astype(int) + split.val_mask + split.test_mask).max() <= 1)


def test_split_by_class_follows_the_published_recipe_to_the_node() -> None:
    y = np.array([0, 1] * 50 + [1] * 20)
    # the recipe in its own words: seed once, shuffle each class's node numbers in place, cut at 50 and 75 %
    random.seed(20)
    negatives, positives = np.where(y == 0)[0], np.where(y == 1)[0]
    random.shuffle(negatives)
    random.shuffle(positives)
    split = split_by_class(y, seed=20, train_cap_per_class=10)
    assert set(np.flatnonzero(split.train_mask)) == {*negatives[:10], *positives[:10]}
    assert set(np.flatnonzero(split.val_mask)) == {*negatives[25:37], *positives[35:52]}
    assert set(np.flatnonzero(split.test_mask)) == {*negatives[37:], *positives[52:]}
    assert disjoint(split)


def test_split_labelled_leaves_out_the_unlabelled_and_tests_where_groups_are_known() -> None:
    y = np.array([0, 1, -1, 1] * 25)
    known = np.arange(100) % 10 != 0
    split = split_labelled(y, seed=20, train_cap=20, test_known=known)
    assert split.train_mask.sum() == 20
    assert split.val_mask.sum() == int(0.75 * 75) - int(0.5 * 75)
    assert not (split.test_mask & ~known).any()
    assert (split.val_mask & ~known).any()
    assert not ((split.train_mask | split.val_mask | split.test_mask) & (y < 0)).any()
    assert disjoint(split)
    assert split.recipe.endswith("tested where the sensitive value is known, seed 20")
    everyone = split_labelled(y, seed=20, train_cap=20)
    assert (everyone.test_mask & ~known).any()


def test_another_seed_is_another_split_and_the_same_seed_the_same() -> None:
    y = np.array([0, 1] * 100)
    first, again, other = (split_by_class(y, seed=seed, train_cap_per_class=50) for seed in (20, 20, 21))
    assert (first.train_mask == again.train_mask).all()
    assert (first.train_mask != other.train_mask).any()
    assert "seed 21" in other.recipe


def test_fractions_keep_class_shares() -> None:
    y = np.array([0] * 80 + [1] * 20 + [-1] * 50)
    split = split_fractions(y, train=0.5, val=0.25, seed=3)
    assert [int(mask.sum()) for mask in (split.train_mask, split.val_mask, split.test_mask)] == [50, 25, 25]
    assert [int(y[mask].sum()) for mask in (split.train_mask, split.val_mask, split.test_mask)] == [10, 5, 5]
    assert disjoint(split)
    assert split.recipe == "per class 0.5/0.25/0.25 of the labelled nodes, seed 3"


@pytest.mark.parametrize(
    ("train", "val", "message"),
    [
        (0.8, 0.2, "leave nothing to test on"),
        (0.0, 0.2, "train = 0.0; expected a number between 0 and 1"),
        ("half", 0.2, "train = 'half'; expected a number"),
        (True, 0.2, "train = True; expected a number"),
        (0.5, 1.5, "val = 1.5; expected a number between"),
    ],
)
def test_fractions_that_make_no_split(train: float, val: float, message: str) -> None:
    with pytest.raises(DataError, match=message):
        split_fractions(np.array([0, 1] * 10), train=train, val=val, seed=0)


def test_a_part_that_would_stay_empty_is_an_error() -> None:
    with pytest.raises(DataError, match="the validation part of the split is empty: 6 labelled nodes"):
        split_fractions(np.array([0, 1, -1, 0, 1, 0, 1]), train=0.5, val=0.01, seed=0)
