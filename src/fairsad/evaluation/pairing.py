"""Several predictors on the same nodes: paired differences, permutation tests, and resampling over seeds and splits.

Two models that err on the same nodes differ far less by chance than two separate intervals suggest, so the nodes are
drawn once for all of them. For metrics on counts the cells of that draw are the distinct rows (group, label,
prediction of each model); for AUC the draws come from a normal distribution with DeLong's covariance of the models.

A difference of two gaps has a kink where either of them is zero, and no simple interval is exact there. The one used
takes the wider of percentile and basic limits on each side. ``benchmarks/interval_coverage.md`` shows what it does:
where the two true gaps are equal it covers at least as often as promised, so a difference is not claimed too often;
where one model has no gap and the other one of about two standard errors it covers about 90 %, by understating the
difference. The permutation p-value does not have that weakness.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.evaluation.intervals import CELLS_PER_BLOCK, Interval, Method, interval_of_draws, values_in_draws
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import CountArray, FloatArray, IntArray, divide, gap, get_metric
from fairsad.evaluation.scores import auc_by_group, find_metric
from fairsad.groups import Groups

# The metrics on scores whose sampling error is known jointly for several models.
PAIRED_SCORE_METRICS = ("auc", "auc_gap")


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """Several predictors on the same nodes, seen through one partition of them.

    Nodes whose label, group or prediction by any of the predictors is unknown are left out of all.

    Attributes:
        models: Model of each column; a name that occurs several times is one model with several seeds.
        groups: Partition of the nodes that are counted.
        labels: int64 [n].
        predictions: int64 [n, columns].
        scores: Scores of each column and target class, float64 [columns, targets, n], or None if a column has none.
        num_classes: Number of classes.
        positive: Code of the positive class, or None.
    """

    models: tuple[str, ...]
    groups: Groups
    labels: IntArray
    predictions: IntArray
    scores: FloatArray | None
    num_classes: int
    positive: int | None

    @classmethod
    def build(cls, columns: Sequence[tuple[str, Predictions]], attribute: str | None = None) -> SharedNodes:
        """Line up predictions of the same nodes.

        Args:
            columns: Model name and predictions, one per model and seed.
            attribute: Partition for the gaps (default: all nodes as one group, for metrics of utility).

        Raises:
            DataError: If there is nothing to line up, or it is not about the same nodes.
        """
        if not columns:
            raise DataError("there are no predictions to compare; expected at least one. Pass some.")
        first = columns[0][1]
        for name, other in columns:
            if not first.on_same_nodes_as(other):
                raise DataError(
                    f"the predictions of '{name}' are about other nodes than those of '{columns[0][0]}' (labels, "
                    "groups or classes differ); expected the same nodes in the same order. Evaluate both on one table."
                )
        everyone = Groups(np.zeros(len(first.labels), dtype=np.int64), ("all",))
        groups = everyone if attribute is None else first.partitions[attribute]
        predictions = np.stack([column.predictions for _, column in columns], axis=1)
        known = (first.labels >= 0) & (groups.codes >= 0) & (predictions >= 0).all(axis=1)
        scores = None
        if all(column.scores is not None for _, column in columns):
            scores = np.array([[c.scores_of(target)[known] for target in c.targets] for _, c in columns])
        return cls(
            tuple(name for name, _ in columns),
            Groups(groups.codes[known], groups.names),
            first.labels[known],
            predictions[known],
            scores,
            len(first.class_names),
            first.positive,
        )

    def columns_of(self, model: str) -> IntArray:
        """Columns of a model, one per seed."""
        columns = np.array([i for i, name in enumerate(self.models) if name == model], dtype=np.int64)
        if not len(columns):
            raise DataError(
                f"there is no model called '{model}'; expected one of: {', '.join(dict.fromkeys(self.models))}."
            )
        return columns

    @functools.cached_property
    def _patterns(self) -> tuple[IntArray, IntArray]:
        """How often each distinct row occurs [patterns], and its cell of the counts [patterns, columns]."""
        cell = self.groups.codes * self.num_classes + self.labels
        cells = cell[:, None] * self.num_classes + self.predictions
        # One key per distinct row, built column by column so that it never overflows.
        key = cell
        for column in self.predictions.T:
            key = np.unique(key * self.num_classes + column, return_inverse=True)[1]
        _, examples, multiplicity = np.unique(key, return_index=True, return_counts=True)
        return multiplicity, cells[examples]

    def tally(self, weights: CountArray) -> FloatArray:
        """Counts [draws, columns, groups, classes, classes] with ``weights`` [draws, patterns] rows of each pattern."""
        from scipy.sparse import csr_array  # slow to import, and needed for comparisons only

        _, cells = self._patterns
        num_patterns, num_columns = cells.shape
        num_cells = len(self.groups) * self.num_classes**2
        positions = cells + np.arange(num_columns) * num_cells
        starts = np.arange(0, cells.size + 1, num_columns)
        indicator = csr_array(
            (np.ones(cells.size), positions.reshape(-1), starts), shape=(num_patterns, num_columns * num_cells)
        )
        counts: FloatArray = indicator.T.dot(weights.T.astype(np.float64)).T
        return counts.reshape(len(weights), num_columns, len(self.groups), self.num_classes, self.num_classes)

    @functools.cached_property
    def _counts(self) -> FloatArray:
        counts: FloatArray = self.tally(self._patterns[0][None])[0]
        return counts

    def values(self, metric: str) -> FloatArray:
        """The metric of each column [columns]."""
        if metric in PAIRED_SCORE_METRICS:
            return self._score_value(metric, self._auc[0])
        return get_metric(metric)(self._counts, self.positive)

    def draws(self, metrics: Sequence[str], num_draws: int, generator: np.random.Generator) -> dict[str, FloatArray]:
        """Values [draws, columns] of the metrics in resamples of the nodes that are shared by all columns."""
        on_counts = [get_metric(name) for name in metrics if name not in PAIRED_SCORE_METRICS]
        blocks: dict[str, list[FloatArray]] = {metric.name: [] for metric in on_counts}
        for weights in self._blocks(num_draws, generator) if on_counts else ():
            counts = self.tally(weights)
            for metric in on_counts:
                blocks[metric.name].append(values_in_draws(metric, counts, self._counts, self.positive))
        drawn = {name: np.concatenate(parts) for name, parts in blocks.items()}
        if wanted := [name for name in metrics if name in PAIRED_SCORE_METRICS]:
            aucs = self._draw_auc(num_draws, generator)
            drawn |= {name: self._score_value(name, aucs) for name in wanted}
        return drawn

    def only(self, *models: str) -> SharedNodes:
        """The columns of some models alone, which leaves fewer distinct rows."""
        columns = [i for i, name in enumerate(self.models) if name in models]
        return replace(
            self,
            models=tuple(self.models[i] for i in columns),
            predictions=self.predictions[:, columns],
            scores=None if self.scores is None else self.scores[columns],
        )

    def exchanged(
        self, metrics: Sequence[str], pairs: Sequence[tuple[int, int]], num_draws: int, generator: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Differences of metrics on counts after exchanging the columns of each pair on a random half of the nodes.

        Args:
            metrics: Metrics on counts.
            pairs: Pairs of columns; on a node either all pairs are exchanged or none.
            num_draws: How many exchanges.
            generator: Source of randomness.

        Returns:
            By metric the first minus the second column, mean over the pairs, [draws].
        """
        chosen = [get_metric(name) for name in metrics]
        first, second = np.array(pairs).T
        multiplicity, _ = self._patterns
        blocks: dict[str, list[FloatArray]] = {name: [] for name in metrics}
        for size in _block_sizes(num_draws, max(len(multiplicity), self._counts.size)):
            # Every node of a pattern is exchanged with probability 1/2, so their number is binomial.
            exchanged = self.tally(generator.binomial(multiplicity, 0.5, size=(size, len(multiplicity))))
            moved = exchanged[:, second] - exchanged[:, first]
            ours, theirs = self._counts[first] + moved, self._counts[second] - moved
            for metric in chosen:
                difference = values_in_draws(metric, ours, self._counts[first], self.positive) - values_in_draws(
                    metric, theirs, self._counts[second], self.positive
                )
                blocks[metric.name].append(difference.mean(axis=1))
        return {name: np.concatenate(parts) for name, parts in blocks.items()}

    def _blocks(self, num_draws: int, generator: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
        multiplicity, _ = self._patterns
        rows = int(multiplicity.sum())
        if not rows:
            raise DataError(
                "no node has a known label, group and prediction; expected at least one. Check the columns."
            )
        for size in _block_sizes(num_draws, max(len(multiplicity), self._counts.size)):
            yield generator.multinomial(rows, multiplicity / rows, size=size)

    @functools.cached_property
    def _auc(self) -> tuple[FloatArray, FloatArray]:
        """AUC [columns, targets, groups] and its covariance [groups, columns × targets, columns × targets]."""
        if self.scores is None:
            raise DataError("a model has no scores; expected scores of every model for AUC. Leave the metric out.")
        num_columns, num_targets, _ = self.scores.shape
        scored = ~np.isnan(self.scores).any(axis=(0, 1))
        labels, groups = self.labels[scored], Groups(self.groups.codes[scored], self.groups.names)
        targets = range(num_targets) if self.positive is None else [self.positive]
        values = np.empty((num_columns, num_targets, len(groups)))
        influences: list[list[FloatArray]] = [[] for _ in groups.names]
        for column in range(num_columns):
            for position, target in enumerate(targets):
                results = auc_by_group(labels == target, self.scores[column, position, scored], groups)
                for group, result in enumerate(results):
                    values[column, position, group] = result.value
                    influences[group].append(result.influence)
        stacked = [np.stack(rows) for rows in influences]
        return values, np.stack([rows @ rows.T for rows in stacked])

    def _draw_auc(self, num_draws: int, generator: np.random.Generator) -> FloatArray:
        values, covariances = self._auc
        draws = np.full((num_draws, *values.shape), np.nan)
        for group, covariance in enumerate(covariances):
            mean = values[..., group].reshape(-1)
            # One positive alone has no variance, and that of separated classes, 0, is not to be believed.
            defined = np.diagonal(covariance) > 0
            if defined.any():
                noise = generator.multivariate_normal(
                    np.zeros(defined.sum()), covariance[np.ix_(defined, defined)], size=num_draws, check_valid="ignore"
                )
                flat = np.full((num_draws, len(mean)), np.nan)
                flat[:, defined] = mean[defined] + noise
                draws[..., group] = flat.reshape(num_draws, *values.shape[:-1])
        return draws

    def _score_value(self, metric: str, aucs: FloatArray) -> FloatArray:
        """From AUCs [..., columns, targets, groups] to the metric, averaged over the targets, [..., columns].

        Groups and targets count where the data have an AUC; one that a draw has none for makes the draw undefined.
        """
        observed, _ = self._auc
        lost = (np.isnan(aucs) & ~np.isnan(observed)).any(axis=(-2, -1))
        each, of_data = (gap(aucs), gap(observed)) if metric == "auc_gap" else (aucs[..., 0], observed[..., 0])
        counted = ~np.isnan(of_data)
        mean = divide(np.where(counted, each, 0.0).sum(axis=-1), counted.sum(axis=-1))
        return np.where(lost, np.nan, mean)


def _block_sizes(num_draws: int, cells: int) -> Iterator[int]:
    size = max(1, CELLS_PER_BLOCK // max(1, cells))
    for start in range(0, num_draws, size):
        yield min(size, num_draws - start)


# --------------------------------------------------------------------------------------------------------------
# Over splits, seeds and nodes


def resampled_means(
    splits: Sequence[SharedNodes], metrics: Sequence[str], *, num_draws: int = 2000, seed: int = 0
) -> dict[str, dict[str, FloatArray]]:
    """Mean of each model over splits and seeds, in draws over splits, over seeds within them, and over nodes.

    Splits, and seeds within a split, are drawn with replacement, one fewer than there are (Rao and Wu, 1988): drawing
    as many as there are understates the variance of the mean of k by the factor (k - 1) / k, which matters for five
    seeds. A level with one unit only does not vary, and the interval then does not speak of it. Nodes are drawn once
    per split for all models and seeds.

    Returns:
        Metric, then model, to the means [draws].
    """
    generator = np.random.default_rng(seed)
    models = dict.fromkeys(name for split in splits for name in split.models)
    drawn_splits = max(1, len(splits) - 1)
    chosen = generator.multinomial(drawn_splits, [1 / len(splits)] * len(splits), size=num_draws)
    sums = {metric: {model: np.zeros(num_draws) for model in models} for metric in metrics}
    for position, split in enumerate(splits):
        # One resample of the nodes for every time that the split was drawn, in whichever draw.
        owner = np.repeat(np.arange(num_draws), chosen[:, position])
        if not len(owner):
            continue
        values = split.draws(metrics, len(owner), generator)
        for model in models:
            columns = split.columns_of(model)
            picked = columns[generator.integers(len(columns), size=(len(owner), max(1, len(columns) - 1)))]
            for metric in metrics:
                means = np.take_along_axis(values[metric], picked, axis=1).mean(axis=1)
                sums[metric][model] += np.bincount(owner, weights=means, minlength=num_draws)
    return {
        metric: {model: total / drawn_splits for model, total in by_model.items()} for metric, by_model in sums.items()
    }


def mean_over_seeds(splits: Sequence[SharedNodes], metric: str, model: str) -> float:
    """Mean over splits of the mean over seeds; NaN if one of them is undefined."""
    return float(np.mean([split.values(metric)[split.columns_of(model)].mean() for split in splits]))


@dataclass(frozen=True)
class HierarchicalEstimate:
    """A mean over splits and seeds, with an interval that also allows for other nodes.

    Attributes:
        value: Mean over splits of the mean over seeds.
        interval: Interval of the draws; of a gap not below zero.
        bias: Mean of the draws minus the value. A gap is biased upward by about this much, once in the value already.
        num_splits: Number of splits; with one, the interval says nothing about other splits.
        num_seeds: Smallest number of seeds in a split; with one, the interval says nothing about other seeds.
    """

    value: float
    interval: Interval
    bias: float
    num_splits: int
    num_seeds: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "value": _number(self.value),
            "interval": self.interval.to_dict(),
            "bias": _number(self.bias),
            "num_splits": self.num_splits,
            "num_seeds": self.num_seeds,
        }


def hierarchical_bootstrap(
    splits: Sequence[Sequence[Predictions]],
    metric: str,
    *,
    attribute: str | None = None,
    level: float = 0.95,
    num_draws: int = 2000,
    seed: int = 0,
) -> HierarchicalEstimate:
    """Mean of a metric over splits and seeds, with an interval over splits, seeds and test nodes at once.

    With several splits it is conservative, because the spread of the splits' means contains the spread of seeds and
    nodes already; with fewer than about five it is too narrow for splits that differ much.

    Args:
        splits: For each split the predictions by each seed, all on that split's test nodes.
        metric: A metric on counts, ``"auc"`` or ``"auc_gap"``.
        attribute: Partition for a gap.
        level: Confidence level.
        num_draws: Number of draws.
        seed: Seed of the draws.

    Raises:
        DataError: If there is no run, or the runs of a split are not about the same nodes.
    """
    if not splits:
        raise DataError("there are no splits; expected at least one, with a run each. Pass [[predictions]] for one.")
    shared = [SharedNodes.build([("model", run) for run in split], attribute) for split in splits]
    draws = resampled_means(shared, [metric], num_draws=num_draws, seed=seed)[metric]["model"]
    value = mean_over_seeds(shared, metric, "model")
    defined = draws[~np.isnan(draws)]
    interval = interval_of_draws(draws, value, level=level, method=_method(metric))
    if interval.defined and find_metric(metric).kind == "gap":
        interval = replace(interval, low=max(interval.low, 0.0))
    return HierarchicalEstimate(
        value,
        interval,
        float(defined.mean()) - value if len(defined) else float("nan"),
        len(splits),
        min(len(split) for split in splits),
    )


# --------------------------------------------------------------------------------------------------------------
# Paired differences


@dataclass(frozen=True)
class PairedDifference:
    """A model minus a reference on the same nodes.

    Attributes:
        metric: Name of the metric.
        value: Difference of the means over seeds and splits.
        interval: Its interval over nodes, seeds and splits drawn jointly.
        p_value: Of the test that model and reference are exchangeable; NaN where there is none.
        test: How the p-value was made, or why there is none.
    """

    metric: str
    value: float
    interval: Interval
    p_value: float
    test: str

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.interval.defined and not self.interval.contains(0.0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "metric": self.metric,
            "value": _number(self.value),
            "interval": self.interval.to_dict(),
            "p_value": _number(self.p_value),
            "test": self.test,
        }


def paired_differences(
    splits: Sequence[SharedNodes],
    metrics: Sequence[str],
    reference: str,
    *,
    level: float = 0.95,
    num_draws: int = 2000,
    seed: int = 0,
    p_values: bool = True,
) -> dict[str, dict[str, PairedDifference]]:
    """Every other model minus the reference, on the same draws of splits, seeds and nodes.

    Args:
        splits: The models' predictions, one entry per split.
        metrics: Metrics on counts, ``"auc"`` and ``"auc_gap"``.
        reference: Name of the model that is subtracted.
        level: Confidence level.
        num_draws: Number of draws for intervals and for p-values.
        seed: Seed of the draws.
        p_values: Whether to test by permutation as well.

    Returns:
        Metric, then model, to the difference.
    """
    means = resampled_means(splits, metrics, num_draws=num_draws, seed=seed)
    models = [name for name in dict.fromkeys(splits[0].models) if name != reference]
    found: dict[str, dict[str, PairedDifference]] = {metric: {} for metric in metrics}
    for model in models:
        tests = {metric: (float("nan"), "none: not asked for") for metric in metrics}
        if p_values:
            tests = permutation_p_values(splits, metrics, model, reference, num_draws=num_draws, seed=seed)
        for metric in metrics:
            value = mean_over_seeds(splits, metric, model) - mean_over_seeds(splits, metric, reference)
            draws = means[metric][model] - means[metric][reference]
            interval = interval_of_draws(draws, value, level=level, method=_method(metric))
            found[metric][model] = PairedDifference(metric, value, interval, *tests[metric])
    return found


def permutation_p_values(
    splits: Sequence[SharedNodes],
    metrics: Sequence[str],
    model: str,
    reference: str,
    *,
    num_draws: int = 10_000,
    seed: int = 0,
) -> dict[str, tuple[float, str]]:
    """Two-sided p-values of the hypothesis that, node by node, it does not matter which of the two models answered.

    The two answers of each node are exchanged with probability 1/2, for all seeds at once; the p-value is the share of
    exchanges with a difference at least as large as the observed one, which counts itself.

    Returns:
        For each metric the p-value and how it was made, or NaN and why there is none.
    """
    on_scores = "none: the scores of two models have no common scale on which to exchange them"
    found = {name: (float("nan"), on_scores) for name in metrics if name in PAIRED_SCORE_METRICS}
    on_counts = [name for name in metrics if name not in PAIRED_SCORE_METRICS]
    pairs_of_models = [split.only(model, reference) for split in splits]
    columns = [(split.columns_of(model), split.columns_of(reference)) for split in pairs_of_models]
    if any(len(ours) != len(theirs) for ours, theirs in columns):
        return found | dict.fromkeys(on_counts, (float("nan"), "none: the models have different numbers of seeds"))
    generator = np.random.default_rng(seed)
    differences = {name: np.zeros(num_draws) for name in on_counts}
    for split, (ours, theirs) in zip(pairs_of_models, columns, strict=True):
        exchanged = split.exchanged(
            on_counts, list(zip(ours.tolist(), theirs.tolist(), strict=True)), num_draws, generator
        )
        for name in on_counts:
            differences[name] += exchanged[name] / len(splits)
    for name in on_counts:
        observed = abs(mean_over_seeds(splits, name, model) - mean_over_seeds(splits, name, reference))
        if np.isnan(observed):
            found[name] = (float("nan"), "none: the metric is undefined")
            continue
        defined = np.abs(differences[name][~np.isnan(differences[name])])
        # Equal differences come out of different sums, so they may differ in the last bits.
        extreme = int((defined >= observed - 1e-12).sum())
        found[name] = ((extreme + 1) / (len(defined) + 1), f"permutation, {len(defined)} exchanges")
    return found


def _method(metric: str) -> Method:
    return "envelope" if find_metric(metric).kind == "gap" else "percentile"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def paired_difference(
    model: Predictions,
    reference: Predictions,
    metric: str,
    *,
    attribute: str | None = None,
    level: float = 0.95,
    num_draws: int = 10_000,
    seed: int = 0,
    p_value: bool = True,
) -> PairedDifference:
    """One model minus another on the same nodes, with interval and permutation p-value.

    Args:
        model: Its predictions.
        reference: Predictions of the model that is subtracted.
        metric: A metric on counts, ``"auc"`` or ``"auc_gap"``.
        attribute: Partition for a gap.
        level: Confidence level.
        num_draws: Number of draws.
        seed: Seed of the draws.
        p_value: Whether to test by permutation as well.
    """
    shared = SharedNodes.build([("model", model), ("reference", reference)], attribute)
    found = paired_differences(
        [shared], [metric], "reference", level=level, num_draws=num_draws, seed=seed, p_values=p_value
    )
    return found[metric]["model"]
