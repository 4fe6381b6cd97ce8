from __future__ import annotations

import json

import pytest

from fairsad.cli import main
from fairsad.methods.registry import method_names


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["methods", *arguments])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_every_method_is_listed_with_what_it_supports(capsys: pytest.CaptureFixture[str]) -> None:
    cards = json.loads(output(capsys, "--json"))
    assert list(cards) == method_names()
    assert cards["fairsad"]["groups"] == "any"
    text = output(capsys)
    assert all(name in text for name in method_names())


def test_the_settings_of_one_method_with_defaults_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    settings = json.loads(output(capsys, "fairsad-code", "--json"))["settings"]
    assert settings["distance_ratio"]["default"] == "per_column"
    assert "Weight α" in settings["alpha"]["help"]
    assert "distance_ratio" in output(capsys, "fairsad")
