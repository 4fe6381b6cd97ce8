from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fairsad.errors import DataError
from fairsad.evaluation.evaluate import Evaluation, evaluate_predictions
from fairsad.evaluation.intervals import estimate_gap, wilson_interval
from fairsad.evaluation.rates import count_metrics, get_metric
from fairsad.groups import Groups

RNG = np.random.default_rng(0)
ROWS = 300
SEX = Groups(RNG.integers(0, 2, ROWS), ("sex=f", "sex=m"))
AGE = Groups(RNG.integers(-1, 3, ROWS), ("age=old", "age=young", "age=child"))
LABELS = RNG.integers(0, 2, ROWS)
SCORES = np.clip(0.3 * LABELS + RNG.normal(0.35, 0.25, ROWS), 0, 1)
PREDICTIONS = (SCORES > 0.5).astype(np.int64)


def evaluated(**changes: object) -> Evaluation:
    arguments: dict[str, object] = {"sensitive": {"sex": SEX, "age": AGE}, "scores": SCORES, "num_draws": 300}
    return evaluate_predictions(LABELS, PREDICTIONS, **(arguments | changes))  # type: ignore[arg-type]


def test_the_evaluation_imports_neither_torch_nor_tables() -> None:
    code = (
        "import sys; import fairsad.evaluation; "
        "from fairsad.evaluation import evaluate_predictions; "
        "evaluate_predictions([0, 1, 1, 0], [0, 1, 0, 0], {'sex': [0, 1, 0, 1]}, [0.1, 0.9, 0.4, 0.3]).to_dict(); "
        "print(sorted({'torch', 'pandas', 'sklearn', 'numba', 'matplotlib'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_module_but_the_probe_imports_without_torch() -> None:
    modules = [
        "audit",
        "compare",
        "evaluate",
        "intervals",
        "pairing",
        "predictions",
        "rates",
        "scores",
        "tables",
        "verdict",
    ]
    code = f"import sys\nfor name in {modules}: __import__('fairsad.evaluation.' + name)\nprint('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_utility_is_of_all_rows_whatever_their_group() -> None:
    found = evaluated()
    assert found.overall["accuracy"].value.value == pytest.approx((LABELS == PREDICTIONS).mean())
    assert found.overall["auc"].value.value == pytest.approx(roc_auc_score(LABELS, SCORES))
    assert found.counts.num_rows == ROWS
    assert list(found.attributes) == ["sex", "age", "sex × age"]
    assert found.attributes["age"].coverage == pytest.approx((AGE.codes >= 0).mean())
    assert found.constant.share == max(LABELS.mean(), 1 - LABELS.mean())
    assert found.positive == "1"


def test_gaps_and_groups_are_those_of_the_counts() -> None:
    found = evaluated()
    sex = found.attributes["sex"]
    for metric in count_metrics("gap"):
        assert sex.gaps[metric.name] == estimate_gap(metric, sex.counts)
    values = [roc_auc_score(LABELS[SEX.codes == g], SCORES[SEX.codes == g]) for g in (0, 1)]
    assert sex.gaps["auc_gap"].value.value == pytest.approx(abs(values[0] - values[1]))
    for code, group in enumerate(sex.groups):
        own = SEX.codes == code
        assert group.rows == own.sum()
        assert group.label_counts == {"0": int((LABELS[own] == 0).sum()), "1": int(LABELS[own].sum())}
        assert group.prediction_counts["1"] == PREDICTIONS[own].sum()
        assert group.metrics["auc"].value.value == pytest.approx(values[code])
        selected = group.rates["1"]["selection_rate"]
        assert selected.value.value == pytest.approx(PREDICTIONS[own].mean())
        assert selected.interval == wilson_interval(int(PREDICTIONS[own].sum()), int(own.sum()))
        assert group.calibration["1"].counts.sum() == own.sum()


def test_every_number_has_an_interval_around_it_or_a_reason() -> None:
    found = evaluated()
    for attribute in found.attributes.values():
        estimates = [*attribute.gaps.values(), *found.overall.values()]
        estimates += [e for group in attribute.groups for e in group.metrics.values()]
        for estimate in estimates:
            assert estimate.interval is not None
            if estimate.interval.defined:
                assert estimate.interval.low <= estimate.value.value <= estimate.interval.high
            else:
                assert estimate.interval.reason


def test_without_intervals_there_are_none_and_the_values_are_the_same() -> None:
    quick, full = evaluated(intervals=False), evaluated()
    for name, attribute in quick.attributes.items():
        for metric, estimate in attribute.gaps.items():
            assert estimate.interval is None
            assert estimate.difference is None
            assert estimate.value == full.attributes[name].gaps[metric].value
        assert all(e.interval is None for g in attribute.groups for e in (*g.metrics.values(), *g.rates["1"].values()))
    assert {n: e.value for n, e in quick.overall.items()} == {n: e.value for n, e in full.overall.items()}


def test_a_seed_determines_the_evaluation() -> None:
    assert evaluated(seed=3).to_dict() == evaluated(seed=3).to_dict()
    assert evaluated(seed=3).overall["f1"] != evaluated(seed=4).overall["f1"]


def test_unknown_values_are_counted_and_left_out() -> None:
    labels = np.where(np.arange(ROWS) < 5, -1, LABELS)
    predictions = np.where(np.arange(ROWS) % 50 == 49, -1, PREDICTIONS)
    scores = np.where(np.arange(ROWS) % 30 == 29, np.nan, SCORES)
    found = evaluate_predictions(labels, predictions, {"sex": SEX}, scores, num_draws=100)
    rows = found.to_dict()["rows"]
    assert (rows["unknown_label"], rows["unknown_prediction"], rows["unscored"]) == (5, 6, 10)
    assert rows["counted"] == ROWS - 11
    assert rows["coverage"] == pytest.approx((ROWS - 11) / ROWS)
    known = (labels >= 0) & ~np.isnan(scores)
    assert found.overall["auc"].value.value == pytest.approx(roc_auc_score(labels[known], scores[known]))


def test_more_than_two_classes_have_each_class_and_the_mean() -> None:
    labels, predictions = RNG.integers(0, 3, ROWS), RNG.integers(0, 3, ROWS)
    scores = RNG.dirichlet(np.ones(3), ROWS)
    found = evaluate_predictions(labels, predictions, {"sex": SEX}, scores, class_names=["a", "b", "c"], num_draws=200)
    assert found.positive is None
    assert list(found.by_class) == ["a", "b", "c"]
    aucs = [roc_auc_score(labels == c, scores[:, c]) for c in range(3)]
    assert found.overall["auc"].value.value == pytest.approx(np.mean(aucs))
    assert found.by_class["b"]["auc"].value.value == pytest.approx(aucs[1])
    assert "accuracy" not in found.by_class["a"]
    sex = found.attributes["sex"]
    metric = get_metric("demographic_parity_gap")
    each = [sex.gaps_by_class[name]["demographic_parity_gap"] for name in "abc"]
    assert each[2] == estimate_gap(metric, sex.counts, 2)
    assert sex.gaps["demographic_parity_gap"].value.value == pytest.approx(np.mean([e.value.value for e in each]))
    assert set(sex.groups[0].rates) == {"a", "b", "c"}
    json.dumps(found.to_dict(), allow_nan=False)


def test_one_of_three_classes_may_be_the_positive_one() -> None:
    labels, predictions = RNG.integers(0, 3, ROWS), RNG.integers(0, 3, ROWS)
    found = evaluate_predictions(labels, predictions, {"sex": SEX}, RNG.random(ROWS), positive=2, num_draws=100)
    rest = evaluate_predictions(labels == 2, predictions == 2, {"sex": SEX}, num_draws=100)
    assert found.by_class == {}
    for name in ("demographic_parity_gap", "equal_opportunity_gap", "predictive_parity_gap"):
        assert found.attributes["sex"].gaps[name] == rest.attributes["sex"].gaps[name]
    assert found.overall["f1"].value == rest.overall["f1"].value


def test_everything_undefined_is_still_json() -> None:
    found = evaluate_predictions([1, 1, 1], [1, 1, -1], {"sex": [0, 0, 1]}, [0.2, math.nan, 0.4], num_draws=50)
    text = json.dumps(found.to_dict(), allow_nan=False)
    content = json.loads(text)
    assert content["overall"]["auc"]["value"] is None
    assert "no negative labels" in content["overall"]["auc"]["reason"]
    gaps = content["attributes"]["sex"]["gaps"]
    assert gaps["accuracy_gap"]["value"] is None
    assert "group sex=1 has no rows" in gaps["accuracy_gap"]["reason"]
    nothing = evaluate_predictions([-1, -1], [1, 1], {"sex": [0, 1]}, num_draws=50)
    assert json.loads(json.dumps(nothing.to_dict(), allow_nan=False))["rows"]["counted"] == 0
    assert nothing.to_markdown()


def test_a_bad_level_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(DataError, match="level is 95; expected a share"):
        evaluated(level=95)


def test_the_level_reaches_every_interval() -> None:
    wide, narrow = evaluated(level=0.99), evaluated(level=0.5)
    for name, estimate in wide.overall.items():
        other = narrow.overall[name].interval
        assert estimate.interval is not None
        assert other is not None
        if other.defined:
            assert estimate.interval.high - estimate.interval.low > other.high - other.low
            assert (estimate.interval.level, other.level) == (0.99, 0.5)
