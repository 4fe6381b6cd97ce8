"""What is lost without disentanglement, and without the mask."""

from __future__ import annotations

from fairsad.experiments.plan import Row
from fairsad.experiments.studies import StudyCard
from fairsad.methods.fairsad import ABLATIONS


def ablations(*names: str) -> tuple[Row, ...]:
    """FairSAD without some of its parts, and FairSAD."""
    return (*(Row(f"FairSAD {name}", "fairsad", ABLATIONS[name]) for name in names), Row("FairSAD", "fairsad"))


CARD = StudyCard(
    name="ablation",
    title="FairSAD without disentanglement (w/o D) and without its mask (w/o M)",
    question="Which part of FairSAD does what?",
    rows=ablations("w/o D", "w/o M"),
    reference="FairSAD",
)
