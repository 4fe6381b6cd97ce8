from __future__ import annotations

import numpy as np
import pytest

from fairsad import datasets
from fairsad.datasets.base import Counts, counts_of, scale_columns


def test_columns_are_scaled_by_their_minimum_and_maximum() -> None:
    scaled = scale_columns(np.array([[0.0, 5.0, -3.0], [1.0, 5.0, 1.0], [4.0, 5.0, 5.0]]))
    assert scaled.tolist() == [[-1.0, -1.0, -1.0], [-0.5, -1.0, 0.0], [1.0, -1.0, 1.0]]


def test_counts_of_a_graph() -> None:
    graph = datasets.load("german")
    assert counts_of(graph) == Counts(1000, 21742, 27, (300, 700), (690, 310))
    graph.y[:100] = -1
    graph.sensitive[:1000] = -1
    counts = counts_of(graph)
    assert counts.classes is not None
    assert sum(counts.classes) == 900
    assert counts.groups == (0, 0)


@pytest.mark.parametrize("name", datasets.names())
def test_every_card_says_all_there_is_to_say(name: str) -> None:
    card = datasets.get(name).card
    assert card.name == name
    for text in (card.title, card.source, card.licence, card.citation, card.label_meaning, card.sensitive_meaning):
        assert text
    assert len(card.label_names) == len(card.sensitive_values) == 2
    assert not card.title.endswith(".")
    assert not card.source.endswith(".")
    for sentence in (card.licence_note, card.label_meaning, card.sensitive_meaning, card.links, *card.caveats):
        assert sentence.endswith(".")
    for file in card.files:
        assert len(file.urls) >= 2
        assert all(url.startswith("https://") for url in file.urls)


def test_a_graph_declares_that_the_sensitive_column_is_a_feature() -> None:
    graph = datasets.load("german")
    assert graph.sensitive_in_features
    assert graph.sensitive_names == ("Gender",)
    assert graph.sensitive_values == (("Male", "Female"),)
    assert graph.label_names == ("bad risk", "good risk")
