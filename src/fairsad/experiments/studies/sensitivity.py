"""How much hangs on the weights α and β."""

from __future__ import annotations

from fairsad.experiments.plan import Row, sweep
from fairsad.experiments.studies import StudyCard

WEIGHTS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0)

CARD = StudyCard(
    name="sensitivity",
    title="Sensitivity of FairSAD to α and β",
    question="How much hangs on the weights of disentanglement (α) and of decorrelation (β)?",
    rows=tuple(sweep(Row("FairSAD", "fairsad"), {"alpha": WEIGHTS, "beta": WEIGHTS})),
    detail=False,
    utility="f1",
)
