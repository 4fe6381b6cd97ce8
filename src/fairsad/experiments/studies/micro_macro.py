"""What is lost without the assigner (micro), and without the losses of independence (macro)."""

from __future__ import annotations

from fairsad.experiments.studies import StudyCard
from fairsad.experiments.studies.ablation import ablations

CARD = StudyCard(
    name="micro-macro",
    title="FairSAD without micro- and without macro-disentanglement",
    question="Does the assigner matter more, or the losses that keep channels independent?",
    rows=ablations("w/o Micro", "w/o Macro"),
    reference="FairSAD",
)
