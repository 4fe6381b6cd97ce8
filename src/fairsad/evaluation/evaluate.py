"""The evaluation of one set of predictions: utility, groups, gaps, intervals, and what there is to say about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fairsad.evaluation.intervals import (
    Estimate,
    bootstrap_estimates,
    check_level,
    estimate_gap,
    mean_estimate,
    wilson_interval,
)
from fairsad.evaluation.predictions import Partition, Predictions
from fairsad.evaluation.rates import (
    RATES,
    ConstantBaseline,
    FloatArray,
    GroupCounts,
    constant_baseline,
    count_metrics,
    measure,
    measure_rate,
)
from fairsad.evaluation.scores import BoolArray, Calibration, calibration, score_metrics
from fairsad.evaluation.verdict import Finding, verdict
from fairsad.groups import Groups

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "fairsad.evaluation/1"
Kind = Literal["utility", "gap"]


@dataclass(frozen=True)
class Settings:
    """How intervals are made.

    Attributes:
        intervals: Whether they are.
        level: Confidence level.
        num_draws: Bootstrap draws, where there is no formula.
        seed: Seed of the draws.
        num_bins: Bins of the reliability tables.
    """

    intervals: bool = True
    level: float = 0.95
    num_draws: int = 10_000
    seed: int = 0
    num_bins: int = 10

    def __post_init__(self) -> None:
        check_level(self.level)


@dataclass(frozen=True)
class GroupRow:
    """One group of the table.

    Attributes:
        name: Name of the group.
        rows: Rows that are counted.
        label_counts: Rows by label.
        prediction_counts: Rows by prediction.
        metrics: Utility within the group, by metric.
        rates: For each class that is taken as positive, the rates with their cases' Wilson intervals.
        calibration: For each of those classes the reliability of its scores; empty without scores.
    """

    name: str
    rows: int
    label_counts: dict[str, int]
    prediction_counts: dict[str, int]
    metrics: dict[str, Estimate]
    rates: dict[str, dict[str, Estimate]]
    calibration: dict[str, Calibration]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "name": self.name,
            "rows": self.rows,
            "label_counts": self.label_counts,
            "prediction_counts": self.prediction_counts,
            "metrics": _dicts(self.metrics),
            "rates": {name: _dicts(rates) for name, rates in self.rates.items()},
            "calibration": _dicts(self.calibration),
        }


@dataclass(frozen=True)
class AttributeEvaluation:
    """The groups of one sensitive attribute (or of an intersection) and the gaps between them.

    Attributes:
        name: Name of the attribute.
        counts: The counts behind all of it.
        groups: One row per group.
        gaps: By metric; of more than two classes without a positive one, the mean over the classes.
        gaps_by_class: In that case also each class against the rest: by class, then by metric.
        constant: What the constant predictor scores on the rows with known group, gaps included.
    """

    name: str
    counts: GroupCounts
    groups: tuple[GroupRow, ...]
    gaps: dict[str, Estimate]
    gaps_by_class: dict[str, dict[str, Estimate]]
    constant: ConstantBaseline

    @property
    def coverage(self) -> float:
        """Share of the rows with label and prediction whose group is known."""
        return self.counts.group_coverage

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "coverage": None if np.isnan(self.coverage) else self.coverage,
            "unknown_group": self.counts.unknown_group,
            "groups": [group.to_dict() for group in self.groups],
            "gaps": _dicts(self.gaps),
            "gaps_by_class": {name: _dicts(gaps) for name, gaps in self.gaps_by_class.items()},
            "constant": self.constant.to_dict(),
        }


@dataclass(frozen=True)
class Evaluation:
    """Everything that is known about one set of predictions.

    Attributes:
        predictions: What was evaluated.
        counts: All rows with label and prediction, as one group.
        overall: Utility by metric.
        by_class: Of more than two classes without a positive one, the utility of each class against the rest.
        calibration: For each class that is taken as positive the reliability of its scores; empty without scores.
        constant: What always giving the most frequent label would score.
        attributes: By sensitive attribute, the intersection last.
        unscored: Rows with a label but no score, which metrics on scores leave out.
        settings: How intervals were made.
        notes: What the reader should know about how the columns were read.
        findings: What there is to say about the numbers, the gravest first.
    """

    predictions: Predictions = field(repr=False)
    counts: GroupCounts
    overall: dict[str, Estimate]
    by_class: dict[str, dict[str, Estimate]]
    calibration: dict[str, Calibration] = field(repr=False)
    constant: ConstantBaseline
    attributes: dict[str, AttributeEvaluation]
    unscored: int
    settings: Settings
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def positive(self) -> str | None:
        """Name of the positive class, if there is one."""
        positive = self.predictions.positive
        return None if positive is None else self.predictions.class_names[positive]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: every undefined number is null and has its reason beside it."""
        settings = self.settings
        return {
            "schema": SCHEMA,
            "rows": {
                "counted": self.counts.num_rows,
                "unknown_label": self.counts.unknown_label,
                "unknown_prediction": self.counts.unknown_prediction,
                "unscored": self.unscored,
                "coverage": None if np.isnan(self.counts.coverage) else self.counts.coverage,
            },
            "classes": list(self.predictions.class_names),
            "positive": self.positive,
            "settings": {
                "intervals": settings.intervals,
                "level": settings.level,
                "num_draws": settings.num_draws,
                "seed": settings.seed,
            },
            "overall": _dicts(self.overall),
            "by_class": {name: _dicts(values) for name, values in self.by_class.items()},
            "calibration": _dicts(self.calibration),
            "constant": self.constant.to_dict(),
            "attributes": _dicts(self.attributes),
            "notes": list(self.notes),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per number: where it belongs, its value, interval, cases and reason."""
        from fairsad.evaluation.tables import evaluation_frame

        return evaluation_frame(self)

    def to_markdown(self) -> str:
        """The whole evaluation as Markdown."""
        from fairsad.evaluation.tables import evaluation_markdown

        return evaluation_markdown(self)


def evaluate_predictions(
    labels: npt.ArrayLike,
    predictions: npt.ArrayLike,
    sensitive: Mapping[str, Partition],
    scores: npt.ArrayLike | None = None,
    *,
    class_names: Sequence[str] | None = None,
    positive: int | None = None,
    intersection: bool = True,
    intervals: bool = True,
    level: float = 0.95,
    num_draws: int = 10_000,
    seed: int = 0,
    reference: Evaluation | None = None,
    notes: Sequence[str] = (),
) -> Evaluation:
    """Evaluate predictions from anywhere, given as integer codes.

    Args:
        labels: Integer codes [n], -1 where unknown.
        predictions: Integer codes [n], -1 where there is none.
        sensitive: For each attribute its :class:`~fairsad.groups.Groups`, or integer codes with -1 for unknown.
        scores: [n], higher meaning more likely positive, or [n, classes]; NaN where there is none.
        class_names: One name per class (default: the codes).
        positive: Code of the positive class (default: 1 of two classes; of more, each against the rest, and the mean).
        intersection: Whether several attributes are also combined into one.
        intervals: Whether to make intervals.
        level: Confidence level.
        num_draws: Bootstrap draws, where there is no formula.
        seed: Seed of the draws.
        reference: Evaluation of an unconstrained model on the same nodes, for the findings.
        notes: What the reader should know about how the columns were read.

    Raises:
        DataError: If columns do not fit together.

    Example:
        >>> evaluation = evaluate_predictions([1, 1, 0, 0], [1, 0, 0, 0], {"sex": [0, 1, 0, 1]})
        >>> evaluation.attributes["sex"].gaps["demographic_parity_gap"].value.value
        0.5
    """
    columns = Predictions.build(
        labels,
        predictions,
        sensitive,
        scores,
        class_names=class_names,
        positive=positive,
        intersection=intersection,
    )
    settings = Settings(intervals, level, num_draws, seed)
    return evaluate(columns, settings, reference=reference, notes=notes)


def evaluate(
    predictions: Predictions,
    settings: Settings | None = None,
    *,
    reference: Evaluation | None = None,
    notes: Sequence[str] = (),
) -> Evaluation:
    """Evaluate columns that were checked already; see :func:`evaluate_predictions`."""
    settings = settings or Settings()
    counts = predictions.counts()
    names = predictions.class_names
    scored = (
        [_Scored.of(predictions, target) for target in predictions.targets] if predictions.scores is not None else []
    )
    each_class = predictions.targets if predictions.positive is None else ()
    evaluation = Evaluation(
        predictions,
        counts,
        _utility(counts, predictions.positive, settings) | _score_estimates(scored, "utility", None, names, settings),
        {
            names[target]: _utility(counts, target, settings, per_class=True)
            | _score_estimates([table for table in scored if table.target == target], "utility", None, names, settings)
            for target in each_class
        },
        {names[table.target]: table.calibration(settings) for table in scored},
        constant_baseline(counts, predictions.positive),
        {
            name: _evaluate_attribute(name, groups, predictions, scored, settings)
            for name, groups in predictions.partitions.items()
        },
        int((predictions.labels >= 0).sum()) - min(len(table.scores) for table in scored) if scored else 0,
        settings,
        tuple(notes),
    )
    return replace(evaluation, findings=verdict(evaluation, reference=reference))


@dataclass(frozen=True, eq=False)
class _Scored:
    """The rows with label and score, for one class against the rest, in order of the score."""

    target: int
    rows: npt.NDArray[np.int64]
    is_positive: BoolArray
    scores: FloatArray

    @classmethod
    def of(cls, predictions: Predictions, target: int) -> _Scored:
        scores = predictions.scores_of(target)
        rows = np.flatnonzero((predictions.labels >= 0) & ~np.isnan(scores))
        # Sorted once here; every group's part is then sorted too.
        rows = rows[np.argsort(scores[rows], kind="stable")]
        return cls(target, rows, predictions.labels[rows] == target, scores[rows])

    def within(self, group: int, groups: Groups) -> _Scored:
        mask = groups.codes[self.rows] == group
        return _Scored(self.target, self.rows[mask], self.is_positive[mask], self.scores[mask])

    def groups(self, groups: Groups | None) -> Groups:
        if groups is None:
            return Groups(np.zeros(len(self.rows), dtype=np.int64), ("all",))
        return Groups(groups.codes[self.rows], groups.names)

    def calibration(self, settings: Settings) -> Calibration:
        return calibration(self.is_positive, self.scores, num_bins=settings.num_bins, level=settings.level)


def _score_estimates(
    scored: Sequence[_Scored], kind: Kind, groups: Groups | None, names: Sequence[str], settings: Settings
) -> dict[str, Estimate]:
    """The metrics on scores, of one class or as the mean over several."""
    estimates = {}
    level = settings.level if len(scored) == 1 else 1 - (1 - settings.level) / max(1, len(scored))
    for metric in score_metrics(kind) if scored else ():
        each = [
            metric.estimate(
                table.is_positive,
                table.scores,
                table.groups(groups),
                level=level,
                intervals=settings.intervals,
                seed=settings.seed,
            )
            for table in scored
        ]
        mean = each[0] if len(each) == 1 else mean_estimate(each, names, settings.level)
        estimates[metric.name] = _with_settings(mean, settings)
    return estimates


def _utility(
    counts: GroupCounts, positive: int | None, settings: Settings, *, per_class: bool = False
) -> dict[str, Estimate]:
    metrics = [metric for metric in count_metrics("utility") if metric.per_class or not per_class]
    if not settings.intervals:
        return {metric.name: Estimate(measure(metric, counts, positive)) for metric in metrics}
    return bootstrap_estimates(
        metrics, counts, positive, level=settings.level, num_draws=settings.num_draws, seed=settings.seed
    )


def _gaps(counts: GroupCounts, positive: int | None, settings: Settings, *, per_class: bool) -> dict[str, Estimate]:
    metrics = [metric for metric in count_metrics("gap") if metric.per_class or not per_class]
    if not settings.intervals:
        return {metric.name: Estimate(measure(metric, counts, positive)) for metric in metrics}
    of_rates = {
        metric.name: estimate_gap(metric, counts, positive, settings.level) for metric in metrics if metric.rates
    }
    others = [metric for metric in metrics if not metric.rates]
    return of_rates | (
        bootstrap_estimates(
            others, counts, positive, level=settings.level, num_draws=settings.num_draws, seed=settings.seed
        )
        if others
        else {}
    )


def _evaluate_attribute(
    name: str, groups: Groups, predictions: Predictions, scored: Sequence[_Scored], settings: Settings
) -> AttributeEvaluation:
    counts = predictions.counts(name)
    class_names = predictions.class_names
    rows = []
    for group, group_name in enumerate(groups.names):
        own = [table.within(group, groups) for table in scored]
        rows.append(
            GroupRow(
                group_name,
                int(counts.counts[group].sum()),
                dict(zip(class_names, counts.label_counts[group].tolist(), strict=True)),
                dict(zip(class_names, counts.prediction_counts[group].tolist(), strict=True)),
                _utility(counts.only(group), predictions.positive, settings)
                | _score_estimates(own, "utility", None, class_names, settings),
                {class_names[target]: _rates(counts, group, target, settings) for target in predictions.targets},
                {class_names[table.target]: table.calibration(settings) for table in own},
            )
        )
    each_class = predictions.targets if predictions.positive is None else ()
    return AttributeEvaluation(
        name,
        counts,
        tuple(rows),
        _gaps(counts, predictions.positive, settings, per_class=False)
        | _score_estimates(scored, "gap", groups, class_names, settings),
        {
            class_names[target]: _gaps(counts, target, settings, per_class=True)
            | _score_estimates([t for t in scored if t.target == target], "gap", groups, class_names, settings)
            for target in each_class
        },
        constant_baseline(counts, predictions.positive),
    )


def _rates(counts: GroupCounts, group: int, positive: int, settings: Settings) -> dict[str, Estimate]:
    """The rates of one group that depend on the class, with Wilson intervals."""
    estimates = {}
    for rate in RATES.values():
        if rate.per_class:
            share = measure_rate(rate, counts, group, positive)
            interval = wilson_interval(share.hits, share.cases, settings.level)
            estimates[rate.name] = _with_settings(Estimate(share, interval), settings)
    return estimates


def _with_settings(estimate: Estimate, settings: Settings) -> Estimate:
    return estimate if settings.intervals else Estimate(estimate.value)


def _dicts(items: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item.to_dict() for name, item in items.items()}
