from __future__ import annotations

from fairsad.experiments.studies.sensitivity import CARD, WEIGHTS


def test_it_is_the_papers_grid() -> None:
    assert WEIGHTS == (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0)
    assert {(row.point["alpha"], row.point["beta"]) for row in CARD.rows} == {(a, b) for a in WEIGHTS for b in WEIGHTS}
    assert all(row.settings == row.point for row in CARD.rows)
    assert CARD.utility == "f1"
    assert not CARD.detail
