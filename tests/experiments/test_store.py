from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from fairsad.errors import DataError
from fairsad.experiments.store import Result, Store, Study, Trial, read_predictions, show_point, write_predictions
from tests.studies import made_up, predictions, result

TRIAL = Trial("german", "fairsad", "FairSAD", 0, {"alpha": 0.1}, {}, "data")


def test_every_part_of_a_trial_is_in_its_key() -> None:
    changes = {
        "graph": "bail",
        "method": "gcn",
        "label": "Mine",
        "seed": 1,
        "settings": {"alpha": 0.2},
        "point": {"alpha": 0.1},
        "data": "other",
        "detail": False,
        "split": "val",
    }
    assert set(changes) == {field.name for field in dataclasses.fields(Trial)}
    keys = {dataclasses.replace(TRIAL, **{name: value}).key for name, value in changes.items()}  # type: ignore[arg-type]
    assert len(keys | {TRIAL.key}) == len(changes) + 1
    assert Trial(**dataclasses.asdict(TRIAL)).key == TRIAL.key


def test_trials_that_differ_in_their_place_only_are_the_same_work() -> None:
    elsewhere = dataclasses.replace(TRIAL, label="at another place", point={"beta": 1.0})
    assert elsewhere.key != TRIAL.key
    assert elsewhere.work == TRIAL.work
    assert dataclasses.replace(TRIAL, seed=1).work != TRIAL.work


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    store, made = Store(tmp_path), predictions(0.7, (0.2, 0.8))
    written = dataclasses.replace(result(TRIAL, made), peak_mb=math.nan)
    nodes = np.arange(len(made.labels)) * 2
    store.write(written, made, nodes)
    read = store.read(TRIAL)
    assert read is not None
    assert read.metrics == pytest.approx(written.metrics, abs=0, nan_ok=True)
    assert read.trial == TRIAL
    assert math.isnan(read.peak_mb)
    assert read.evaluation == json.loads(json.dumps(written.evaluation))
    numbers, again = store.predictions(TRIAL)
    np.testing.assert_array_equal(numbers, nodes)
    assert again.on_same_nodes_as(made)
    np.testing.assert_array_equal(again.predictions, made.predictions)
    np.testing.assert_array_equal(again.scores, made.scores)
    assert read.predictions().on_same_nodes_as(made)


def test_several_classes_and_attributes_survive_the_file(tmp_path: Path) -> None:
    from fairsad.evaluation.predictions import Predictions

    chance = np.random.default_rng(0)
    labels = chance.integers(0, 3, 50)
    made = Predictions.build(
        labels, labels, {"a": chance.integers(-1, 2, 50), "b": chance.integers(0, 3, 50)}, chance.random((50, 3))
    )
    write_predictions(made, np.arange(50), tmp_path / "p.parquet")
    _, again = read_predictions(tmp_path / "p.parquet")
    assert again.on_same_nodes_as(made)
    np.testing.assert_array_equal(again.scores, made.scores)
    assert list(again.partitions) == ["a", "b", "a × b"]


def test_a_study_knows_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = made_up(store)
    assert store.missing() == []
    assert [each.trial for each in store.results()] == list(study.trials)
    store.forget(study.trials[:2])
    assert store.missing() == list(study.trials[:2])
    assert Store(tmp_path).study == study


def test_files_that_are_not_ours_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not the folder of a study: study.json is missing"):
        _ = Store(tmp_path).study
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        _ = Store(tmp_path).study
    with pytest.raises(DataError, match="has format 'x'; expected 'fairsad-study-1'"):
        Study.from_dict({"format": "x"})
    with pytest.raises(DataError, match="has format None; expected 'fairsad-trial-1'"):
        Result.from_dict({})
    (tmp_path / "p.parquet").write_text("no")
    with pytest.raises(DataError, match="cannot be read"):
        read_predictions(tmp_path / "p.parquet")


def test_a_failed_trial_has_no_predictions() -> None:
    with pytest.raises(DataError, match="there are no predictions of FairSAD on german, seed 0: it broke"):
        Result(TRIAL, "failed", "broke").predictions()


def test_points_are_written_short() -> None:
    assert show_point({"alpha": 0.001, "num_channels": 4}) == "alpha=0.001 num_channels=4"
    assert show_point({}) == ""
