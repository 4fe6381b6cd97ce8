from __future__ import annotations

import math

import numpy as np
import pytest

from fairsad.evaluation.evaluate import Evaluation, evaluate_predictions
from fairsad.evaluation.intervals import Estimate, Interval
from fairsad.evaluation.rates import Value
from fairsad.evaluation.tables import (
    Table,
    evaluation_tables,
    show_estimate,
    show_interval,
    show_metric,
    show_number,
)

RNG = np.random.default_rng(0)
LABELS, SEX, AGE = RNG.integers(0, 2, 200), RNG.integers(0, 2, 200), RNG.integers(-1, 3, 200)
SCORES = np.clip(LABELS * 0.4 + RNG.random(200) * 0.6, 0, 1)
PREDICTIONS = (SCORES > 0.5).astype(np.int64)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate_predictions(
        LABELS, PREDICTIONS, {"sex": SEX, "age": AGE}, SCORES, num_draws=200, notes=["Positive class: 1."]
    )


def test_a_table_is_valid_markdown() -> None:
    table = Table("Title", ("a|b", "n"), (("x", "1"), ("y", "2")), "Note.")
    assert table.to_markdown().splitlines() == [
        "### Title",
        "",
        "| a\\|b | n |",
        "| :--- | ---: |",
        "| x | 1 |",
        "| y | 2 |",
        "",
        "Note.",
    ]


def test_numbers_are_shown_and_what_is_undefined_is_a_dash() -> None:
    assert show_number(0.12345) == "0.123"
    assert show_number(math.nan) == "–"
    assert show_interval(Interval(0.1, 0.25)) == "[0.100, 0.250]"
    assert show_interval(None) == show_interval(Interval.undefined("why", 0.95)) == "–"
    assert show_estimate(Estimate(Value(0.5), Interval(0.25, 0.75))) == "0.50 [0.25, 0.75]"
    assert show_estimate(Estimate(Value(0.5))) == "0.50"
    assert show_estimate(Estimate(Value(0.4912), Interval(0.4901, 0.4924))) == "0.491 [0.490, 0.492]"
    assert show_metric("demographic_parity_gap") == "demographic parity gap (ΔDP)"
    assert show_metric("auc") == "AUC"


def test_tables_are_utility_then_gaps_and_groups_of_each_attribute(evaluation: Evaluation) -> None:
    tables = {table.title: table for table in evaluation_tables(evaluation)}
    assert list(tables) == [
        "Overall",
        "Gaps by sex",
        "Groups of sex",
        "Gaps by age",
        "Groups of age",
        "Gaps by sex × age",
        "Groups of sex × age",
    ]
    assert all(len(row) == len(table.columns) for table in tables.values() for row in table.rows)
    assert tables["Overall"].columns == (
        "metric",
        "value",
        "95 % interval",
        f"always '{evaluation.constant.prediction}'",
    )
    assert "sex=1 − sex=0" in tables["Gaps by sex"].columns
    known = 100 * (AGE >= 0).mean()
    assert tables["Gaps by age"].note == f"Group known for {known:.1f} % of the rows."
    rows = {row[0]: row for row in tables["Groups of sex"].rows}
    assert rows["sex=0"][1] == str((SEX == 0).sum())


def test_several_classes_have_tables_of_their_own() -> None:
    labels, predictions = RNG.integers(0, 3, 200), RNG.integers(0, 3, 200)
    found = evaluate_predictions(labels, predictions, {"sex": SEX}, class_names=["a", "b", "c"], num_draws=50)
    titles = [table.title for table in evaluation_tables(found)]
    assert titles[:2] == ["Overall", "Class 'a' against the rest"]
    assert "Gaps by sex, class 'b'" in titles
    assert titles[-4:] == ["Groups of sex", *(f"Groups of sex, class '{name}'" for name in "abc")]


def test_markdown_has_findings_reasons_and_notes(evaluation: Evaluation) -> None:
    text = evaluation.to_markdown()
    assert text.startswith("## Evaluation\n\n- **")
    assert evaluation.findings[0].sentence in text
    assert text.endswith("- Positive class: 1.\n")
    missing = evaluate_predictions([1, 1, 1, -1], [1, 1, -1, 1], {"sex": [0, 0, 1, 1]}, num_draws=20).to_markdown()
    assert "2 rows; 1 with unknown label; 1 with no prediction." in missing
    assert "group sex=1 has no rows" in missing


def test_the_frame_has_one_row_per_number(evaluation: Evaluation) -> None:
    frame = evaluation.to_frame()
    assert list(frame.columns) == [
        "scope",
        "attribute",
        "group",
        "class",
        "metric",
        "value",
        "low",
        "high",
        "level",
        "cases",
        "reason",
    ]
    key = frame.set_index(["scope", "attribute", "group", "metric"])
    assert not key.index.has_duplicates
    rate = evaluation.attributes["sex"].groups[1].rates["1"]["true_positive_rate"]
    row = key.loc[("group", "sex", "sex=1", "true_positive_rate")]
    assert rate.interval is not None
    assert (row["value"], row["low"], row["high"]) == (rate.value.value, rate.interval.low, rate.interval.high)
    assert row["cases"] == ((SEX == 1) & (LABELS == 1)).sum()
    gap = evaluation.attributes["age"].gaps["auc_gap"]
    assert key.loc[("gap", "age", "", "auc_gap"), "value"] == gap.value.value
    assert set(frame["scope"]) == {"overall", "gap", "group"}
    undefined = evaluate_predictions([1, 1], [1, 1], {"sex": [0, 1]}, num_draws=20).to_frame()
    assert (undefined["reason"][undefined["value"].isna()] != "").all()
