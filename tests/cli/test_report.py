from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.experiments.store import Store
from tests.commands import fairsad
from tests.studies import made_up, made_up_sweep


def test_one_page_of_several_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up_sweep(Store(tmp_path / "a-channels"), {"num_channels": (1.0, 2.0)})
    made_up(Store(tmp_path / "z-comparison"))
    assert fairsad("report", str(tmp_path), "--title", "Everything") == 0
    assert "is ready" in capsys.readouterr().out
    text = (tmp_path / "report.html").read_text()
    assert "<h1>Everything</h1>" in text
    assert text.index("A made-up comparison") < text.index("A made-up sweep"), "in the order of the paper"
    assert (tmp_path / "a-channels" / "tables.md").is_file()


def test_a_study_without_results_keeps_no_other_from_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up_sweep(Store(tmp_path / "channels"), {"num_channels": (1.0, 2.0)})
    study = made_up(Store(tmp_path / "comparison"))
    Store(tmp_path / "comparison").forget(study.trials)
    assert fairsad("report", str(tmp_path)) == 0
    assert "comparison, where none of" in capsys.readouterr().out
    assert "A made-up comparison" not in (tmp_path / "report.html").read_text()
    assert fairsad("report", str(tmp_path / "comparison")) == 2
    assert "no finished trial" in capsys.readouterr().err


def test_the_page_goes_where_it_is_wanted(tmp_path: Path) -> None:
    made_up(Store(tmp_path / "study"))
    assert fairsad("report", str(tmp_path / "study"), "--out", str(tmp_path / "page.html"), "--level", "0.9") == 0
    assert "90 %" in (tmp_path / "page.html").read_text()


def test_a_folder_without_a_study_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("report", str(tmp_path)) == 2
    assert "holds no study" in capsys.readouterr().err
