"""Evaluations as tables of text, as Markdown, and as one tidy frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairsad.evaluation.intervals import Estimate, Interval
from fairsad.evaluation.rates import Gap, Share, Value
from fairsad.evaluation.scores import find_metric

if TYPE_CHECKING:
    import pandas as pd

    from fairsad.evaluation.evaluate import AttributeEvaluation, Evaluation

UNDEFINED = "–"
NARROW = 0.05


@dataclass(frozen=True)
class Table:
    """A table of text, for the terminal, Markdown or a page.

    Attributes:
        title: Heading.
        columns: Column headings; the first column is text.
        rows: Cells.
        note: What stands below it.
        numeric: Whether the other columns are numbers, which are aligned to the right.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    numeric: bool = True

    def to_markdown(self) -> str:
        """The table in Markdown, numbers aligned to the right."""
        lines = [f"### {self.title}", "", _markdown_row(self.columns)]
        lines.append(_markdown_row([":---", *["---:" if self.numeric else ":---"] * (len(self.columns) - 1)]))
        lines += [_markdown_row(row) for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def show_number(value: float, digits: int = 3) -> str:
    """A number in a table; a dash where it is undefined."""
    return UNDEFINED if np.isnan(value) else f"{value:.{digits}f}"


def show_interval(interval: Interval | None, digits: int = 3) -> str:
    """An interval in a table; a dash where there is none."""
    if interval is None or not interval.defined:
        return UNDEFINED
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def show_estimate(estimate: Estimate) -> str:
    """A value and its interval in one cell, with a third digit where two would hide how wide the interval is."""
    interval = estimate.interval
    if interval is None or not interval.defined:
        return show_number(estimate.value.value, 2)
    digits = 2 if interval.high - interval.low >= NARROW else 3
    return f"{show_number(estimate.value.value, digits)} {show_interval(interval, digits)}"


def show_metric(name: str) -> str:
    """A metric's title with its symbol."""
    metric = find_metric(name)
    return f"{metric.title} ({metric.symbol})" if metric.symbol else metric.title


def evaluation_tables(evaluation: Evaluation) -> list[Table]:
    """Overall utility first, then for every attribute its gaps and its groups."""
    level = f"{100 * evaluation.settings.level:g} % interval"
    tables = [_overall_table(evaluation, "Overall", evaluation.overall, evaluation.constant.values, level)]
    for name, values in evaluation.by_class.items():
        tables.append(_overall_table(evaluation, f"Class '{name}' against the rest", values, {}, level))
    for attribute in evaluation.attributes.values():
        tables.append(_gap_table(f"Gaps by {attribute.name}", attribute, attribute.gaps, level))
        for name, gaps in attribute.gaps_by_class.items():
            tables.append(
                _gap_table(f"Gaps by {attribute.name}, class '{name}'", attribute, gaps, level, constant=False)
            )
        tables += _group_tables(attribute)
    return tables


def _overall_table(
    evaluation: Evaluation, title: str, values: Mapping[str, Estimate], constant: Mapping[str, Value], level: str
) -> Table:
    always = (f"always '{evaluation.constant.prediction}'",) if constant else ()
    rows = [
        (
            show_metric(name),
            show_number(estimate.value.value),
            show_interval(estimate.interval),
            *((show_number(constant[name].value) if name in constant else UNDEFINED,) if constant else ()),
        )
        for name, estimate in values.items()
    ]
    counts = evaluation.counts
    note = f"{counts.num_rows} rows"
    for number, what in (
        (counts.unknown_label, "unknown label"),
        (counts.unknown_prediction, "no prediction"),
        (evaluation.unscored, "no score"),
    ):
        note += f"; {number} with {what}" if number else ""
    reasons = [f"{show_metric(name)}: {e.value.reason}" for name, e in values.items() if e.value.reason]
    return Table(title, ("metric", "value", level, *always), tuple(rows), ". ".join([note, *reasons]) + ".")


def _gap_table(
    title: str,
    attribute: AttributeEvaluation,
    gaps: Mapping[str, Estimate],
    level: str,
    *,
    constant: bool = True,
) -> Table:
    rows = []
    for name, estimate in gaps.items():
        gap, difference = estimate.value, estimate.difference
        carried = isinstance(gap, Gap) and gap.highest
        always = attribute.constant.values.get(name)
        rows.append(
            (
                show_metric(name),
                show_number(gap.value),
                show_interval(estimate.interval),
                f"{gap.highest} ({gap.highest_cases})" if isinstance(gap, Gap) and carried else UNDEFINED,
                f"{gap.lowest} ({gap.lowest_cases})" if isinstance(gap, Gap) and carried else UNDEFINED,
                f"{difference.value:+.3f} {show_interval(difference.interval)}" if difference else UNDEFINED,
                *((show_number(always.value) if always else UNDEFINED,) if constant else ()),
            )
        )
    signed = next((estimate.difference for estimate in gaps.values() if estimate.difference), None)
    heading = f"{signed.minuend} − {signed.subtrahend}" if signed else "difference"
    note = f"Group known for {100 * attribute.coverage:.1f} % of the rows" if attribute.coverage < 1 else ""
    reasons = dict.fromkeys(estimate.value.reason for estimate in gaps.values() if estimate.value.reason)
    note = ". ".join(filter(None, (note, *reasons)))
    return Table(
        title,
        (
            "metric",
            "gap",
            level,
            "highest (cases)",
            "lowest (cases)",
            heading,
            *((f"always '{attribute.constant.prediction}'",) if constant else ()),
        ),
        tuple(rows),
        note and f"{note}.",
    )


def _group_tables(attribute: AttributeEvaluation) -> Iterator[Table]:
    """Rates and metrics of every group; with several classes, a table of metrics and one of rates per class."""
    classes, metrics = list(attribute.groups[0].rates), list(attribute.groups[0].metrics)
    if len(classes) == 1:
        yield _group_table(f"Groups of {attribute.name}", attribute, classes[0], metrics)
        return
    yield _group_table(f"Groups of {attribute.name}", attribute, None, metrics)
    for class_name in classes:
        yield _group_table(f"Groups of {attribute.name}, class '{class_name}'", attribute, class_name, [])


def _group_table(title: str, attribute: AttributeEvaluation, class_name: str | None, metrics: list[str]) -> Table:
    rates = [] if class_name is None else list(attribute.groups[0].rates[class_name])
    rows = [
        (
            group.name,
            str(group.rows),
            *((str(group.label_counts[class_name]),) if class_name is not None else ()),
            *(show_estimate(group.rates[class_name][rate]) for rate in rates if class_name is not None),
            *(show_estimate(group.metrics[metric]) for metric in metrics),
        )
        for group in attribute.groups
    ]
    columns = (
        "group",
        "rows",
        *((f"label '{class_name}'",) if class_name is not None else ()),
        *(rate.replace("_", " ") for rate in rates),
        *map(show_metric, metrics),
    )
    return Table(title, columns, tuple(rows))


def evaluation_markdown(evaluation: Evaluation) -> str:
    """Findings first, then every table, then notes."""
    parts = ["## Evaluation"]
    if evaluation.findings:
        parts.append("\n".join(f"- **{f.code}** ({f.severity}): {f.sentence}" for f in evaluation.findings))
    parts += [table.to_markdown() for table in evaluation_tables(evaluation)]
    if evaluation.notes:
        parts.append("\n".join(f"- {note}" for note in evaluation.notes))
    return "\n\n".join(parts) + "\n"


def evaluation_frame(evaluation: Evaluation) -> pd.DataFrame:
    """One row per number, tidy: scope, attribute, group, class, metric, value, low, high, level, cases, reason."""
    import pandas as pd  # only where a frame is made

    rows: list[dict[str, Any]] = []

    def add(scope: str, attribute: str, group: str, of_class: str, metric: str, estimate: Estimate) -> None:
        interval, value = estimate.interval, estimate.value
        rows.append(
            {
                "scope": scope,
                "attribute": attribute,
                "group": group,
                "class": of_class,
                "metric": metric,
                "value": value.value,
                "low": interval.low if interval else np.nan,
                "high": interval.high if interval else np.nan,
                "level": interval.level if interval else np.nan,
                "cases": value.cases if isinstance(value, Share) else np.nan,
                "reason": value.reason or (interval.reason if interval else ""),
            }
        )

    positive = evaluation.positive or "mean over classes"
    for metric, estimate in evaluation.overall.items():
        add("overall", "", "", positive, metric, estimate)
    for class_name, values in evaluation.by_class.items():
        for metric, estimate in values.items():
            add("overall", "", "", class_name, metric, estimate)
    for attribute in evaluation.attributes.values():
        for class_name, gaps in ({positive: attribute.gaps} | attribute.gaps_by_class).items():
            for metric, estimate in gaps.items():
                add("gap", attribute.name, "", class_name, metric, estimate)
        for group in attribute.groups:
            for metric, estimate in group.metrics.items():
                add("group", attribute.name, group.name, positive, metric, estimate)
            for class_name, rates in group.rates.items():
                for rate, estimate in rates.items():
                    add("group", attribute.name, group.name, class_name, rate, estimate)
    return pd.DataFrame(rows)
