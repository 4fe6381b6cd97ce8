from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fairsad.cli import main
from fairsad.cli.train import HISTORY_FILE
from fairsad.methods.fairsad import FairSAD

GRAPH = "synthetic:nodes=300,seed=2"


def fairsad(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_train_leaves_a_model_its_history_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("train", GRAPH, "--epochs", 12, "--set", "alpha=0.5", "--seed", 3, "--out", tmp_path) == 0
    output = capsys.readouterr().out
    for word in ("FairSAD", "auc", "f1", "ΔDP", "ΔEO", "one seed"):
        assert word in output
    model = FairSAD.load(tmp_path)
    assert (model.epochs, model.alpha, model.seed) == (12, 0.5, 3)
    history = pq.read_table(tmp_path / HISTORY_FILE).to_pylist()
    assert [row["epoch"] for row in history] == list(range(12))
    assert [row["epoch"] for row in history if row["score"] is not None] == [0, 10, 11]
    assert history[0]["val_auc"] is not None
    assert history[1]["covariance"] > 0


def test_several_seeds_go_into_folders_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("train", GRAPH, "--epochs", 2, "--seeds", 2, "--out", tmp_path, "--json") == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["protocol"]["seed"] for run in runs] == [0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]
    assert runs[0]["test"]["auc"] != runs[1]["test"]["auc"]


def test_a_benchmark_starts_from_its_published_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("train", "german", "--epochs", 1, "--set", "beta=0.3", "--out", tmp_path) == 0
    assert "settings published for german" in capsys.readouterr().out
    model = FairSAD.load(tmp_path)
    assert (model.alpha, model.beta, model.learning_rate) == (0.1, 0.3, 0.01)
    assert fairsad("train", "german", "--epochs", 1, "--no-published", "--out", tmp_path) == 0
    assert FairSAD.load(tmp_path).learning_rate == FairSAD().learning_rate


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "alpha"], "--set 'alpha' has no value; expected name=value"),
        (["--set", "alpha=big"], "alpha = 'big'; expected a number"),
        (["--set", "speed=1"], "FairSAD has no setting 'speed'"),
        (["--set", "alpha=-1"], "alpha = -1.0; expected a number, at least 0"),
        (["--method", "none"], "no method is known as 'none'"),
        (["--device", "gpu"], "device 'gpu' cannot be used here"),
        (["--epochs", "0"], "Invalid value for '--epochs'"),
    ],
)
def test_what_the_user_can_put_right_leaves_no_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert fairsad("train", GRAPH, *arguments, "--out", tmp_path / "run") == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "run").exists()
