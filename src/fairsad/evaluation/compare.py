"""Several models on the same nodes: a table with paired intervals, and the Pareto front of utility against gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.evaluation.evaluate import Evaluation
from fairsad.evaluation.intervals import mean_std
from fairsad.evaluation.pairing import (
    PAIRED_SCORE_METRICS,
    PairedDifference,
    SharedNodes,
    mean_over_seeds,
    paired_differences,
)
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import count_metrics
from fairsad.evaluation.scores import find_metric
from fairsad.evaluation.tables import Table, show_interval, show_metric, show_number

if TYPE_CHECKING:
    import pandas as pd

Run = Evaluation | Predictions
SCHEMA = "fairsad.comparison/1"


@dataclass(frozen=True)
class ModelValue:
    """One metric of one model.

    Attributes:
        mean: Mean over splits of the mean over seeds.
        std: Standard deviation over all runs, dividing by their number as the paper does.
        values: One value per run.
    """

    mean: float
    std: float
    values: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "mean": _number(self.mean),
            "std": _number(self.std),
            "values": [_number(value) for value in self.values],
        }


@dataclass(frozen=True)
class ComparisonRow:
    """One metric of all models.

    Attributes:
        metric: Name of the metric.
        attribute: Sensitive attribute of a gap; empty for utility.
        models: By model, its value.
        best: Models with the best mean (several if they are equal).
        second: Models with the second best mean.
        differences: By model other than the reference, its paired difference from it.
    """

    metric: str
    attribute: str
    models: dict[str, ModelValue]
    best: tuple[str, ...]
    second: tuple[str, ...]
    differences: dict[str, PairedDifference]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "metric": self.metric,
            "attribute": self.attribute,
            "better": find_metric(self.metric).better,
            "models": {name: value.to_dict() for name, value in self.models.items()},
            "best": list(self.best),
            "second": list(self.second),
            "differences": {name: difference.to_dict() for name, difference in self.differences.items()},
        }


@dataclass(frozen=True)
class Comparison:
    """Models on the same nodes.

    Attributes:
        reference: The model that differences are taken from.
        models: All models, in the order given.
        rows: Utility first, then the gaps of every attribute.
        num_splits: Number of splits.
        num_seeds: By model, the number of runs.
        level: Confidence level of the intervals.
    """

    reference: str
    models: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    num_splits: int
    num_seeds: dict[str, int]
    level: float

    def row(self, metric: str, attribute: str | None = None) -> ComparisonRow:
        """The row of a metric; of a gap for the named attribute (default: the first).

        Raises:
            DataError: If there is none.
        """
        for row in self.rows:
            if row.metric == metric and attribute in (None, row.attribute):
                return row
        known = dict.fromkeys(f"{row.metric} ({row.attribute})" if row.attribute else row.metric for row in self.rows)
        where = f" for attribute '{attribute}'" if attribute else ""
        raise DataError(
            f"the comparison has no '{metric}'{where}; expected one of: {', '.join(known)}. Check the name."
        )

    def pareto(self, utility: str, gap: str, attribute: str | None = None) -> tuple[str, ...]:
        """Models that no other model beats in both utility and gap (and none equals in one and beats in the other)."""
        utilities, gaps = self.row(utility).models, self.row(gap, attribute).models
        front = pareto_front([utilities[m].mean for m in self.models], [gaps[m].mean for m in self.models])
        return tuple(model for model, on_front in zip(self.models, front, strict=True) if on_front)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "schema": SCHEMA,
            "reference": self.reference,
            "models": list(self.models),
            "num_splits": self.num_splits,
            "num_seeds": self.num_seeds,
            "level": self.level,
            "rows": [row.to_dict() for row in self.rows],
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per metric and model, tidy."""
        import pandas as pd  # only where a frame is made

        rows = []
        for row in self.rows:
            for model, value in row.models.items():
                difference = row.differences.get(model)
                rows.append(
                    {
                        "attribute": row.attribute,
                        "metric": row.metric,
                        "model": model,
                        "mean": value.mean,
                        "std": value.std,
                        "runs": len(value.values),
                        "rank": 1 if model in row.best else 2 if model in row.second else np.nan,
                        "difference": difference.value if difference else np.nan,
                        "low": difference.interval.low if difference else np.nan,
                        "high": difference.interval.high if difference else np.nan,
                        "p_value": difference.p_value if difference else np.nan,
                    }
                )
        return pd.DataFrame(rows)

    def tables(self) -> list[Table]:
        """For utility and for every attribute: the models' values, and their differences from the reference."""
        tables = []
        level = f"{100 * self.level:g} %"
        for attribute in dict.fromkeys(row.attribute for row in self.rows):
            rows = [row for row in self.rows if row.attribute == attribute]
            of_what = f"Gaps by {attribute}" if attribute else "Utility"
            values = [
                (show_metric(row.metric), *(_marked(row, model, self.num_seeds[model]) for model in self.models))
                for row in rows
            ]
            tables.append(Table(of_what, ("metric", *self.models), tuple(values), "* best, + second best."))
            others = [model for model in self.models if model != self.reference]
            differences = [
                (show_metric(row.metric), *(_difference(row.differences[model]) for model in others)) for row in rows
            ]
            if others:
                note = f"Paired on the same nodes, with {level} intervals; p by permutation of the models' answers."
                title = f"{of_what}: difference from {self.reference}"
                tables.append(Table(title, ("metric", *others), tuple(differences), note))
        return tables

    def to_markdown(self) -> str:
        """All tables as Markdown."""
        return "\n\n".join(["## Comparison", *(table.to_markdown() for table in self.tables())]) + "\n"


def compare(
    models: Mapping[str, Run | Sequence[Run]],
    reference: str | None = None,
    *,
    level: float = 0.95,
    num_draws: int = 2000,
    seed: int = 0,
    p_values: bool = True,
) -> Comparison:
    """Compare models on the same nodes, with paired intervals over nodes, seeds and splits.

    Args:
        models: By name an evaluation, or predictions, or one of them per run. Runs on the same nodes are seeds of one
            split; every split must have a run of every model.
        reference: Name of the model that differences are taken from (default: the first).
        level: Confidence level.
        num_draws: Number of draws for intervals and p-values.
        seed: Seed of the draws.
        p_values: Whether to test differences by permutation.

    Raises:
        DataError: If the models were not run on the same nodes.

    Example:
        >>> from fairsad.evaluation.evaluate import evaluate_predictions
        >>> labels, sex = [1, 1, 0, 0] * 20, {"sex": [0, 1, 1, 0] * 20}
        >>> one = evaluate_predictions(labels, labels, sex, intervals=False)
        >>> other = evaluate_predictions(labels, [1, 0, 0, 0] * 20, sex, intervals=False)
        >>> compare({"one": one, "other": other}).row("accuracy").differences["other"].value
        -0.25
    """
    if not models:
        raise DataError("there are no models to compare; expected at least one. Pass {'name': evaluation}.")
    names = tuple(models)
    reference = names[0] if reference is None else reference
    if reference not in models:
        raise DataError(f"the reference '{reference}' is none of the models; expected one of: {', '.join(names)}.")
    runs = {
        name: [_predictions(run) for run in ([given] if isinstance(given, Evaluation | Predictions) else given)]
        for name, given in models.items()
    }
    splits = _splits(runs)
    scored = all(run.scores is not None for each in runs.values() for run in each)
    rows = _rows(splits, None, "utility", scored, reference, level, num_draws, seed, p_values)
    for attribute in splits[0][0][1].partitions:
        rows += _rows(splits, attribute, "gap", scored, reference, level, num_draws, seed, p_values)
    return Comparison(
        reference, names, tuple(rows), len(splits), {name: len(each) for name, each in runs.items()}, level
    )


def _predictions(run: Run) -> Predictions:
    return run.predictions if isinstance(run, Evaluation) else run


def _splits(runs: Mapping[str, Sequence[Predictions]]) -> list[list[tuple[str, Predictions]]]:
    """Runs on the same nodes together, each with the name of its model."""
    splits: list[list[tuple[str, Predictions]]] = []
    for name, each in runs.items():
        for run in each:
            split = next((split for split in splits if split[0][1].on_same_nodes_as(run)), None)
            if split is None:
                splits.append([(name, run)])
            else:
                split.append((name, run))
    for split in splits:
        missing = [name for name in runs if name not in {model for model, _ in split}]
        if missing:
            raise DataError(
                f"{split[0][0]} was evaluated on nodes on which {', '.join(missing)} was not (labels, groups or "
                "classes differ); expected every model on the same nodes in the same order. Evaluate all on one table."
            )
    return splits


def _rows(
    splits: Sequence[Sequence[tuple[str, Predictions]]],
    attribute: str | None,
    kind: Literal["utility", "gap"],
    scored: bool,
    reference: str,
    level: float,
    num_draws: int,
    seed: int,
    p_values: bool,
) -> list[ComparisonRow]:
    shared = [SharedNodes.build(split, attribute) for split in splits]
    metrics = [metric.name for metric in count_metrics(kind)]
    metrics += [name for name in PAIRED_SCORE_METRICS if scored and find_metric(name).kind == kind]
    differences = paired_differences(
        shared, metrics, reference, level=level, num_draws=num_draws, seed=seed, p_values=p_values
    )
    rows = []
    for metric in metrics:
        values = {}
        for model in dict.fromkeys(shared[0].models):
            each = np.concatenate([split.values(metric)[split.columns_of(model)] for split in shared])
            mean = mean_over_seeds(shared, metric, model)
            values[model] = ModelValue(mean, mean_std(each)[1], tuple(each.tolist()))
        best, second = _ranked(values, find_metric(metric).better)
        rows.append(ComparisonRow(metric, attribute or "", values, best, second, differences[metric]))
    return rows


def _ranked(
    values: Mapping[str, ModelValue], better: Literal["higher", "lower"]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    levels = sorted({value.mean for value in values.values() if not np.isnan(value.mean)}, reverse=better == "higher")
    ranks = [tuple(name for name, value in values.items() if value.mean == level) for level in levels[:2]]
    return (*ranks, (), ())[0], (*ranks, (), ())[1]


def pareto_front(utility: npt.ArrayLike, gap: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which points no other point beats: none has both more (or equal) utility and less (or equal) gap, one strictly.

    Args:
        utility: [n], higher is better.
        gap: [n], lower is better.

    Returns:
        bool [n]; a point with an undefined coordinate is not on the front, equal points are on it together.

    Example:
        >>> pareto_front([0.8, 0.7, 0.7], [0.2, 0.1, 0.3]).tolist()
        [True, True, False]
    """
    utilities, gaps = np.asarray(utility, dtype=np.float64), np.asarray(gap, dtype=np.float64)
    front = np.zeros(len(utilities), dtype=bool)
    defined = np.flatnonzero(~np.isnan(utilities) & ~np.isnan(gaps))
    # By falling utility, then rising gap: a point is on the front if its gap is the smallest so far, or equals the
    # last one on the front in both.
    smallest: float = np.inf
    previous: tuple[float, float] | None = None
    for i in defined[np.lexsort((gaps[defined], -utilities[defined]))]:
        point = (float(utilities[i]), float(gaps[i]))
        if point[1] < smallest or point == previous:
            front[i], smallest, previous = True, point[1], point
    return front


def _marked(row: ComparisonRow, model: str, runs: int) -> str:
    value = row.models[model]
    text = show_number(value.mean) + (f" ± {show_number(value.std)}" if runs > 1 else "")
    return text + (" *" if model in row.best else " +" if model in row.second else "")


def _difference(difference: PairedDifference) -> str:
    text = f"{difference.value:+.3f} {show_interval(difference.interval)}"
    if np.isnan(difference.value):
        text = show_number(difference.value)
    return text + (f" p={difference.p_value:.3g}" if not np.isnan(difference.p_value) else "")


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
