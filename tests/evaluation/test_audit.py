"""Tables from anywhere: strings, numbers and gaps in them, read by stated rules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsad.errors import DataError
from fairsad.evaluation.audit import audit, canonical
from fairsad.evaluation.evaluate import Evaluation, evaluate_predictions

RNG = np.random.default_rng(0)
Y, P = RNG.integers(0, 2, 120), RNG.integers(0, 2, 120)
SEX, RACE = RNG.integers(0, 2, 120), RNG.integers(0, 3, 120)
CODES = evaluate_predictions(Y, P, {"sex": SEX, "race": RACE}, num_draws=100)


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"y": Y, "p": P, "sex": SEX, "race": RACE} | columns)


def audited(frame: pd.DataFrame, **options: Any) -> Evaluation:
    arguments = {"label": "y", "prediction": "p", "sensitive": ["sex", "race"], "num_draws": 100}
    return audit(frame, **(arguments | options))


def gap_values(evaluation: Evaluation) -> list[list[float]]:
    return [[e.value.value for e in attribute.gaps.values()] for attribute in evaluation.attributes.values()]


WORDS = np.array(["no", "yes"])


@pytest.mark.parametrize(
    ("labels", "predictions", "positive"),
    [
        (Y, P, "1"),
        (Y.astype(float), P.astype(str), "1"),
        (Y.astype(bool), P, "1"),
        (Y == 1, [f"{value}.0" for value in P], "1"),
        (WORDS[Y], WORDS[P], "yes"),
        (np.array(["No", "Yes"])[Y], np.array([" No", "Yes "])[P], "Yes"),
        (2 * Y - 1, (2 * P - 1).astype(float), "1"),
        (pd.Categorical(WORDS[Y]), pd.Series(WORDS[P], dtype="string"), "yes"),
        (np.array(["bad", "good"], dtype=object)[Y], np.array(["bad", "good"], dtype=object)[P], "good"),
        (pd.array(Y, dtype="Int64"), P, "1"),
    ],
)
def test_the_same_table_in_other_words_has_the_same_numbers(labels: Any, predictions: Any, positive: str) -> None:
    found = audited(table(y=labels, p=predictions, sex=np.array(["f", "m"])[SEX]))
    assert found.positive == positive
    assert gap_values(found) == gap_values(CODES)
    assert found.overall["f1"].value == CODES.overall["f1"].value
    assert [group.name for group in found.attributes["sex"].groups] == ["sex=f", "sex=m"]
    assert found.notes[0].startswith(f"Positive class: {positive} (of ")


def test_the_positive_class_can_be_named() -> None:
    frame = table(y=Y + 1, p=P + 1)
    with pytest.raises(DataError, match=r"hold 1, 2, .* Pass positive=2 \(--positive 2\) or positive=1"):
        audited(frame)
    found = audited(frame, positive="2")
    assert gap_values(found) == gap_values(CODES)
    assert found.notes[0] == "Positive class: 2, as asked for."
    turned = audited(table(), positive=0)
    assert turned.positive == "0"
    assert turned.overall["f1"] != CODES.overall["f1"]
    with pytest.raises(DataError, match="positive is 'yes', which does not occur in y and p; expected one of: 0, 1"):
        audited(table(), positive="yes")


def test_more_than_two_classes_are_taken_one_by_one() -> None:
    names = np.array(["a", "b", "c"])
    found = audited(table(y=names[RACE], p=names[(RACE + P) % 3]), sensitive="sex")
    assert list(found.by_class) == ["a", "b", "c"]
    assert "each is taken against the rest" in found.notes[0]
    assert audited(table(y=names[RACE], p=names[(RACE + P) % 3]), sensitive="sex", positive="c").positive == "c"


def test_missing_labels_and_predictions_are_left_out_and_counted() -> None:
    labels, predictions = WORDS[Y].astype(object), WORDS[P].astype(object)
    labels[:4], predictions[2:9] = None, "  "
    found = audited(table(y=labels, p=predictions))
    assert (found.counts.unknown_label, found.counts.unknown_prediction, found.counts.num_rows) == (4, 5, 111)


def test_missing_sensitive_values_follow_the_stated_policy() -> None:
    race = np.array(["a", "b", "c"], dtype=object)[RACE]
    race[:12] = None
    race[12:15] = ""
    frame = table(race=race)
    dropped = audited(frame)
    assert dropped.attributes["race"].counts.unknown_group == 15
    assert dropped.attributes["race"].coverage == pytest.approx(105 / 120)
    assert dropped.counts.num_rows == 120  # utility is of all rows
    assert "race is missing in 15 rows, which are left out (known: 87.5 %)." in dropped.notes
    assert "LOW_COVERAGE" in [finding.code for finding in dropped.findings]
    grouped = audited(frame, missing="group")
    assert [group.name for group in grouped.attributes["race"].groups][-1] == "race=unknown"
    assert grouped.attributes["race"].groups[-1].rows == 15
    assert grouped.attributes["race"].coverage == 1
    assert "race is missing in 15 rows, which are the group race=unknown." in grouped.notes
    with pytest.raises(DataError, match="column 'race' is missing in 15 of 120 rows"):
        audited(frame, missing="error")
    race[20] = "unknown"
    with pytest.raises(DataError, match="both missing values and a group called 'unknown'"):
        audited(table(race=race), missing="group")


def test_scores_may_be_text_and_may_be_missing() -> None:
    scores = RNG.random(120)
    text = np.array([f"{score:.17g}" for score in scores], dtype=object)
    found = audited(table(score=text), score="score")
    exact = audited(table(score=scores), score="score")
    assert found.overall["auc"] == exact.overall["auc"]
    scores[:10] = np.nan
    assert audited(table(score=scores), score="score").unscored == 10


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {"label": "truth"}, "there is no column 'truth'; columns are: y, p, sex, race"),
        ({}, {"sensitive": ["sex", "age"]}, "there is no column 'age'"),
        ({}, {"missing": "keep"}, "missing is 'keep'; expected 'drop', 'group' or 'error'"),
        ({"p": RNG.random(120)}, {}, "column 'p' has 120 distinct values.*If they are scores"),
        ({"p": [f"w{i}" for i in range(120)]}, {}, "column 'p' has 120 distinct values.*holds the decision"),
        ({"p": WORDS[P]}, {}, r"values of 'y' \(0, 1\) and of 'p' \('no', 'yes'\) do not agree"),
        ({"y": P + 1}, {}, r"values of 'y' \(1, 2\) and of 'p' \(0, 1\) do not agree"),
        ({"p": np.array(["No", "Yes"])[P], "y": WORDS[Y]}, {}, "do not agree"),
        ({"y": np.full(120, None)}, {}, "column 'y' has no value at all"),
        ({"y": ["x"] * 120, "p": ["x"] * 120}, {}, "hold the single value 'x'; expected at least two classes"),
        ({"y": RACE - 1, "p": RACE - 1}, {}, "-1 may be a third class or stand for unknown"),
        ({"sex": np.full(120, np.nan)}, {}, "column 'sex' has no value at all; expected groups"),
        ({"sex": RNG.random(120)}, {}, "column 'sex' has 120 distinct values.*Bin the values"),
        ({"s": ["high"] * 120}, {"score": "s"}, "120 of its 120 values are no numbers, such as 'high'"),
    ],
)
def test_what_cannot_be_read_is_explained(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        audited(table(**columns), **options)


def test_a_table_without_rows_or_with_a_column_twice_is_explained() -> None:
    with pytest.raises(DataError, match="the table has no rows"):
        audited(table().iloc[:0])
    twice = table()
    twice.columns = pd.Index(["y", "p", "sex", "sex"])
    with pytest.raises(DataError, match="there is more than one column 'sex'"):
        audited(twice, sensitive="sex")


def test_too_many_combinations_are_refused_with_a_way_out() -> None:
    frame = pd.DataFrame({"y": RNG.integers(0, 2, 2000), "p": RNG.integers(0, 2, 2000)})
    for name in "abc":
        frame[name] = RNG.integers(0, 50, 2000)
    with pytest.raises(DataError, match="a × b × c has 125000 combinations; expected at most 10000"):
        audit(frame, label="y", prediction="p", sensitive=["a", "b", "c"])
    found = audit(frame, label="y", prediction="p", sensitive=["a", "b"], intersection=False, intervals=False)
    assert list(found.attributes) == ["a", "b"]


def test_the_class_that_nobody_has_is_known_by_its_mate() -> None:
    found = audited(table(y=["No"] * 120, p=["No "] * 120))
    assert found.predictions.class_names == ("No", "yes")
    assert found.positive == "yes"
    assert found.overall["accuracy"].value.value == 1
    assert audited(table(y=np.ones(120), p=np.ones(120, dtype=bool))).predictions.class_names == ("0", "1")


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (1, 1),
        (1.0, 1),
        (True, 1),
        (np.float32(0.5), 0.5),
        (np.bool_(False), 0),
        ("1", 1),
        (" 1.50 ", 1.5),
        ("-1", -1),
        ("0", 0),
        ("007", "007"),
        ("0.5", 0.5),
        ("nan", "nan"),
        ("1e3", 1000),
        ("", None),
        ("  ", None),
        ("a", "a"),
        (pd.Timestamp("2020-01-02"), "2020-01-02 00:00:00"),
    ],
)
def test_what_a_cell_means(value: Any, meaning: Any) -> None:
    found = canonical(value)
    assert found == meaning
    assert type(found) is type(meaning)


def test_a_frame_is_not_changed() -> None:
    frame = table(sex=np.array(["f", None], dtype=object)[SEX])
    before = frame.copy(deep=True)
    audited(frame, missing="group")
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.slow
def test_a_million_rows_and_twelve_groups_take_seconds_and_little_memory() -> None:
    code = """
import time
import numpy as np, pandas as pd
from fairsad.evaluation import audit
from fairsad.experiments.memory import peak_mb
generator, rows = np.random.default_rng(0), 1_000_000
score = generator.random(rows)
words = np.array(["no", "yes"])
frame = pd.DataFrame({
    "y": words[(generator.random(rows) < score).astype(int)], "p": words[(score > 0.5).astype(int)], "score": score,
    "sex": np.array(["f", "m"])[generator.integers(0, 2, rows)],
    "race": np.array(["a", "b", "c"])[generator.integers(0, 3, rows)], "old": generator.random(rows) < 0.5,
})
started = time.perf_counter()
found = audit(frame, label="y", prediction="p", sensitive=["sex", "race", "old"], score="score")
seconds = time.perf_counter() - started
assert len(found.attributes["sex × race × old"].groups) == 12
assert found.overall["auc"].interval.defined
print(seconds, peak_mb() * 1024 / 1e6)  # not ru_maxrss, which begins with what the parent had
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, found.stdout.split())
    assert seconds < 5
    assert gigabytes < 1
