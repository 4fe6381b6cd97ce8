from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from fairsad import load_graph
from fairsad.cli.train import HISTORY_FILE
from fairsad.experiments.settings_file import write_settings
from fairsad.graph import FairGraph
from fairsad.methods import registry
from fairsad.methods.fairsad import FairSAD
from fairsad.methods.gcn import GCN
from tests.commands import fairsad

GRAPH = "synthetic:nodes=300,seed=2"


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
    told = " ".join(capsys.readouterr().out.split())
    assert "settings published for german: alpha = 0.1, learning_rate = 0.01" in told
    assert "FairSAD, given: beta = 0.3, epochs = 1" in told
    model = FairSAD.load(tmp_path)
    assert (model.alpha, model.beta, model.learning_rate) == (0.1, 0.3, 0.01)
    assert fairsad("train", "german", "--epochs", 1, "--no-published", "--out", tmp_path) == 0
    assert FairSAD.load(tmp_path).learning_rate == FairSAD().learning_rate


def test_a_method_without_seeds_and_device_is_trained_like_any_other(tmp_path: Path) -> None:
    assert fairsad("train", GRAPH, "--method", "constant", "--seeds", 2, "--device", "cpu", "--out", tmp_path) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]


def test_a_seed_that_is_set_is_the_seed(tmp_path: Path) -> None:
    assert fairsad("train", GRAPH, "--epochs", 1, "--set", "seed=5", "--out", tmp_path) == 0
    assert FairSAD.load(tmp_path).seed == 5


def test_training_on_a_graph_that_another_method_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "shrink", "tests.methods.test_preparation:Shrink")
    out = tmp_path / "runs"
    prepare = ("--prepare", "shrink", "--prepare-set", "factor=0.25", "--seed", 4)
    train = ("train", GRAPH, "--method", "gcn", "--epochs", 3, *prepare, "--out", out)
    assert fairsad(*train, "--seeds", 2) == 0
    assert "prepared by GCN" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["prepared.json", "prepared.safetensors", "seed-0", "seed-1"]
    model = GCN.load(out / "seed-1")
    prepared = model.protocol_["prepared"]
    assert (prepared["source"], prepared["settings"]["factor"], prepared["settings"]["seed"]) == (GRAPH, 0.25, 4)
    graph = FairGraph.load(out / "prepared.safetensors")
    assert torch.equal(graph.x, load_graph(GRAPH).x / 4)
    assert model.protocol_["fingerprint"] == graph.fingerprint

    monkeypatch.chdir(out)  # the graph is found from anywhere, and after the folder was moved
    moved = out.rename(tmp_path / "moved")
    assert fairsad("evaluate", moved, "--no-probe", "--no-intervals", "--json") == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["graph"]["fingerprint"] == graph.fingerprint
    assert fairsad("evaluate", moved / "seed-1", "--no-probe", "--no-intervals", "--json") == 0
    assert json.loads(capsys.readouterr().out)["graph"] == evaluated["graph"]

    train = (*train[:-1], moved)
    assert fairsad(*train, "--resume", "--prepare-set", "factor=0.5") == 2
    assert "its factor is 0.25, this run's is 0.5" in capsys.readouterr().err
    assert fairsad(*train, "--resume") == 0


def test_a_file_of_settings_stands_between_the_published_and_the_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "chosen.toml"
    write_settings(config, "fairsad", {"alpha": 0.3, "beta": 0.7, "epochs": 2, "seed": 5})
    train = ("train", "german", "--config", config, "--quiet")
    assert fairsad(*train, "--set", "beta=0.4", "--out", tmp_path / "a") == 0
    told = capsys.readouterr().out
    assert "FairSAD, settings of the file: alpha = 0.3" in told
    assert "beta = 0.7" not in told
    model = FairSAD.load(tmp_path / "a")
    assert (model.alpha, model.beta, model.learning_rate, model.epochs, model.seed) == (0.3, 0.4, 0.01, 2, 5)
    assert fairsad(*train, "--method", "fairsad", "--epochs", 1, "--seed", 3, "--out", tmp_path / "b") == 0
    model = FairSAD.load(tmp_path / "b")
    assert (model.alpha, model.epochs, model.seed) == (0.3, 1, 3)
    assert fairsad(*train, "--seeds", 2, "--out", tmp_path / "c") == 0
    assert [FairSAD.load(tmp_path / f"c/seed-{seed}").seed for seed in (0, 1)] == [0, 1]


def test_a_file_that_does_not_fit_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, strange = tmp_path / "chosen.toml", tmp_path / "strange.toml"
    write_settings(config, "fairsad", {"alpha": 0.3})
    write_settings(strange, "gcn", {"alpha": 0.3})
    for arguments, message in (
        (["--config", config, "--method", "gcn"], f"--method is gcn, but {config} has settings of fairsad"),
        (["--config", strange], "gcn has no setting 'alpha'"),
        (["--config", tmp_path / "no.toml"], "there is no file"),
    ):
        assert fairsad("train", GRAPH, *arguments, "--out", tmp_path / "run") == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
        assert not (tmp_path / "run").exists()


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
        (["--method", "constant", "--epochs", "3"], "Constant has no setting 'epochs'"),
        (["--prepare", "gcn"], "GCN does not prepare a graph for other methods; expected one of"),
        (["--prepare", "none"], "no method is known as 'none'"),
        (["--prepare-set", "r=0.2"], "--prepare-set is given without --prepare"),
        (["--prepare", "shrink", "--prepare-set", "factor"], "--prepare-set 'factor' has no value"),
        (["--prepare", "shrink", "--prepare-set", "factor=-1"], "factor = -1.0; expected a number, at least 0"),
        (["--prepare", "shrink", "--set", "alpha=-1"], "alpha = -1.0; expected a number, at least 0"),
    ],
)
def test_what_the_user_can_put_right_leaves_no_model(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setitem(registry._BUILT_IN, "shrink", "tests.methods.test_preparation:Shrink")
    assert fairsad("train", GRAPH, *arguments, "--out", tmp_path / "run") == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "run").exists()
