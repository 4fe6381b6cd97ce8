"""What there is to say about an evaluation, in plain language, with the evidence and a code for machines.

A finding never says that a model treats groups alike. It says what the numbers cannot show, what they owe to a
predictor that decides nothing, and what a reduced gap was paid with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairsad.evaluation.intervals import Estimate, Interval
from fairsad.evaluation.pairing import PAIRED_SCORE_METRICS, PairedDifference, SharedNodes, paired_differences
from fairsad.evaluation.rates import RATES, Gap, constant_baseline, count_metrics
from fairsad.evaluation.scores import find_metric

if TYPE_CHECKING:
    from fairsad.evaluation.evaluate import AttributeEvaluation, Evaluation

Severity = Literal["problem", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")

# A sentence lists so many items; the evidence has all of them.
LISTED = 4


@dataclass(frozen=True)
class Finding:
    """One thing to know before the numbers are used.

    Attributes:
        code: For machines, such as ``"NEARLY_CONSTANT"``.
        severity: ``"problem"``, ``"warning"`` or ``"note"``.
        sentence: For people, with the numbers.
        evidence: The numbers, JSON-ready.
    """

    code: str
    severity: Severity
    sentence: str
    evidence: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "code": self.code,
            "severity": self.severity,
            "sentence": self.sentence,
            "evidence": self.evidence,
        }


def verdict(
    evaluation: Evaluation,
    *,
    reference: Evaluation | None = None,
    majority_share: float = 0.95,
    few_cases: int = 30,
    min_coverage: float = 0.9,
) -> tuple[Finding, ...]:
    """All findings about an evaluation, the gravest first.

    Args:
        evaluation: What to judge.
        reference: Evaluation of an unconstrained model on the same nodes.
        majority_share: Share of the most frequent prediction from which a predictor counts as nearly constant.
        few_cases: Fewer cases than this in a group that carries a gap are flagged.
        min_coverage: Share of rows with known group below which an attribute is flagged.

    Raises:
        DataError: If the reference is about other nodes.
    """
    findings = [*_nearly_constant(evaluation, majority_share), *_worse_than_constant(evaluation)]
    findings += _undefined_utility(evaluation)
    for attribute in evaluation.attributes.values():
        findings += _low_coverage(attribute, min_coverage)
        findings += _undefined_rates(attribute)
        findings += _few_cases(attribute, few_cases)
        findings += _gap_covers_zero(attribute)
    if reference is not None:
        findings += _against_reference(evaluation, reference)
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def _nearly_constant(evaluation: Evaluation, majority_share: float) -> Iterator[Finding]:
    counts = evaluation.counts
    predicted = counts.prediction_counts.sum(axis=0)
    rows = int(predicted.sum())
    most = int(np.argmax(predicted))
    if not rows or predicted[most] < majority_share * rows:
        return
    share, answer = predicted[most] / rows, counts.class_names[most]
    constant = constant_baseline(counts, evaluation.predictions.positive, prediction=most)
    shown = [name for name in ("f1", "accuracy") if constant.values[name].defined]
    gaps = {
        attribute.name: {name: _number(estimate.value.value) for name, estimate in attribute.gaps.items()}
        for attribute in evaluation.attributes.values()
    }
    always = {
        attribute.name: {
            name: value.to_dict()["value"]
            for name, value in constant_baseline(
                attribute.counts, evaluation.predictions.positive, prediction=most
            ).values.items()
            if name in attribute.gaps
        }
        for attribute in evaluation.attributes.values()
    }
    parity = [
        f"{attribute.gaps['demographic_parity_gap'].value.value:.3f} for {attribute.name}"
        for attribute in evaluation.attributes.values()
        if attribute.gaps["demographic_parity_gap"].value.defined
    ]
    of_model = ", ".join(f"{_title(name)} {evaluation.overall[name].value.value:.3f}" for name in shown)
    of_constant = ", ".join(f"{_title(name)} {constant.values[name].value:.3f}" for name in shown)
    yield Finding(
        "NEARLY_CONSTANT",
        "problem",
        f"{_percent(share)} of the {rows} predictions are '{answer}', so the predictor is nearly constant. Always "
        f"answering '{answer}' scores {of_constant} with a demographic parity gap of 0; the predictor scores {of_model}"
        + (f" with a gap of {_listed(parity)}." if parity else "."),
        {
            "prediction": answer,
            "share": float(share),
            "threshold": majority_share,
            "rows": rows,
            "utility": {name: _number(evaluation.overall[name].value.value) for name in constant.values},
            "constant_utility": {name: value.to_dict()["value"] for name, value in constant.values.items()},
            "gaps": gaps,
            "constant_gaps": always,
        },
    )


def _worse_than_constant(evaluation: Evaluation) -> Iterator[Finding]:
    accuracy, constant = evaluation.overall["accuracy"], evaluation.constant
    if accuracy.value.value < constant.share:
        yield Finding(
            "WORSE_THAN_CONSTANT",
            _certain(accuracy.interval, below=constant.share),
            f"The accuracy is {_with_interval(accuracy)}; always answering '{constant.prediction}' reaches "
            f"{constant.share:.3f}.",
            {"metric": "accuracy", "constant": constant.share, "prediction": constant.prediction} | accuracy.to_dict(),
        )
    auc = evaluation.overall.get("auc")
    if auc is not None and auc.value.value < 0.5:
        yield Finding(
            "WORSE_THAN_CONSTANT",
            _certain(auc.interval, below=0.5),
            f"The AUC is {_with_interval(auc)}; a score that is the same for everyone has 0.5. The score may be of the "
            "other class.",
            {"metric": "auc", "constant": 0.5} | auc.to_dict(),
        )


def _certain(interval: Interval | None, *, below: float) -> Severity:
    return "problem" if interval is not None and interval.high < below else "warning"


def _undefined_utility(evaluation: Evaluation) -> Iterator[Finding]:
    reasons = {name: estimate.value.reason for name, estimate in evaluation.overall.items() if estimate.value.reason}
    if reasons:
        listed = _listed([f"{_title(name)}: {reason}" for name, reason in reasons.items()], separator="; ")
        yield Finding("UNDEFINED_RATE", "warning", f"Not everything could be computed. {listed}.", {"reasons": reasons})


def _low_coverage(attribute: AttributeEvaluation, min_coverage: float) -> Iterator[Finding]:
    counts = attribute.counts
    if attribute.coverage < min_coverage:
        total = counts.num_rows + counts.unknown_group
        yield Finding(
            "LOW_COVERAGE",
            "warning",
            f"{attribute.name} is unknown for {counts.unknown_group} of {total} rows; the groups and gaps describe the "
            f"other {_percent(attribute.coverage)} only, and who is unknown may be no accident.",
            {
                "attribute": attribute.name,
                "coverage": attribute.coverage,
                "unknown": counts.unknown_group,
                "threshold": min_coverage,
            },
        )


def _undefined_rates(attribute: AttributeEvaluation) -> Iterator[Finding]:
    reasons: dict[str, str] = {}
    for name, estimate in _gaps_of_rates(attribute):
        if estimate.value.reason:
            reasons[name] = estimate.value.reason
    if not reasons:
        return
    impossible = [name for name, estimate in _gaps_of_rates(attribute) if not estimate.value.defined]
    parts = dict.fromkeys(part for reason in reasons.values() for part in reason.removeprefix("left out: ").split("; "))
    consequence = (
        f"There is no {_listed([_title(name) for name in impossible])}."
        if impossible
        else "The gaps say nothing about these groups."
    )
    yield Finding(
        "UNDEFINED_RATE",
        "warning",
        f"{attribute.name}: {_listed(list(parts), separator='; ')}. {consequence}",
        {"attribute": attribute.name, "reasons": reasons, "undefined": impossible},
    )


def _few_cases(attribute: AttributeEvaluation, few_cases: int) -> Iterator[Finding]:
    carried: dict[str, dict[str, Any]] = {}
    described = []
    for name, estimate in _gaps_of_rates(attribute):
        gap = estimate.value
        if not (isinstance(gap, Gap) and gap.defined):
            continue
        carriers = [(gap.highest, gap.highest_cases), (gap.lowest, gap.lowest_cases)]
        few = [(group, cases) for group, cases in carriers if cases < few_cases]
        if few:
            carried[name] = {
                "value": gap.value,
                "rate": gap.rate,
                "carriers": [{"group": group, "cases": cases} for group, cases in few],
            }
            groups = " and ".join(f"{cases} {_cases_of(gap.rate)} in group {group}" for group, cases in few)
            described.append(f"{_title(name)} {gap.value:.3f} ({groups})")
    if carried:
        yield Finding(
            "FEW_CASES",
            "warning",
            f"{attribute.name}: these gaps rest on fewer than {few_cases} cases: {_listed(described)}.",
            {"attribute": attribute.name, "threshold": few_cases, "gaps": carried},
        )


def _cases_of(rate: str) -> str:
    if rate not in RATES:
        return "labels of the rarer class"
    # Which class is meant stands in the gap's title when there are more than two.
    return RATES[rate].cases.format(positive="positive", negative="negative")


def _gap_covers_zero(attribute: AttributeEvaluation) -> Iterator[Finding]:
    covering = {
        name: estimate
        for name, estimate in attribute.gaps.items()
        if estimate.value.defined and estimate.interval is not None and estimate.interval.contains(0.0)
    }
    if not covering:
        return
    listed = _listed([f"{_title(name)} {_with_interval(estimate)}" for name, estimate in covering.items()])
    yield Finding(
        "GAP_COVERS_ZERO",
        "note",
        f"{attribute.name}: {attribute.counts.num_rows} rows cannot tell these gaps from none: {listed}. That is no "
        "evidence that there is none; any gap within its interval fits the data as well.",
        {"attribute": attribute.name, "gaps": {name: estimate.to_dict() for name, estimate in covering.items()}},
    )


def _against_reference(evaluation: Evaluation, reference: Evaluation) -> Iterator[Finding]:
    columns = [("model", evaluation.predictions), ("reference", reference.predictions)]
    scored = all(column.scores is not None for _, column in columns)

    def compared(attribute: str | None, kind: Literal["utility", "gap"]) -> list[PairedDifference]:
        names = [metric.name for metric in count_metrics(kind)]
        names += [name for name in PAIRED_SCORE_METRICS if scored and find_metric(name).kind == kind]
        settings = evaluation.settings
        found = paired_differences(
            [SharedNodes.build(columns, attribute)],
            names,
            "reference",
            level=settings.level,
            num_draws=settings.num_draws,
            seed=settings.seed,
            p_values=False,
        )
        return [found[name]["model"] for name in names]

    lost = [found for found in compared(None, "utility") if found.excludes_zero and not _improved(found)]
    if lost:
        yield Finding(
            "UTILITY_LOST",
            "warning",
            f"Against the unconstrained model the predictor loses {_listed([_change(found) for found in lost])}.",
            {"differences": {found.metric: found.to_dict() for found in lost}},
        )
    for name in evaluation.attributes:
        changed = [found for found in compared(name, "gap") if found.excludes_zero]
        lowered, raised = ([f for f in changed if _improved(f) == better] for better in (True, False))
        if lowered and raised:
            yield Finding(
                "TRADED_GAP",
                "warning",
                f"{name}: against the unconstrained model one gap was traded for another. Lowered: "
                f"{_listed([_change(found) for found in lowered])}; raised: "
                f"{_listed([_change(found) for found in raised])}.",
                {
                    "attribute": name,
                    "lowered": {found.metric: found.to_dict() for found in lowered},
                    "raised": {found.metric: found.to_dict() for found in raised},
                },
            )


def _improved(difference: PairedDifference) -> bool:
    return (difference.value > 0) == (find_metric(difference.metric).better == "higher")


def _gaps_of_rates(attribute: AttributeEvaluation) -> Iterator[tuple[str, Estimate]]:
    """The gaps that know which groups carry them: each class's in place of the mean over the classes."""
    means = {name for gaps in attribute.gaps_by_class.values() for name in gaps}
    yield from ((name, estimate) for name, estimate in attribute.gaps.items() if name not in means)
    for class_name, gaps in attribute.gaps_by_class.items():
        for name, estimate in gaps.items():
            yield f"{name} of class '{class_name}'", estimate


def _title(name: str) -> str:
    metric, _, of_class = name.partition(" of class ")
    return find_metric(metric).title + (f" of class {of_class}" if of_class else "")


def _change(difference: PairedDifference) -> str:
    interval = difference.interval
    return (
        f"{_title(difference.metric)} {difference.value:+.3f} ({_percent(interval.level)} interval "
        f"{interval.low:+.3f} to {interval.high:+.3f})"
    )


def _with_interval(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None or not interval.defined:
        return f"{estimate.value.value:.3f}"
    return f"{estimate.value.value:.3f} ({_percent(interval.level)} interval {interval.low:.3f} to {interval.high:.3f})"


def _percent(share: float) -> str:
    """A share in per cent, which never rounds up to 100 % or down to 0 % what is not."""
    text = f"{100 * share:.1f}".removesuffix(".0")
    if text == "100" and share < 1:
        return "over 99.9 %"
    if text == "0" and share > 0:
        return "under 0.1 %"
    return f"{text} %"


def _listed(items: Sequence[str], separator: str = ", ") -> str:
    shown = list(items[:LISTED])
    if len(items) > LISTED:
        shown.append(f"{len(items) - LISTED} more")
    return shown[0] if len(shown) == 1 else f"{separator.join(shown[:-1])} and {shown[-1]}"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
