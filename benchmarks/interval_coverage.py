"""How often the 95 % intervals of the evaluation cover the true value, on simulated data sets with known gaps.

Run ``python benchmarks/interval_coverage.py`` to measure and to write ``interval_coverage.md`` beside this file. With
N data sets the share itself is known to about ± 2 sqrt(0.95 × 0.05 / N): ± 1.4 % for 1 000 and ± 2 % for 500.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fairsad.evaluation.intervals import (
    Interval,
    Method,
    bootstrap,
    bootstrap_draws,
    bootstrap_estimates,
    difference_limits,
    estimate_gap,
    interval_of_draws,
    mean_interval,
    normal_quantile,
    wilson_limits,
)
from fairsad.evaluation.pairing import paired_difference
from fairsad.evaluation.predictions import Predictions
from fairsad.evaluation.rates import (
    RATES,
    CountArray,
    FloatArray,
    GroupCounts,
    Metric,
    Rate,
    get_metric,
    measure,
)
from fairsad.evaluation.scores import auc_by_group, auc_estimate, auc_gap_estimate, auc_with_influence
from fairsad.groups import Groups

LEVEL = 0.95
NUM_DRAWS = 1000
GAP_METRICS = ("demographic_parity_gap", "equal_opportunity_gap", "equalised_odds_gap")


@dataclass(frozen=True)
class Population:
    """People of known groups, half of them with a positive label, and a predictor with a known rate in each group.

    The prediction does not depend on the label, so the selection, true positive and false positive rates of a group
    are all ``rates[group]``, and all three gaps are the largest minus the smallest rate.

    Attributes:
        rates: P(prediction = 1) in each group.
        shares: Share of each group.
    """

    rates: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def gap(self) -> float:
        """The true gap."""
        return max(self.rates) - min(self.rates)

    def draw(self, size: int, generator: np.random.Generator) -> GroupCounts:
        """Counts of one sample."""
        cells = [
            share * 0.5 * answer
            for share, rate in zip(self.shares, self.rates, strict=True)
            for _ in range(2)
            for answer in (1 - rate, rate)
        ]
        counts = generator.multinomial(size, cells).reshape(-1, 2, 2)
        return GroupCounts(counts, tuple(f"group={i}" for i in range(len(self.rates))), ("0", "1"))


EVEN, SKEWED = (0.5, 0.5), (0.8, 0.2)
TWO_GROUPS = tuple(
    Population(rates, shares)
    for shares in (EVEN, SKEWED)
    for rates in ((0.6, 0.6), (0.6, 0.65), (0.6, 0.7), (0.6, 0.8), (0.92, 0.92))
)
FOUR_GROUPS = tuple(
    Population(rates, (0.4, 0.3, 0.2, 0.1)) for rates in ((0.6,) * 4, (0.6, 0.65, 0.65, 0.7), (0.5, 0.6, 0.6, 0.8))
)


def _signed(rate: Rate, counts: CountArray, positive: int) -> FloatArray:
    rates = rate(counts, positive)
    difference: FloatArray = rates[..., 1] - rates[..., 0]
    return difference


def signed_metric(rate_name: str) -> Metric:
    """The signed difference of a rate between two groups, as a metric that can be bootstrapped."""
    return Metric("signed", partial(_signed, RATES[rate_name]), "signed difference", "lower", "gap")


def fold(low: float, high: float) -> Interval:
    """The absolute values of an interval of the signed difference."""
    ends = sorted((abs(low), abs(high)))
    return Interval(0.0 if low <= 0 <= high else ends[0], ends[1])


def gap_coverage(
    population: Population, metric_name: str, size: int, data_sets: int, seed: int = 0, *, candidates: bool = True
) -> dict[str, float]:
    """Share of data sets whose interval covers the true gap (or signed difference), for each kind of interval.

    ``"gap"`` and ``"signed"`` are the library's; the other candidates are what it could have used.
    """
    generator = np.random.default_rng(seed)
    metric = get_metric(metric_name)
    two_groups = len(population.rates) == 2 and len(metric.rates) == 1
    true_difference = population.rates[-1] - population.rates[0]
    hits: dict[str, list[bool]] = {}
    for data_set in range(data_sets):
        counts = population.draw(size, generator)
        estimate = estimate_gap(metric, counts, level=LEVEL)
        assert estimate.interval is not None
        covered = {"gap": covers(estimate.interval, population.gap)}
        if estimate.difference is not None:
            covered["signed"] = covers(estimate.difference.interval, true_difference)
        if candidates and two_groups:
            covered |= _candidates(counts, metric, population.gap, true_difference, data_set)
        for name, hit in covered.items():
            hits.setdefault(name, []).append(hit)
    return {name: float(np.mean(each)) for name, each in hits.items()}


def _candidates(counts: GroupCounts, metric: Metric, gap: float, difference: float, seed: int) -> dict[str, bool]:
    signed = signed_metric(metric.rates[0])
    draws = bootstrap_draws(counts, [signed, metric], num_draws=NUM_DRAWS, seed=seed)
    observed = float(signed(counts.counts, 1))
    covered = {}
    for method in ("percentile", "basic", "bca"):
        interval = _bootstrapped(signed, counts, method, seed)
        covered[f"signed, {method}"] = covers(interval, difference)
    interval = interval_of_draws(draws["signed"], observed, level=LEVEL)
    covered["gap, percentile of the signed folded"] = covers(fold(interval.low, interval.high), gap)
    covered["gap, percentile"] = covers(
        interval_of_draws(draws[metric.name], measure(metric, counts).value, level=LEVEL), gap
    )
    hits, cases = RATES[metric.rates[0]].parts(counts.counts, 1)
    low, high = difference_limits(hits / cases, wilson_limits(hits, cases, normal_quantile(LEVEL)))
    covered["gap, square-and-add folded"] = covers(fold(low[1, 0], high[1, 0]), gap)
    return covered


def _bootstrapped(metric: Metric, counts: GroupCounts, method: str, seed: int) -> Interval:
    methods: dict[str, Method] = {"percentile": "percentile", "basic": "basic", "bca": "bca"}
    return bootstrap(metric, counts, level=LEVEL, num_draws=NUM_DRAWS, method=methods[method], seed=seed)


def covers(interval: Interval, truth: float) -> bool:
    """Whether the interval contains the truth, up to rounding."""
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def other_coverage(data_sets: int, seed: int = 0) -> Iterator[tuple[str, int, float]]:
    """Coverage of the other intervals of the library: name, number of rows, share covered."""
    for size in (250, 5000):
        yield from _utility_coverage(size, data_sets, seed)
        yield from _auc_coverage(size, data_sets, seed)
        yield from _paired_coverage(size, min(data_sets, 500), seed)
    generator = np.random.default_rng(seed)
    covered = [covers(mean_interval(generator.normal(size=5)), 0.0) for _ in range(data_sets)]
    yield "mean over five seeds (t)", 5, float(np.mean(covered))


def _utility_coverage(size: int, data_sets: int, seed: int) -> Iterator[tuple[str, int, float]]:
    cells = np.array([[[0.3, 0.1], [0.12, 0.48]]])
    metrics = [get_metric(name) for name in ("accuracy", "balanced_accuracy", "f1")]
    generator = np.random.default_rng(seed)
    hits: dict[str, list[bool]] = {}
    for data_set in range(data_sets):
        counts = GroupCounts(generator.multinomial(size, cells.ravel()).reshape(cells.shape), ("all",), ("0", "1"))
        estimates = bootstrap_estimates(metrics, counts, level=LEVEL, num_draws=NUM_DRAWS, seed=data_set)
        for metric in metrics:
            interval = estimates[metric.name].interval
            assert interval is not None
            name = f"{metric.title} ({interval.method})"
            hits.setdefault(name, []).append(covers(interval, float(metric(cells, 1))))
    for name, each in hits.items():
        yield name, size, float(np.mean(each))


def _auc_coverage(size: int, data_sets: int, seed: int) -> Iterator[tuple[str, int, float]]:
    from scipy.special import ndtr

    generator = np.random.default_rng(seed)
    shifts = np.array([1.2, 1.8])  # distance of the classes in each group, in standard deviations
    truth = ndtr(shifts / np.sqrt(2))
    single, gaps, signed = [], [], []
    for _ in range(data_sets):
        groups = Groups((generator.random(size) < 0.3).astype(np.int64), ("group=0", "group=1"))
        labels = generator.random(size) < 0.4
        scores = generator.normal(size=size) + labels * shifts[groups.codes]
        results = auc_by_group(labels, scores, groups)
        estimate = auc_gap_estimate(results, groups.names, LEVEL)
        assert estimate.interval is not None
        assert estimate.difference is not None
        gaps.append(covers(estimate.interval, truth[1] - truth[0]))
        signed.append(covers(estimate.difference.interval, truth[1] - truth[0]))
        alone = auc_estimate(auc_with_influence(labels[groups.codes == 1], scores[groups.codes == 1]), LEVEL).interval
        assert alone is not None
        single.append(covers(alone, truth[1]))
    yield "AUC of a group (DeLong, logit)", size, float(np.mean(single))
    yield "AUC gap", size, float(np.mean(gaps))
    yield "AUC difference, signed", size, float(np.mean(signed))


def _paired_coverage(size: int, data_sets: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Two predictors of the same nodes that answer alike on 70 % of them, with the true gaps named."""
    for own_gaps in ((0.0, 0.0), (0.15, 0.15), (0.0, 0.15), (0.0, 0.4)):
        generator = np.random.default_rng(seed)

        def draw(
            rows: int, gaps: tuple[float, float] = own_gaps, generator: np.random.Generator = generator
        ) -> tuple[Predictions, Predictions]:
            groups = (generator.random(rows) < 0.4).astype(np.int64)
            labels = (generator.random(rows) < 0.5).astype(np.int64)
            alike, answer = generator.random(rows) < 0.7, generator.random(rows)
            both = []
            for gap in gaps:
                own = np.where(alike, answer, generator.random(rows))
                predictions = (own < 0.2 + 0.4 * labels + gap * groups).astype(np.int64)
                both.append(Predictions.build(labels, predictions, {"group": groups}))
            return both[0], both[1]

        many = draw(2_000_000)
        for name, attribute in (("accuracy", None), ("demographic_parity_gap", "group")):
            values = [measure(name, predictions.counts(attribute)).value for predictions in many]
            truth = own_gaps[0] - own_gaps[1] if attribute else values[0] - values[1]
            hits = []
            for data_set in range(data_sets):
                first, second = draw(size)
                found = paired_difference(
                    first, second, name, attribute=attribute, num_draws=NUM_DRAWS, seed=data_set, p_value=False
                )
                hits.append(covers(found.interval, truth))
            yield f"{get_metric(name).title}, paired, gaps {own_gaps[0]} and {own_gaps[1]}", size, float(np.mean(hits))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, [":---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def measure_all(data_sets: int, progress: Callable[[str], None]) -> str:
    """All measurements as Markdown."""
    candidates = (
        "gap",
        "signed",
        "signed, percentile",
        "signed, basic",
        "signed, bca",
        "gap, square-and-add folded",
        "gap, percentile of the signed folded",
        "gap, percentile",
    )
    two, four = [], []
    for size in (250, 5000):
        for population in (*TWO_GROUPS, *FOUR_GROUPS):
            for name in GAP_METRICS:
                shares = gap_coverage(population, name, size, data_sets)
                who = (
                    f"{get_metric(name).symbol or get_metric(name).title}, rates "
                    f"{', '.join(map(str, population.rates))}, smallest group {min(population.shares):.0%}"
                )
                if len(population.rates) == 2 and name != "equalised_odds_gap":
                    two.append([who, str(size), *(_percent(shares[candidate]) for candidate in candidates)])
                else:
                    four.append([who, str(size), f"{population.gap:.2f}", _percent(shares["gap"])])
                progress(who)
    others = [[name, str(size), _percent(share)] for name, size, share in other_coverage(data_sets)]
    return "\n\n".join(
        [
            "# Coverage of the 95 % intervals",
            f"Share (%) of {data_sets} simulated data sets whose interval contains the true value; 95 is the promise. "
            f"Written by `interval_coverage.py`; bootstrap intervals from {NUM_DRAWS} draws.",
            "## One rate, two groups",
            "The first two columns are what the library reports: the gap's unified interval, and the signed difference "
            "with square-and-add limits. The others are what it does not use. Percentiles of the gap never reach zero; "
            "percentiles of the signed difference fall short when a group is small and its rate near 1; folding "
            "overshoots where the gap is about one standard error.",
            table(("case", "rows", *candidates), two),
            "## Several differences at once",
            "More than two groups, or two rates: simultaneous, and meant to err on the high side.",
            table(("case", "rows", "true gap", "gap"), four),
            "## Other intervals",
            table(("interval", "rows", "covered"), others),
        ]
    )


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    started = time.perf_counter()
    text = measure_all(arguments.data_sets, lambda what: print(f"{time.perf_counter() - started:6.0f} s  {what}"))
    arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
