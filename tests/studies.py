"""Small studies that several tests share, and results made by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fairsad.evaluation.evaluate import evaluate_predictions
from fairsad.evaluation.predictions import Predictions
from fairsad.experiments.execute import headline
from fairsad.experiments.plan import Row, plan, sweep
from fairsad.experiments.protocol import provenance
from fairsad.experiments.store import Result, Store, Study, Trial
from fairsad.groups import Groups

GRAPH = "synthetic:nodes=300,seed=1"
PROTOCOL: dict[str, Any] = {
    "graph": "made up",
    "fingerprint": "0123",
    "split": {"recipe": "by hand", "hash": "4567"},
    "sensitive_in_features": True,
    "threshold": "score > 0",
}


@cache
def quick_plan(seeds: int = 2, epochs: int = 4) -> Study:
    """A GCN and FairSAD on a generated graph, seconds to run."""
    return plan("compare", "A quick study", [Row("GCN", "gcn"), Row("FairSAD", "fairsad")], [GRAPH], seeds=seeds,
                overrides={"epochs": epochs})  # fmt: skip


def predictions(right: float, positive: tuple[float, float], seed: int = 0, rows: int = 400) -> Predictions:
    """Predictions of two groups of which so many are right, or positive where they are not."""
    chance = np.random.default_rng(12345)  # the same people for every model
    labels = chance.integers(0, 2, rows)
    groups = chance.integers(0, 2, rows)
    own = np.random.default_rng(seed)
    guess = (own.random(rows) < np.asarray(positive)[groups]).astype(np.int64)
    predicted = np.where(own.random(rows) < right, labels, guess)
    scores = predicted + 0.3 * labels + 0.5 * own.random(rows)
    return Predictions.build(
        labels, predicted, {"sex": Groups(groups, ("sex=m", "sex=f"))}, scores, class_names=["no", "yes"]
    )


def result(trial: Trial, made: Predictions) -> Result:
    """The result of a trial that predicted this."""
    evaluation = evaluate_predictions(
        made.labels, made.predictions, dict(made.partitions), made.scores, class_names=made.class_names
    )
    return Result(
        trial,
        "done",
        metrics=headline(evaluation),
        evaluation=evaluation.to_dict(),
        protocol=PROTOCOL | provenance(),
        seconds=1.5,
        peak_mb=600.0,
    )


def made_up(store: Store, *, graph: str = "german", seeds: int = 3, published: str = "comparison") -> Study:
    """A finished comparison in a store: a GCN with a gap, FairSAD with a smaller one, a constant predictor."""
    models = {
        "GCN": ("gcn", 0.7, (0.2, 0.8)),
        "FairSAD": ("fairsad", 0.68, (0.4, 0.6)),
        "Constant": ("constant", 0.0, (1.0, 1.0)),
    }
    trials, results = [], []
    for label, (method, right, positive) in models.items():
        for seed in range(seeds if method != "constant" else 1):
            trial = Trial(graph, method, label, seed, {"epochs": 10}, {}, "data")
            made = predictions(right, positive, seed)
            trials.append(trial)
            results.append((result(trial, made), made))
    study = Study("comparison", "A made-up comparison", (graph,), tuple(models), tuple(range(seeds)), tuple(trials),
                  {}, published, "Made up.")  # fmt: skip
    store.write_study(study)
    for each, made in results:
        store.write(each, made)
    return study


def made_up_sweep(store: Store, coordinates: dict[str, tuple[float, ...]]) -> Study:
    """A finished sweep in a store; the gap falls with the first coordinate."""
    rows = sweep(Row("FairSAD", "fairsad"), coordinates)
    trials, results = [], []
    for number, row in enumerate(rows):
        for seed in range(2):
            trial = Trial("bail", "fairsad", row.label, seed, dict(row.settings), dict(row.point), "data", False)
            spread = 0.4 * (1 - number / len(rows))
            made = predictions(0.7, (0.5 - spread, 0.5 + spread), seed)
            trials.append(trial)
            results.append((result(trial, made), made))
    name = "channels" if len(coordinates) == 1 else "sensitivity"
    study = Study(name, "A made-up sweep", ("bail",), ("FairSAD",), (0, 1), tuple(trials), {}, name)
    store.write_study(study)
    for each, made in results:
        store.write(each, made)
    return study
