from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairsad.cli.reproduce import split_names
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
