from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairsad.cli.studies import split_names
from fairsad.experiments.studies import NAMES
from tests.commands import fairsad


def test_a_study_is_run_and_shown_beside_the_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("ablation", "--datasets", "german", "--seeds", 2, "--epochs", 2, "--out", tmp_path, "--quiet")
    assert fairsad("reproduce", *arguments) == 0
    shown, progress = capsys.readouterr()
    assert "FairSAD w/o D" in shown
    assert "What the paper says" in shown
    assert progress == ""
    assert (tmp_path / "report.html").is_file()


def test_all_studies_end_on_one_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairsad.experiments.studies.NAMES", ("ablation", "micro-macro"))
    arguments = ("all", "--datasets", "synthetic:nodes=200,seed=1", "--seeds", 1, "--epochs", 2, "--quiet")
    assert fairsad("reproduce", *arguments, "--out", tmp_path) == 0
    assert f"All studies on one page: {tmp_path / 'report.html'}" in capsys.readouterr().out
    text = (tmp_path / "report.html").read_text()
    assert text.index('id="study-ablation"') < text.index('id="study-micro-macro"')
    assert (tmp_path / "ablation" / "report.html").is_file()


def test_what_is_wrong_with_one_of_all_studies_is_told_before_any_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, told in (
        (["--datasets", "nowhere"], "no graph is known as 'nowhere'"),
        (["--json"], "--json prints one study"),
    ):
        assert fairsad("reproduce", "all", *arguments, "--out", tmp_path / "x") == 2
        assert told in capsys.readouterr().err
        assert not (tmp_path / "x").exists()


def test_the_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("reproduce") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES)
    assert fairsad("reproduce", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)) == list(NAMES)


def test_an_unknown_study_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("reproduce", "everything") == 2
    assert "no study is known as 'everything'" in capsys.readouterr().err


def test_names_have_commas_between_them_and_inside_generators() -> None:
    assert split_names("german, bail") == ["german", "bail"]
    assert split_names("synthetic:nodes=100,seed=1,german") == ["synthetic:nodes=100,seed=1", "german"]
    assert split_names(None) == split_names("") == []
