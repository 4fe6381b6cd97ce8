from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairsad.experiments.settings_file import write_settings
from fairsad.experiments.store import Store
from tests.commands import fairsad

GRAPH = "synthetic:nodes=300,seed=1"


def test_a_comparison_leaves_tables_figures_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    tuned = tmp_path / "tuned.toml"
    write_settings(tuned, "fairsad", {"beta": 5.0})
    command = [
        "compare",
        GRAPH,
        "--methods",
        f"gcn,fairsad,{tuned},constant",
        "--seeds",
        "2",
        "--epochs",
        "3",
        "--out",
        str(out),
    ]
    assert fairsad(*command) == 0
    shown, progress = capsys.readouterr()
    assert "What it comes to on" in shown
    assert "FairSAD (tuned)" in shown
    assert "Constant always gives the most frequent label." in shown
    assert "GCN + thresholds" not in shown, "only what is compared is explained"
    assert "[7/7]" in progress
    for name in ("report.html", "tables.md", "tables.tex", "summary.parquet", "trials.parquet", "figures/compare.pdf"):
        assert (out / name).is_file()
    betas = {trial.settings["beta"] for trial in Store(out).study.trials if trial.label == "FairSAD (tuned)"}
    assert betas == {5.0}
    assert fairsad(*command, "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert {row["label"] for row in again["rows"]} == {"GCN", "FairSAD", "FairSAD (tuned)", "Constant"}
    assert again["missing"] == 0


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, told in (
        (["nowhere"], "no graph is known as 'nowhere'"),
        ([GRAPH, "--methods", "gcn,gcn"], "'GCN' is named twice"),
        ([GRAPH, "--methods", "magic"], "no method is known as 'magic'"),
        ([GRAPH, "--methods", "no.toml"], "there is no file no.toml"),
    ):
        assert fairsad("compare", *arguments, "--out", str(tmp_path / "x")) == 2
        error = capsys.readouterr().err
        assert told in error
        assert error.count("\n") == 1
        assert not (tmp_path / "x").exists()
