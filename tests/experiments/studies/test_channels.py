from __future__ import annotations

import pytest

from fairsad import load_graph, make_method
from fairsad.experiments.studies.channels import CARD
from tests.studies import GRAPH


def test_it_is_the_papers_range() -> None:
    assert [row.point["num_channels"] for row in CARD.rows] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("row", CARD.rows, ids=lambda row: f"K={row.point['num_channels']}")
def test_every_number_of_channels_trains(row: object) -> None:
    settings = row.settings  # type: ignore[attr-defined]
    assert make_method("fairsad", epochs=1, **settings).fit(load_graph(GRAPH)).is_fitted
