from __future__ import annotations

import json

import pytest

from fairsad.cli.output import print_json


def test_json_is_read_by_every_reader(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"gap": float("nan"), "rates": [0.5, float("inf"), (1, "ü")], "none": None})
    text = capsys.readouterr().out
    assert json.loads(text, parse_constant=pytest.fail) == {"gap": None, "rates": [0.5, None, [1, "ü"]], "none": None}
    assert "ü" in text
