"""How many channels FairSAD needs."""

from __future__ import annotations

from fairsad.experiments.plan import Row, sweep
from fairsad.experiments.studies import StudyCard

CARD = StudyCard(
    name="channels",
    title="FairSAD with 1 to 16 channels",
    question="How many channels K does FairSAD need?",
    rows=tuple(sweep(Row("FairSAD", "fairsad"), {"num_channels": (1, 2, 4, 8, 16)})),
    detail=False,
)
