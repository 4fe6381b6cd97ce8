"""Utility against gap: each method at several weights of its fairness term, and the GCN that has none."""

from __future__ import annotations

from fairsad.experiments.plan import Row, sweep
from fairsad.experiments.studies import StudyCard

# The one setting of each method that says how much the gap counts.
WEIGHTS = {
    ("FairSAD", "fairsad", "beta"): (0.01, 0.1, 1.0, 5.0, 20.0),
    ("FairGNN", "fairgnn", "alpha"): (0.1, 1.0, 4.0, 20.0, 100.0),
    ("NIFTY", "nifty", "sim_coeff"): (0.2, 0.4, 0.6, 0.8, 0.95),
}


def _rows() -> tuple[Row, ...]:
    rows = [Row("GCN", "gcn"), Row("Constant", "constant"), Row("Threshold", "threshold")]
    for (label, method, setting), values in WEIGHTS.items():
        rows += sweep(Row(label, method), {setting: values})
    return tuple(rows)


CARD = StudyCard(
    name="tradeoff",
    title="Utility against gap",
    question="What utility is left at each size of the gap?",
    rows=_rows(),
    note="Each method with a weight of its fairness term runs at five values of it: FairSAD at β (beta), FairGNN at α "
    "(alpha), NIFTY at λ (sim_coeff). The others are one point.",
    detail=False,
)
