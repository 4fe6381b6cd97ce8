from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fairsad.files import as_tuples, whole_file, without_nan


def test_the_target_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "result.txt"
    with whole_file(target) as partial:
        partial.write_text("first half")
        assert not target.exists()
    assert target.read_text() == "first half"
    assert os.listdir(target.parent) == ["result.txt"]


def test_after_an_error_the_old_file_is_left_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "result.txt"
    target.write_text("old")

    def fill_the_disk() -> None:
        with whole_file(target) as partial:
            partial.write_text("half")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fill_the_disk()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.txt"]


def test_the_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with whole_file(tmp_path / "ours") as partial:
        partial.write_text("")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


def test_nested_lists_become_tuples() -> None:
    assert as_tuples([["a"], ["b", ["c"]], 1]) == (("a",), ("b", ("c",)), 1)
    assert as_tuples({"kept": [1]}) == {"kept": [1]}


def test_what_is_no_number_becomes_null() -> None:
    nested = {"a": float("nan"), "b": [1.5, (float("inf"), None)], "c": {"d": -float("inf")}, "e": "nan", "f": 0}
    assert without_nan(nested) == {"a": None, "b": [1.5, [None, None]], "c": {"d": None}, "e": "nan", "f": 0}
