from __future__ import annotations

from fairsad.experiments.studies.comparison import CARD
from fairsad.methods.registry import method_class


def test_it_has_both_readings_six_methods_and_two_yardsticks() -> None:
    labels = [row.label for row in CARD.rows]
    assert labels[:6] == ["GCN", "EDITS", "Graphair", "NIFTY", "FairGNN", "FairVGNN"]
    assert labels[6:] == ["FairSAD", "FairSAD (code)", "Constant", "Threshold"]
    for row in CARD.rows:
        assert method_class(row.method)
