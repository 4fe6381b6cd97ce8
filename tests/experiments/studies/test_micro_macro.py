from __future__ import annotations

from fairsad.experiments.studies.micro_macro import CARD


def test_micro_is_the_assigner_and_macro_the_losses() -> None:
    micro, macro, whole = CARD.rows
    assert micro.settings == {"use_assigner": False}
    assert macro.settings == {"use_independence": False}
    assert whole.settings == {}
