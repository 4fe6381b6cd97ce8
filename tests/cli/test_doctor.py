from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import numba
import pytest
import torch

from fairsad.cli import doctor, main
from fairsad.graph import FairGraph


def fairsad(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    output, errors = capsys.readouterr()
    assert (ended.value.code, errors) == (0, "")
    return output


def test_it_says_what_is_installed_and_where_things_are(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(fairsad(capsys, "doctor").split())
    for part in (
        "versions python 3.",
        f"torch {metadata.version('torch')}",
        "device",
        "kernels cpu compiled loops (Numba",
    ):
        assert part in words
    for part in ("folders data", "offline yes", "extras"):
        assert part in words


def test_json_has_the_same_sections(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(fairsad(capsys, "doctor", "--json"))
    assert list(found) == ["versions", "device", "kernels", "folders", "extras"]
    assert found["versions"]["torch"] == metadata.version("torch")
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(found["extras"]) == {"tune", "cluster", "track"}
    assert found["device"]["threads"] >= 1
    assert "Numba" in found["kernels"]["cpu"]


def test_a_missing_extra_comes_with_the_line_that_adds_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["torch>=2.3", 'no-such-package>=3; extra == "tune"', "rich>=1 ; extra == 'track'", 'ruff; extra == "dev"']
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: wanted)
    extras = doctor.examine()["extras"]
    assert extras["tune"] == {
        "present": False,
        "versions": {"no-such-package": None},
        "install": 'pip install "fairsad[tune]"',
    }
    assert extras["track"]["present"]
    assert "dev" not in extras
    assert doctor._spell_extra(extras["tune"]) == ('no-such-package not installed; to add: pip install "fairsad[tune]"')


def test_folders_are_those_that_downloads_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("FAIRSAD_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("FAIRSAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAIRSAD_OFFLINE", "1")
    folders = doctor.examine()["folders"]
    assert folders == {
        "data": [
            {"path": str(tmp_path / "mine"), "exists": True, "writable": True},
            {"path": str(tmp_path / "cache" / "data"), "exists": False, "writable": True},
        ],
        "cache": [{"path": str(tmp_path / "cache"), "exists": False, "writable": True}],
        "offline": True,
    }
    assert "not there yet, writable" in doctor._spell_folders(folders["cache"])


def test_compiled_loops_are_counted_where_numba_keeps_them() -> None:
    graph = FairGraph.build(
        x=torch.eye(3), edge_index=[[0], [1]], y=[0, 1, 0], sensitive=[0, 1, 0], sensitive_names=["s"]
    )
    graph.propagated()
    found = doctor.examine()["kernels"]["compiled"]
    kept = [path.name for path in Path(found["folder"]).glob("*.nbi")]
    assert found["loops"] == len(kept)
    assert any("propagation" in name for name in kept)
    assert doctor._spell_kernels(found) == f"{len(kept)} loops kept in {found['folder']}"


def test_loops_that_nobody_has_compiled_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    found = doctor.examine()["kernels"]["compiled"]
    assert found["loops"] == 0
    assert found["folder"].startswith(str(tmp_path))


def test_no_place_to_keep_compiled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> object:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(numba, "njit", refuse)
    found = doctor.examine()["kernels"]["compiled"]
    assert found == {"folder": None, "loops": 0}
    assert doctor._spell_kernels(found).startswith("nowhere to keep them; set NUMBA_CACHE_DIR")
