from __future__ import annotations

from fairsad import load_graph, make_method
from fairsad.experiments.studies.layers import CARD
from tests.studies import GRAPH


def test_it_is_the_papers_range_and_trains() -> None:
    assert [row.point["num_layers"] for row in CARD.rows] == [1, 2, 3, 4, 5]
    assert make_method("fairsad", epochs=1, **CARD.rows[-1].settings).fit(load_graph(GRAPH)).is_fitted
