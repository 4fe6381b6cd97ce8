from __future__ import annotations

import pytest

from fairsad.training.progress import Progress


def rows(progress: Progress) -> None:
    with progress.running(3):
        for epoch in range(3):
            progress.epoch(
                {"epoch": epoch, "loss": 0.5, "distance": 0.25, "val_auc": 0.875, "val_dp": 0.031, "seconds": 1}
            )


def test_quiet_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    rows(Progress("FairSAD"))
    assert capfd.readouterr() == ("", "")


def test_the_bar_says_what_matters(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    rows(Progress("FairSAD", enabled=True))
    captured = capfd.readouterr()
    assert captured.out == ""
    for text in ("FairSAD", "distance 0.25", "AUC 87.5", "ΔDP 3.1"):
        assert text in captured.err
