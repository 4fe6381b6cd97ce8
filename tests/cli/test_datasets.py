from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairsad import datasets
from fairsad.cli.datasets import app
from fairsad.datasets import page
from fairsad.errors import DataError, DownloadError


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it."""
    monkeypatch.setenv("FAIRSAD_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("FAIRSAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAIRSAD_OFFLINE", "1")
    return tmp_path


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def failure(*arguments: str) -> BaseException:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code != 0
    assert result.exception is not None
    return result.exception


def rows(*arguments: str) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(output(*arguments))}


def test_the_list_shows_every_dataset_and_what_is_here() -> None:
    lines = {line.split()[0]: line for line in output().splitlines()[1:]}
    assert set(lines) == set(datasets.names())
    assert "yes" in lines["german"]
    assert "0.8 MB to get" in lines["bail"]
    assert "50.0 MB to get" in lines["pokec-z"]
    assert "311,870" in lines["bail"]


def test_the_list_as_json_has_the_cards() -> None:
    listed = rows("--json")
    assert set(listed) == set(datasets.names())
    assert listed["german"]["files"] == []
    assert listed["bail"]["files"] == [{"path": "bail/bail.csv", "bytes": 820405, "here": None}]
    assert listed["credit"]["groups"] == [27315, 2685]
    assert listed["pokec-z"]["groups"] is None


def test_what_is_here_is_found(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSAD_DATA", str(published))
    assert rows("--json")["bail"]["files"][0]["here"] == str(published / "bail" / "bail.csv")
    assert output("fetch", "bail", "german").splitlines() == [
        f"bail: {published / 'bail' / 'bail.csv'}",
        "german: inside the package",
    ]
    assert json.loads(output("fetch", "nba", "--json"))["nba"][1] == str(published / "nba" / "nba_relationship.txt")


def test_fetch_offline_says_what_is_missing_and_where_it_goes(folders: Path) -> None:
    error = failure("fetch", "german", "bail")
    assert isinstance(error, DownloadError)
    assert str(folders / "own" / "bail" / "bail.csv") in str(error)


def test_fetch_needs_a_known_name() -> None:
    assert isinstance(failure("fetch", "germany"), DataError)
    assert CliRunner().invoke(app, ["fetch"]).exit_code == 2


def test_verify_checks_what_is_here(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSAD_DATA", str(published))
    checked = rows("verify", "--json", "german", "nba", "pokec-z")
    assert {name: row["status"] for name, row in checked.items()} == {
        "german": "as published",
        "nba": "as published",
        "pokec-z": "not here",
    }
    assert checked["german"]["detail"] == f"fingerprint {datasets.load('german').fingerprint}"
    assert "as published" in output("verify", "nba")


def test_verify_fails_for_a_file_that_is_wrong(folders: Path) -> None:
    path = folders / "own" / "bail" / "bail.csv"
    path.parent.mkdir(parents=True)
    path.write_text("WHITE,RECID\n1,0\n")
    result = CliRunner().invoke(app, ["verify"])
    assert result.exit_code != 0
    assert "bail     wrong" in result.stdout
    assert "german   as published" in result.stdout
    assert isinstance(result.exception, DataError)
    assert f"bail: {path} is not the published bail/bail.csv: expected sha256" in str(result.exception)

    result = CliRunner().invoke(app, ["verify", "--json"])
    assert {row["name"]: row["status"] for row in json.loads(result.stdout)}["bail"] == "wrong"
    assert isinstance(result.exception, DataError)


def test_the_table_is_measured_against_the_paper() -> None:
    measured = rows("table", "german", "pokec-n", "--json")
    assert measured["german"]["counts"]["edges"] == 21742
    assert measured["german"]["paper"]["edges"] == 22242
    assert measured["german"]["split"]["test"] == {"nodes": 250, "groups": [156, 94], "positives": [119, 56]}
    assert measured["pokec-n"]["split"] is None
    assert "22,242" in output("table", "german")


def test_the_page_is_printed_as_it_is() -> None:
    assert output("table", "german", "pokec-z", "--markdown") == page.markdown(["german", "pokec-z"])
