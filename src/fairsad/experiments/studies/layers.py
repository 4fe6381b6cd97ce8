"""How many layers FairSAD bears."""

from __future__ import annotations

from fairsad.experiments.plan import Row, sweep
from fairsad.experiments.studies import StudyCard

CARD = StudyCard(
    name="layers",
    title="FairSAD with 1 to 5 layers",
    question="What do more layers l do to utility and gaps?",
    rows=tuple(sweep(Row("FairSAD", "fairsad"), {"num_layers": (1, 2, 3, 4, 5)})),
    detail=False,
)
