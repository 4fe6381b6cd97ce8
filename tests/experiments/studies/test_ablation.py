from __future__ import annotations

from fairsad.experiments.studies.ablation import CARD, ablations
from fairsad.methods.fairsad import ABLATIONS


def test_each_row_leaves_out_what_it_says() -> None:
    without_d, without_m, whole = CARD.rows
    assert (without_d.label, without_m.label, whole.label) == ("FairSAD w/o D", "FairSAD w/o M", "FairSAD")
    assert without_d.settings == {"num_channels": 1, "use_assigner": False, "use_independence": False}
    assert without_m.settings == {"use_mask": False}
    assert whole.settings == {}


def test_all_ablations_of_the_method_can_be_asked_for() -> None:
    assert len(ablations(*ABLATIONS)) == len(ABLATIONS) + 1
