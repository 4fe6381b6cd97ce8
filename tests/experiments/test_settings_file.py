from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.errors import DataError
from fairsad.experiments.settings_file import read_settings, write_settings


def test_settings_survive_the_file(tmp_path: Path) -> None:
    settings = {"alpha": 1e-3, "epochs": 300, "use_mask": True, "selection": 'a"b\\c', "patience": None}
    path = tmp_path / "chosen.toml"
    write_settings(path, "fairsad", settings, "first line\nsecond line")
    assert path.read_text().startswith("# first line\n# second line\n")
    del settings["patience"]
    assert read_settings(path) == ("fairsad", settings)


def test_what_is_wrong_with_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        read_settings(tmp_path / "no.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("method = ")
    with pytest.raises(DataError, match="is not TOML"):
        read_settings(bad)
    bad.write_text("[settings]\nalpha = 1\n")
    with pytest.raises(DataError, match="has no method; expected a line such as method"):
        read_settings(bad)
