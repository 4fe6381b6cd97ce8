from __future__ import annotations

import json

import pytest

from fairsad.cli import main
from fairsad.cli.output import console
from fairsad.methods import page
from fairsad.methods.registry import method_names


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["methods", *arguments])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
def test_every_method_is_listed_with_what_it_supports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    cards = json.loads(output(capsys, "--json"))
    assert list(cards) == method_names()
    assert cards["fairsad"]["groups"] == "any"
    monkeypatch.setattr(console, "_width", width)
    lines = output(capsys).splitlines()
    for name, card in cards.items():
        told = [line for line in lines if line.split(" ")[0] == name]
        assert len(told) == 3
        for fact in (card["paper"], card["kind"], card["groups"], card["classes"], card["cost"]):
            assert any(fact in line for line in told)


def test_the_settings_of_one_method_with_defaults_search_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    described = json.loads(output(capsys, "fairsad-code", "--json"))
    settings = described["settings"]
    assert settings["distance_ratio"]["default"] == "per_column"
    assert settings["alpha"]["low"] == 0.0
    assert settings["alpha"]["search"] == {"low": 1e-3, "high": 10.0, "log": True, "choices": []}
    assert "Weight α" in settings["alpha"]["help"]
    assert described["published"]["credit"] == {"alpha": 0.5, "beta": 0.1, "learning_rate": 0.001}
    text = output(capsys, "fairsad-code")
    for told in (
        "FairSAD, Zhu et al., WWW 2024",
        "kind: in-processing",
        "time and memory: linear in links",
        "distance_ratio = per_column\n",
        "alpha = 0.1    search: 0.001 to 10, log\n    Weight α",
        "Published settings",
    ):
        assert told in text
    assert "Published settings" not in output(capsys, "constant")


def test_the_head_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "--markdown") == page.markdown()
