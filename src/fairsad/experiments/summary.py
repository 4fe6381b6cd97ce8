"""From single trials to the rows of a table: means over seeds, their intervals, and the published numbers beside them.

All numbers are fractions; times 100 they are in the paper's unit.

The interval of a mean allows for other seeds and for other test nodes (:mod:`fairsad.evaluation.pairing`). The interval
of a *difference from a published mean* is another one: both means are about the same test nodes, so it allows for the
seeds of both sides only. It is Welch's, with the published standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fairsad.evaluation.intervals import Interval, interval_of_draws, mean_std
from fairsad.evaluation.pairing import PAIRED_SCORE_METRICS, SharedNodes, resampled_means
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import count_metrics
from fairsad.evaluation.scores import find_metric
from fairsad.experiments.reference import Published, PublishedValue
from fairsad.experiments.store import ATTRIBUTE_SEPARATOR, Result, show_point

if TYPE_CHECKING:
    import pandas as pd

# What a table has at least, in the paper's order.
MAIN_METRICS = ("auc", "f1", "accuracy", "demographic_parity_gap", "equal_opportunity_gap")
# Half of the last digit that the paper prints.
ROUNDING = 5e-5
# Methods that decide nothing stand in the table, but no gap of theirs is anybody's best.
UNRANKED_METHODS = ("constant",)


def summarise(
    results: Sequence[Result],
    published: Published | None = None,
    *,
    level: float = 0.95,
    num_draws: int = 2000,
    intervals: bool = True,
    unranked: Collection[tuple[str, str, str]] = (),
) -> pd.DataFrame:
    """One row per graph, label, point and metric.

    Columns: ``graph, label, method, point`` (text, empty outside sweeps), ``at_<coordinate>`` for each coordinate of a
    sweep, ``metric`` (of another than the first sensitive attribute ``"attribute:metric"``), ``mean, std`` (dividing by
    the number of seeds, as the paper does), ``low, high`` (interval of the mean), ``seeds`` (that ended well),
    ``failed``, ``published_mean, published_std, published_missing`` (a word such as ``"OOM"``), ``difference,
    difference_low, difference_high`` (ours minus published), ``within_two_std`` (of the published mean, by the
    published standard deviation), ``rank`` (1 best, 2 second best, ... among the labels at one point; none for the
    constant predictor, for the unranked rows, and for the worse of two), ``impossible`` (why a published number cannot
    be right), ``seconds`` (mean), ``peak_mb`` (largest).

    Args:
        results: Of one study, in its order.
        published: The numbers to stand beside ours.
        level: Confidence level of the intervals.
        num_draws: Bootstrap draws.
        intervals: Whether to make intervals of the means, which takes most of the time.
        unranked: Graph, label and point of further rows that decide nothing.
    """
    import pandas as pd

    coordinates = list(dict.fromkeys(name for result in results for name in result.trial.point))
    rows: list[dict[str, Any]] = []
    for runs in _by_row(results):
        rows += _rows(runs, coordinates, published, level, num_draws, intervals)
    frame = pd.DataFrame(rows, columns=_columns(coordinates))
    frame["rank"] = _ranks(frame, unranked)
    for name in ("seeds", "failed"):
        frame[name] = frame[name].astype("int64")
    frame["within_two_std"] = frame["within_two_std"].astype("boolean")
    return frame


def _columns(coordinates: Sequence[str]) -> list[str]:
    return [
        *("graph", "label", "method", "point", *(f"at_{name}" for name in coordinates), "metric"),
        *("mean", "std", "low", "high", "seeds", "failed"),
        *("published_mean", "published_std", "published_missing"),
        *("difference", "difference_low", "difference_high", "within_two_std"),
        *("rank", "impossible", "seconds", "peak_mb"),
    ]


def _by_row(results: Iterable[Result]) -> list[list[Result]]:
    """Results that are seeds of one row."""
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        trial = result.trial
        rows.setdefault((trial.graph, trial.label, show_point(trial.point)), []).append(result)
    return list(rows.values())


def _rows(
    runs: Sequence[Result],
    coordinates: Sequence[str],
    published: Published | None,
    level: float,
    num_draws: int,
    intervals: bool,
) -> list[dict[str, Any]]:
    trial = runs[0].trial
    done = [run for run in runs if run.done]
    names = list(dict.fromkeys(name for run in done for name in run.metrics)) or list(MAIN_METRICS)
    limits = _intervals(done, names, level, num_draws) if intervals and done else {}
    rows = []
    for name in names:
        values = [run.metrics.get(name, math.nan) for run in done]
        mean, std = mean_std(values)
        interval = limits.get(name)
        cell = published.find(trial.graph, trial.label, name) if published is not None and not trial.point else None
        rows.append(
            {
                "graph": trial.graph,
                "label": trial.label,
                "method": trial.method,
                "point": show_point(trial.point),
                **{f"at_{coordinate}": trial.point.get(coordinate, math.nan) for coordinate in coordinates},
                "metric": name,
                "mean": mean,
                "std": std,
                "low": interval.low if interval else math.nan,
                "high": interval.high if interval else math.nan,
                "seeds": len(done),
                "failed": len(runs) - len(done),
                **_beside(values, cell, published, level),
                "seconds": mean_std([run.seconds for run in done])[0],
                "peak_mb": max((run.peak_mb for run in done if not math.isnan(run.peak_mb)), default=math.nan),
            }
        )
    return rows


def _intervals(done: Sequence[Result], names: Sequence[str], level: float, num_draws: int) -> dict[str, Interval]:
    """Intervals of the means over seeds and nodes, of the metrics that can be drawn."""
    predictions = [run.predictions() for run in done]
    if not all(predictions[0].on_same_nodes_as(other) for other in predictions):
        return {}  # runs of one row on different data have no common interval
    first, *_ = predictions[0].partitions
    on_counts = {metric.name for metric in count_metrics()}
    by_attribute: dict[str | None, list[str]] = {}
    for name in names:
        attribute, _, metric = name.rpartition(ATTRIBUTE_SEPARATOR)
        if metric in on_counts or (metric in PAIRED_SCORE_METRICS and predictions[0].scores is not None):
            of_gap = find_metric(metric).kind == "gap"
            by_attribute.setdefault((attribute or first) if of_gap else None, []).append(name)
    found: dict[str, Interval] = {}
    for where, wanted in by_attribute.items():
        found |= _draw(predictions, where, wanted, level, num_draws)
    return found


def _draw(
    predictions: Sequence[Predictions], attribute: str | None, names: Sequence[str], level: float, num_draws: int
) -> dict[str, Interval]:
    shared = SharedNodes.build([("row", run) for run in predictions], attribute)
    metrics = [name.rpartition(ATTRIBUTE_SEPARATOR)[2] for name in names]
    draws = resampled_means([shared], metrics, num_draws=num_draws)
    found = {}
    for name, metric in zip(names, metrics, strict=True):
        of_gap = find_metric(metric).kind == "gap"
        interval = interval_of_draws(
            draws[metric]["row"],
            float(shared.values(metric).mean()),
            level=level,
            method="envelope" if of_gap else "percentile",
        )
        found[name] = replace(interval, low=max(interval.low, 0.0)) if of_gap and interval.defined else interval
    return found


def _beside(
    values: Sequence[float], cell: PublishedValue | None, published: Published | None, level: float
) -> dict[str, Any]:
    if cell is None or published is None:
        cell, seeds = PublishedValue(), 0
    else:
        seeds = published.seeds
    difference, low, high = welch_difference(values, cell.mean, cell.std, seeds, level)
    return {
        "published_mean": cell.mean,
        "published_std": cell.std,
        "published_missing": cell.missing,
        "difference": difference,
        "difference_low": low,
        "difference_high": high,
        "within_two_std": None if math.isnan(difference) else abs(difference) <= 2 * cell.std + ROUNDING,
        "impossible": cell.impossible,
    }


def welch_difference(
    values: Sequence[float], mean: float, std: float, seeds: int, level: float = 0.95
) -> tuple[float, float, float]:
    r"""Our mean over seeds minus a published one, with Welch's interval of the difference.

    .. math::
        d \pm t_\nu \sqrt{v_1 + v_2}, \quad v_i = s_i^2 / (n_i - 1), \quad
        \nu = \frac{(v_1 + v_2)^2}{v_1^2 / (n_1 - 1) + v_2^2 / (n_2 - 1)}

    with standard deviations :math:`s_i` that divide by :math:`n_i`, as the paper's do.

    Args:
        values: Ours, one per seed; undefined ones are left out.
        mean: The published mean.
        std: Its standard deviation.
        seeds: Runs behind it.
        level: Confidence level.

    Returns:
        Difference, lower and upper end; NaN where undefined. Without any spread on either side the ends are the
        difference itself.
    """
    ours, ours_std = mean_std(values)
    count = int(np.sum(~np.isnan(np.asarray(values, dtype=np.float64))))
    difference = ours - mean
    if math.isnan(difference) or count < 2 or seeds < 2:
        return difference, math.nan, math.nan
    variances = ours_std**2 / (count - 1), std**2 / (seeds - 1)
    total = sum(variances)
    if total == 0:
        return difference, difference, difference
    from scipy.special import stdtrit

    freedom = total**2 / (variances[0] ** 2 / (count - 1) + variances[1] ** 2 / (seeds - 1))
    half = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(total)
    return difference, difference - half, difference + half


def _ranks(frame: pd.DataFrame, unranked: Collection[tuple[str, str, str]]) -> pd.Series[Any]:
    """1 for the best mean among the labels of a graph, point and metric; equal means share it.

    One row alone has no rank, and of two the worse has none: as "second best" it would be praised for coming last.
    """
    import pandas as pd

    ranks = pd.Series(pd.NA, index=frame.index, dtype="Int64")
    rows = zip(frame["graph"], frame["label"], frame["point"], strict=True)
    decides = ~frame["method"].isin(UNRANKED_METHODS) & pd.Series(
        [row not in unranked for row in rows], index=frame.index, dtype=bool
    )
    ranked = frame[decides & frame["mean"].notna()]
    for (_, _, metric), group in ranked.groupby(["graph", "point", "metric"], sort=False):
        if len(group) < 2:
            continue
        higher = find_metric(str(metric).rpartition(ATTRIBUTE_SEPARATOR)[2]).better == "higher"
        places = group["mean"].rank(method="min", ascending=not higher).astype("Int64")
        ranks.loc[group.index] = places.mask(places > 1) if len(group) == 2 else places
    return ranks
