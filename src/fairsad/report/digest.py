"""What a folder of results says, made ready once for tables, figures and the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fairsad.errors import ProtocolError
from fairsad.evaluation.compare import Comparison, compare, pareto_front
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.scores import find_metric
from fairsad.evaluation.verdict import SEVERITIES
from fairsad.experiments.reference import Published, load_published
from fairsad.experiments.store import ATTRIBUTE_SEPARATOR, Result, Store, Study, show_point
from fairsad.experiments.summary import MAIN_METRICS, UNRANKED_METHODS, summarise
from fairsad.experiments.tune import MAJORITY_SHARE

if TYPE_CHECKING:
    import pandas as pd

# The unconstrained model, that differences are taken from where the study names no other row.
REFERENCE_METHOD = "gcn"
# A sentence lists so many items.
LISTED = 6
# What settings are called in the papers.
COORDINATES = {"alpha": "α", "beta": "β", "num_channels": "K", "num_layers": "l", "sim_coeff": "λ"}


@dataclass(frozen=True)
class RowFinding:
    """A finding about a row of the table: what its seeds have in common.

    Attributes:
        graph: The graph.
        label: The row.
        code: For machines, such as ``"NEARLY_CONSTANT"``.
        severity: The gravest of the seeds.
        sentence: That of the first seed that has it.
        seeds: How many have it.
        of: How many there are.
    """

    graph: str
    label: str
    code: str
    severity: str
    sentence: str
    seeds: int
    of: int

    def __str__(self) -> str:
        how_many = f" ({self.seeds} of {self.of} seeds)" if self.of > 1 else ""
        return f"{self.label} on {self.graph}{how_many}: {self.sentence}"


class Constant(NamedTuple):
    """How far a row gives everybody the same answer.

    Attributes:
        seeds: Seeds of it that are nearly constant.
        of: How many there are.
        answer: What almost everybody gets.
    """

    seeds: int
    of: int
    answer: str

    @property
    def mostly(self) -> bool:
        """Whether that is so with half of the seeds or more."""
        return 2 * self.seeds >= self.of


@dataclass(frozen=True, eq=False)
class Digest:
    """A study and everything that is said of it.

    Attributes:
        study: What was wanted.
        results: What there is of it, in its order.
        published: The numbers that it stands beside.
        frame: One row per graph, label, point and metric; see ``fairsad.experiments.summary.summarise``.
        comparisons: By graph the rows on the same nodes, with paired differences from the reference.
        findings: About every row but those that decide nothing by design, the gravest first.
        constant: By graph, label and point the rows that are nearly constant with some seed.
        level: Confidence level of all intervals.
    """

    study: Study
    results: tuple[Result, ...]
    published: Published | None
    frame: pd.DataFrame = field(repr=False)
    comparisons: Mapping[str, Comparison] = field(repr=False)
    findings: tuple[RowFinding, ...] = ()
    constant: Mapping[tuple[str, str, str], Constant] = field(default_factory=dict, repr=False)
    level: float = 0.95

    @classmethod
    def of(cls, store: Store, *, level: float = 0.95, num_draws: int = 2000) -> Digest:
        """Read a folder.

        Raises:
            ProtocolError: Nothing in it has ended well yet.
        """
        study, results = store.study, tuple(store.results())
        if not any(result.done for result in results):
            failures = next((result.error for result in results if not result.done), "")
            raise ProtocolError(
                f"{store.folder} has no finished trial of {len(study.trials)} yet"
                + (f"; the first failed: {failures}" if failures else "")
                + ". Run the study first."
            )
        published = load_published(study.published) if study.published else None
        constant = _constant(results)
        unranked = {row for row, found in constant.items() if found.mostly}
        return cls(
            study,
            results,
            published,
            summarise(results, published, level=level, num_draws=num_draws, unranked=unranked),
            {} if study.coordinates else _comparisons(study, results, level, num_draws),
            tuple(_findings(results)),
            constant,
            level,
        )

    def of_metric(self, graph: str, metric: str) -> pd.DataFrame:
        """The rows of ``frame`` with one metric on one graph."""
        return self.frame[(self.frame["graph"] == graph) & (self.frame["metric"] == metric)]

    @property
    def graphs(self) -> tuple[str, ...]:
        """Graphs that there are numbers for."""
        there = {result.trial.graph for result in self.results if result.done}
        return tuple(graph for graph in self.study.datasets if graph in there)

    @property
    def labels(self) -> tuple[str, ...]:
        """Rows that there are numbers for."""
        there = {result.trial.label for result in self.results if result.done}
        return tuple(label for label in self.study.methods if label in there)

    @property
    def failures(self) -> tuple[Result, ...]:
        """Trials that failed."""
        return tuple(result for result in self.results if not result.done)

    @property
    def missing(self) -> int:
        """Trials that have not ended."""
        return len(self.study.trials) - len(self.results)

    @property
    def shape(self) -> Literal["table", "line", "grid", "weights"]:
        """What the study varies: rows, one setting of one row, two of them, or a setting of each of several rows."""
        if not self.study.coordinates:
            return "table"
        if len(self.study.methods) > 1:
            return "weights"
        return "line" if len(self.study.coordinates) == 1 else "grid"

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of the tables: the paper's, and the same gaps of further attributes."""
        there = list(dict.fromkeys(self.frame["metric"]))
        further = [name for name in there if name.rpartition(ATTRIBUTE_SEPARATOR)[2] in MAIN_METRICS[3:]]
        return tuple(dict.fromkeys([*(name for name in MAIN_METRICS if name in there), *further]))

    def cell(self, graph: str, label: str, metric: str, point: str = "") -> Mapping[str, Any] | None:
        """One row of the frame, with None where a row has no rank; none where there is no such row."""
        import pandas as pd

        frame = self.frame
        chosen = frame[
            (frame["graph"] == graph)
            & (frame["label"] == label)
            & (frame["metric"] == metric)
            & (frame["point"] == point)
        ]
        return (
            None
            if chosen.empty
            else {str(name): None if value is pd.NA else value for name, value in chosen.iloc[0].items()}
        )

    def runs(self, graph: str, label: str) -> list[Result]:
        """The seeds of a row that ended well, outside sweeps."""
        return [
            result
            for result in self.results
            if result.done and (result.trial.graph, result.trial.label) == (graph, label) and not result.trial.point
        ]

    def nearly_constant(self, graph: str, label: str, point: str = "") -> bool:
        """Whether a row gives almost everybody the same answer, with half of its seeds or more."""
        found = self.constant.get((graph, label, point))
        return found is not None and found.mostly

    def nearly_constant_points(self, graph: str) -> list[Mapping[str, float]]:
        """Where a sweep of one row gives almost everybody the same answer, with half of the seeds or more."""
        points = {show_point(trial.point): trial.point for trial in self.study.trials if trial.graph == graph}
        (label,) = self.labels
        return [point for shown, point in points.items() if self.nearly_constant(graph, label, shown)]

    def conclusions(self, graph: str) -> list[str]:
        """What the numbers of a graph come to, in plain words."""
        return [
            *self.verdict(graph),
            *_nearly_constant(self, graph),
            *_against_reference(self.comparisons.get(graph), self.by_design(graph)),
            *_ranges(self, graph),
            *_front(self, graph),
            *_probed(self, graph),
            *_beside_published(self.frame, graph),
        ]

    def verdict(self, graph: str) -> list[str]:
        """The one sentence to take away from the comparisons on a graph; none where there are none."""
        return list(_verdict(self, graph))

    def by_design(self, graph: str) -> set[str]:
        """Rows that decide nothing by design, of which nothing needs to be said."""
        frame = self.frame[self.frame["graph"] == graph]
        return set(frame.loc[frame["method"].isin(UNRANKED_METHODS), "label"])


def row_name(label: str, point: str = "") -> str:
    """A row with its place in a sweep, by the paper's symbols.

    Example:
        >>> row_name("FairSAD", "alpha=0.1 beta=1")
        'FairSAD α = 0.1, β = 1'
    """
    pairs = (pair.partition("=") for pair in point.split())
    place = ", ".join(f"{COORDINATES.get(name, name)} = {value}" for name, _, value in pairs)
    return f"{label} {place}".strip()


def _comparisons(study: Study, results: Iterable[Result], level: float, num_draws: int) -> dict[str, Comparison]:
    """Rows on the same nodes; graphs with fewer than two rows have nothing to compare."""
    runs: dict[str, dict[str, list[Predictions]]] = {}
    reference: dict[str, str] = {}
    for result in results:
        if result.done:
            trial = result.trial
            runs.setdefault(trial.graph, {}).setdefault(trial.label, []).append(result.predictions())
            if trial.label == study.reference if study.reference else trial.method == REFERENCE_METHOD:
                reference.setdefault(trial.graph, trial.label)
    return {
        graph: compare(rows, reference.get(graph), level=level, num_draws=num_draws)
        for graph, rows in runs.items()
        if len(rows) > 1
    }


def _findings(results: Sequence[Result]) -> list[RowFinding]:
    rows: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.done and result.evaluation and result.trial.method not in UNRANKED_METHODS:
            rows.setdefault((result.trial.graph, result.trial.label), []).append(result)
    found = []
    for (graph, label), runs in rows.items():
        kinds: dict[tuple[str, Any], list[dict[str, Any]]] = {}
        for run in runs:
            for finding in run.evaluation["findings"]:
                evidence = finding["evidence"]
                kinds.setdefault((finding["code"], evidence.get("attribute", evidence.get("metric"))), []).append(
                    finding
                )
        for (code, _), each in kinds.items():
            gravest = min((finding["severity"] for finding in each), key=SEVERITIES.index)
            found.append(RowFinding(graph, label, code, gravest, each[0]["sentence"], len(each), len(runs)))
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _constant(results: Iterable[Result]) -> dict[tuple[str, str, str], Constant]:
    """From the predictions themselves, since trials of a large sweep keep no evaluation."""
    rows: dict[tuple[str, str, str], list[str | None]] = {}
    for result in results:
        if result.done and result.trial.method not in UNRANKED_METHODS:
            predictions = result.predictions()
            counts = np.bincount(predictions.predictions[predictions.predictions >= 0])
            most = int(counts.argmax())
            answer = predictions.class_names[most] if counts[most] >= MAJORITY_SHARE * counts.sum() else None
            trial = result.trial
            rows.setdefault((trial.graph, trial.label, show_point(trial.point)), []).append(answer)
    found = {}
    for row, answers in rows.items():
        given = [answer for answer in answers if answer is not None]
        if given:
            found[row] = Constant(len(given), len(answers), max(dict.fromkeys(given), key=given.count))
    return found


# -- conclusions ----------------------------------------------------------------------------------------------


def _verdict(digest: Digest, graph: str) -> Iterator[str]:
    """Which rows reduce the gap of the reference, and at what cost; a row that decides nothing reduces none."""
    comparison = digest.comparisons.get(graph)
    if comparison is None:
        return
    reference = comparison.reference
    if digest.nearly_constant(graph, reference):
        who = _with_seeds(digest, graph, reference)
        yield f"In short: {who} gives almost everybody the same answer; a difference from its gap says nothing."
        return
    gap, utility = _gap_and_utility(comparison)
    title = find_metric(utility.metric).title
    kinds: dict[tuple[str, str, str], list[str]] = {}
    for label in comparison.models:
        if label == reference or label in digest.by_design(graph):
            continue
        reduced, lost = (row.differences[label].excludes_zero for row in (gap, utility))
        if digest.nearly_constant(graph, label):
            kind = ("gives", "give", "almost everybody the same answer, so that a small gap says nothing")
        elif not reduced:
            kind = ("shows", "show", "no sure change of ΔDP")
        elif gap.differences[label].value > 0:
            kind = ("raises", "raise", "ΔDP")
        elif lost and utility.differences[label].value < 0:
            kind = ("reduces", "reduce", f"ΔDP at a loss of {title}")
        else:
            kind = ("reduces", "reduce", f"ΔDP without a sure loss of {title}")
        kinds.setdefault(kind, []).append(
            _with_seeds(digest, graph, label) if digest.nearly_constant(graph, label) else label
        )
    told = [
        f"{listed(labels, len(labels))} {one if len(labels) == 1 else many} {what}"
        for (one, many, what), labels in kinds.items()
    ]
    if told:
        yield f"In short, against {reference}: {'; '.join(told)}."


def _with_seeds(digest: Digest, graph: str, label: str) -> str:
    """A row that is nearly constant, with the number of its seeds that are, unless all are."""
    found = digest.constant[graph, label, ""]
    return f"{label} ({found.seeds} of {found.of} seeds)" if found.seeds < found.of else label


def _nearly_constant(digest: Digest, graph: str) -> Iterator[str]:
    """Which rows decide nothing, and what that scores."""
    rows = {(label, point): found for (at, label, point), found in digest.constant.items() if at == graph}
    if not rows:
        return
    if digest.shape == "table":
        who = listed([_with_seeds(digest, graph, label) for label, _ in rows])
    else:
        points = len(digest.frame.loc[digest.frame["graph"] == graph, ["label", "point"]].drop_duplicates())
        mostly, runs = sum(found.mostly for found in rows.values()), sum(found.seeds for found in rows.values())
        who = (
            f"{mostly} of {points} points"
            if mostly
            else f"{runs} run{'s' if runs > 1 else ''}, at no point half of them"
        )
    answers = list(dict.fromkeys(found.answer for found in rows.values()))
    told = f"Nearly constant: {who}. Almost everybody gets the same answer there"
    if len(answers) == 1:
        told += f", '{answers[0]}'"
        if scores := _always(digest, graph, answers[0]):
            told += f"; giving it to all scores {scores} without any gap"
    yield f"{told}. A small gap is then that of a predictor that decides nothing."


def _always(digest: Digest, graph: str, answer: str) -> str:
    """What always giving one answer scores, where it is the most frequent label."""
    for result in digest.results:
        constant = result.evaluation.get("constant") if result.trial.graph == graph else None
        if constant and constant["prediction"] == answer:
            values = {name: constant["values"].get(name, {}).get("value") for name in ("f1", "accuracy")}
            return " and ".join(
                f"{find_metric(name).title} {100 * value:.1f}" for name, value in values.items() if value is not None
            )
    return ""


def _against_reference(comparison: Comparison | None, by_design: set[str]) -> Iterator[str]:
    """For each row what became of the gap and of utility, and whether that is sure."""
    if comparison is None:
        return
    gap, utility = _gap_and_utility(comparison)
    title = find_metric(utility.metric).title
    for label in comparison.models:
        if label == comparison.reference or label in by_design:
            continue
        told = (
            _change(row, label, comparison.reference, name, verbs)
            for row, name, verbs in ((gap, "ΔDP", ("reduces", "raises")), (utility, title, ("loses", "gains")))
        )
        yield f"{label} against {comparison.reference}: {'; '.join(told)}."


def _gap_and_utility(comparison: Comparison) -> tuple[Any, Any]:
    """The rows of a comparison that its sentences are about."""
    attributes = [row.attribute for row in comparison.rows if row.metric == "demographic_parity_gap"]
    utility = "auc" if any(row.metric == "auc" for row in comparison.rows) else "accuracy"
    return comparison.row("demographic_parity_gap", attributes[0]), comparison.row(utility)


def _change(row: Any, label: str, reference: str, title: str, verbs: tuple[str, str]) -> str:
    """From what to what, with the interval of the difference, in points."""
    difference = row.differences[label]
    low, high = 100 * difference.interval.low, 100 * difference.interval.high
    change = f"{title} {100 * row.models[reference].mean:.1f} → {100 * row.models[label].mean:.1f}"
    if not difference.interval.defined:
        return change
    points = f"({100 * difference.value:+.1f} points [{low:+.1f}, {high:+.1f}])"
    if not difference.excludes_zero:
        return f"{change} may be chance {points}"
    return f"{verbs[difference.value > 0]} {change} {points}"


def _ranges(digest: Digest, graph: str) -> Iterator[str]:
    """Where utility and gap are least and largest in a sweep of one row."""
    if digest.shape not in ("line", "grid"):
        return
    told = []
    for metric in (digest.study.utility, digest.study.gap):
        chosen = digest.of_metric(graph, metric).dropna(subset="mean")
        if not chosen.empty:
            ends = (_end_of_range(chosen, end) for end in (chosen["mean"].min(), chosen["mean"].max()))
            told.append(f"{_symbol(metric)} lies between {' and '.join(ends)}")
    if told:
        yield f"{'; '.join(told)}."


def _end_of_range(chosen: pd.DataFrame, end: float) -> str:
    """A mean with the first point that has it, and how many others do."""
    first, *others = chosen.loc[chosen["mean"] == end, "point"]
    also = f" and {len(others)} other point{'s' if len(others) > 1 else ''}" if others else ""
    return f"{100 * end:.1f} (at {row_name('', first)}{also})"


def _front(digest: Digest, graph: str) -> Iterator[str]:
    """Rows that no other beats in both utility and gap."""
    utility, gap = digest.study.utility, digest.study.gap
    frame = digest.frame[digest.frame["graph"] == graph]
    means = frame.pivot_table(index=["label", "point"], columns="metric", values="mean", sort=False)
    if digest.shape == "grid" or not {utility, gap} <= set(means.columns):
        return
    means = means[[utility, gap]].dropna()
    means = means[~means.index.get_level_values("label").isin(digest.by_design(graph))]
    if len(means) < 2:
        return
    best = means[pareto_front(means[utility], means[gap])].sort_values(utility, ascending=False)
    named = [
        row_name(label if digest.shape != "line" else "", point)
        + (" (nearly constant)" if digest.nearly_constant(graph, label, point) else "")
        for label, point in best.index
    ]
    what = f"{_symbol(utility)} and {_symbol(gap)}"
    yield f"By their means, no other row beats these in both {what}: {listed(named, len(named))}."


def _probed(digest: Digest, graph: str) -> Iterator[str]:
    """How much of the first sensitive attribute is left in each row's embedding."""
    runs = [run for label in digest.labels if (run := first_run(digest, graph, label)) is not None and run.probe]
    if not runs:
        return
    probes = [(run.trial.label, run.probe["targets"]) for run in runs if run.probe is not None]
    attribute = next((name for name, target in probes[0][1].items() if target["sensitive"]), None)
    if attribute is None:
        return

    def reading(targets: Mapping[str, Any], place: str) -> float:
        value = targets[attribute]["places"].get(place, {}).get("exact", {}).get("auc")
        return math.nan if value is None else float(value)

    features = reading(probes[0][1], "features")
    embeddings = [(label, reading(targets, "embedding")) for label, targets in probes]
    told = [f"{value:.2f} in that of {label}" for label, value in embeddings if not math.isnan(value)]
    if told and not math.isnan(features):
        yield (
            f"A linear reader finds {attribute} with AUC {features:.2f} in the features and, in the embedding, "
            f"{listed(told, len(told))} (0.5 is chance)."
        )


def first_run(digest: Digest, graph: str, label: str) -> Result | None:
    """The first seed of a row that kept its whole evaluation."""
    return next((run for run in digest.runs(graph, label) if run.evaluation), None)


def _beside_published(frame: pd.DataFrame, graph: str) -> Iterator[str]:
    chosen = frame[(frame["graph"] == graph) & frame["within_two_std"].notna() & (frame["impossible"] == "")]
    if chosen.empty:
        return
    within = int(chosen["within_two_std"].sum())
    outside = [
        f"{row['label']} {_symbol(row['metric'])}"
        for _, row in chosen[~chosen["within_two_std"].astype(bool)].iterrows()
    ]
    text = f"Beside the paper: {within} of {len(chosen)} numbers lie within its mean ± 2 std"
    yield text + (f"; outside are {listed(outside)}." if outside else ".")


def _symbol(metric: str) -> str:
    found = find_metric(metric)
    return found.symbol or found.title


def listed(items: Sequence[str], most: int = LISTED) -> str:
    """``a, b and c``; of a long list, the first and how many more."""
    shown = [*items[:most], f"{len(items) - most} more"] if len(items) > most else list(items)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
