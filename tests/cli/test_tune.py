from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from fairsad.experiments.settings_file import read_settings
from fairsad.experiments.store import Store
from fairsad.methods.gcn import GCN
from tests.commands import fairsad

pytest.importorskip("optuna", reason="optuna is not installed (extra 'tune')")
GRAPH = "synthetic:nodes=300,seed=1"


def test_a_search_ends_in_settings_to_train_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tune", GRAPH, "--method", "gcn", "--trials", "3", "--set", "epochs=4", "--out", str(tmp_path)]
    assert fairsad(*command) == 0
    shown, progress = capsys.readouterr()
    assert "The front" in shown
    assert "[3/3] utility" in progress
    method, settings = read_settings(tmp_path / "chosen.toml")
    assert method == "gcn"
    assert settings["epochs"] == 4
    assert len(pd.read_csv(tmp_path / "candidates.csv")) == 3
    assert (tmp_path / "front.png").is_file()
    assert fairsad(*command, "--json", "--quiet") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chosen"]["settings"]["learning_rate"] == settings["learning_rate"]


def test_what_was_chosen_is_trained_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, model, compared = (tmp_path / name for name in ("found", "model", "compared"))
    search = ("--method", "gcn", "--trials", 3, "--set", "epochs=4", "--quiet")
    assert fairsad("tune", GRAPH, *search, "--out", found) == 0
    chosen = found / "chosen.toml"
    assert f"fairsad train {GRAPH} --config {chosen}" in capsys.readouterr().out
    _, settings = read_settings(chosen)
    assert fairsad("train", GRAPH, "--config", chosen, "--quiet", "--out", model) == 0
    trained = GCN.load(model).get_params()
    assert {name: trained[name] for name in settings} == settings
    methods = f"gcn,{chosen}"
    assert (
        fairsad("compare", GRAPH, "--methods", methods, "--seeds", 1, "--epochs", 2, "--quiet", "--out", compared) == 0
    )
    trials = {trial.label: trial.settings for trial in Store(compared).study.trials}
    assert {name: trials["GCN (chosen)"][name] for name in settings} == settings
    assert trials["GCN"]["epochs"] == 2


def test_a_search_that_finds_nothing_leaves_what_it_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairsad.experiments.tune.MAJORITY_SHARE", 0.0)  # every predictor counts as constant
    search = ("tune", GRAPH, "--method", "gcn", "--trials", 1, "--set", "epochs=2", "--quiet", "--out", tmp_path)
    assert fairsad(*search) == 2
    error = capsys.readouterr().err
    assert "none of 1 candidates is more than a nearly constant predictor" in error
    assert "choose another --method" in error
    assert fairsad(*search, "--max-gap", 0.1) == 2
    assert "allow a larger --max-gap" in capsys.readouterr().err
    assert len(pd.read_csv(tmp_path / "candidates.csv")) == 1
    assert not (tmp_path / "chosen.toml").exists()


def test_a_method_without_a_search_space_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("tune", GRAPH, "--method", "constant", "--out", str(tmp_path)) == 2
    assert "declares no setting to search for" in capsys.readouterr().err
