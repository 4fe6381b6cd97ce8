"""The big table: FairSAD in both readings, the methods it is compared with, and two yardsticks."""

from __future__ import annotations

from fairsad.experiments.plan import Row
from fairsad.experiments.studies import StudyCard

BASELINES = (
    Row("GCN", "gcn"),
    Row("EDITS", "edits"),
    Row("Graphair", "graphair"),
    Row("NIFTY", "nifty"),
    Row("FairGNN", "fairgnn"),
    Row("FairVGNN", "fairvgnn"),
)
FAIRSAD = (Row("FairSAD", "fairsad"), Row("FairSAD (code)", "fairsad-code"))
YARDSTICKS = (Row("Constant", "constant"), Row("Threshold", "threshold"))

CARD = StudyCard(
    name="comparison",
    title="FairSAD and the methods it is compared with",
    question="How much does each method reduce the gaps between groups, and what does that cost in utility?",
    rows=(*BASELINES, *FAIRSAD, *YARDSTICKS),
    note="Constant always gives the most frequent label; Threshold moves the decision threshold of a GCN group by "
    "group and needs to know everybody's group. A method that does not beat these two has not earned its effort.",
)
