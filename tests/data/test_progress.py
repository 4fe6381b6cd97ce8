from __future__ import annotations

import pytest

from fairsad.data.progress import terminal_progress


@pytest.mark.parametrize("in_bytes", [False, True])
def test_the_bar_says_what_is_done_on_a_terminal(
    in_bytes: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("TERM", "xterm")
    with terminal_progress("counting sheep", in_bytes=in_bytes) as report:
        report(3, 4)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "counting sheep" in shown.err
    assert ("3/4 bytes" if in_bytes else "3/4") in shown.err


def test_a_log_file_gets_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    with terminal_progress("counting sheep") as report:
        report(3, 4)
    assert capsys.readouterr() == ("", "")
