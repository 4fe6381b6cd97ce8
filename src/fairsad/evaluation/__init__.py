"""Numbers one can trust: counts, rates, gaps, intervals, and what there is to say about them.

Importing this needs numpy alone; scipy and pandas are imported where they are used, and torch by nothing but
``fairsad.evaluation.probe``, which looks into a model.
"""

from __future__ import annotations

from fairsad.evaluation.audit import audit
from fairsad.evaluation.compare import Comparison, compare, pareto_front
from fairsad.evaluation.evaluate import Evaluation, evaluate_predictions
from fairsad.evaluation.intervals import Estimate, Interval, bootstrap, estimate_gap, mean_interval, mean_std
from fairsad.evaluation.pairing import hierarchical_bootstrap, paired_difference
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import GroupCounts, Value, constant_baseline, measure, register_metric
from fairsad.evaluation.scores import register_score_metric
from fairsad.evaluation.verdict import Finding, verdict

__all__ = [
    "Comparison",
    "Estimate",
    "Evaluation",
    "Finding",
    "GroupCounts",
    "Interval",
    "Predictions",
    "Value",
    "audit",
    "bootstrap",
    "compare",
    "constant_baseline",
    "estimate_gap",
    "evaluate_predictions",
    "hierarchical_bootstrap",
    "mean_interval",
    "mean_std",
    "measure",
    "paired_difference",
    "pareto_front",
    "register_metric",
    "register_score_metric",
    "verdict",
]
