from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fairsad import datasets
from fairsad.datasets import page
from fairsad.datasets.base import Counts
from fairsad.datasets.german import CARD

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


@pytest.mark.usefixtures("published")
def test_the_documentation_is_what_the_data_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page.markdown(datasets.names()), (
        f"docs/datasets.md is out of date; write it again with '{page.COMMAND} > docs/datasets.md'"
    )


def test_a_loaded_dataset_is_measured() -> None:
    measured = page.statistics("german")
    assert measured.counts == CARD.counts
    assert measured.parts is not None
    assert measured.parts["test"] == page.Part(250, (156, 94), (119, 56))


def test_a_dataset_without_published_counts_is_not_loaded_and_marked() -> None:
    measured = page.statistics("pokec-z")
    assert measured.parts is None
    text = page.markdown(["german", "pokec-z"])
    assert "| pokec-z * | 67,796 | 277 | 617,958 |" in text
    assert "| german | 1,000 | 27 | 21,742 |" in text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("german", "half of the 44,484 entries of A + I"),
        ("bail", "half of the 642,616 entries of A + I"),
        ("credit", "half of the 304,754 entries of A + I would be 152,377"),
        ("pokec-z", "the same count"),
        ("pokec-n", "66,569 self-loops"),
        ("nba", "not in the paper"),
    ],
)
def test_the_edge_counts_of_the_paper_are_explained(name: str, reason: str) -> None:
    card = datasets.get(name).card
    assert reason in page.Statistics(card, card.counts, None).paper_edges_reason


def test_a_reason_is_given_only_where_it_fits() -> None:
    card = replace(CARD, paper=Counts(nodes=1000, edges=22243, features=27))
    assert "cannot be had" in page.Statistics(card, card.counts, None).paper_edges_reason


def test_what_predicting_class_1_for_everyone_scores() -> None:
    row = next(line for line in page.markdown(["german"]).splitlines() if line.startswith("| german | 100"))
    assert row.endswith("| 70.00 | 82.35 |")
