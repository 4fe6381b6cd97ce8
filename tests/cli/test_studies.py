from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fairsad.cli.studies import _duration, run_study, show
from fairsad.experiments.store import Store
from fairsad.report.digest import Digest
from fairsad.training.loop import Interrupted
from tests.studies import made_up, quick_plan


def test_what_failed_is_told_and_how_to_try_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = quick_plan()
    broken = dataclasses.replace(study.trials[0], settings=study.trials[0].settings | {"epochs": "many"})
    study = dataclasses.replace(study, trials=(broken, *study.trials[1:]))
    run_study(study, tmp_path, jobs=1, ray=None, retry_failed=False, quiet=False, as_json=False)
    shown, progress = capsys.readouterr()
    assert "failed: GCN on synthetic:nodes=300,seed=1, seed 0" in shown
    assert "1 of 4 trials failed; --retry-failed tries them again." in shown
    assert "failed:" in progress
    assert "not everything is here" in (tmp_path / "report.html").read_text()


def test_a_stopped_run_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fairsad.experiments.runner as runner

    def stopped(*arguments: object, **options: object) -> None:
        made_up(Store(tmp_path))
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", stopped)
    with pytest.raises(Interrupted, match=r"stopped; 4 of 4 trials are kept\. The same command goes on"):
        run_study(quick_plan(), tmp_path, jobs=1, ray=None, retry_failed=False, quiet=True, as_json=False)


def test_the_tables_come_before_what_they_come_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path)
    made_up(store)
    show(Digest.of(store, num_draws=50))
    shown = capsys.readouterr().out
    assert shown.index("mean ± std over seeds") < shown.index("What it comes to on german")


def test_durations_are_short() -> None:
    assert [_duration(seconds) for seconds in (None, 40.0, 720.0, 12600.0)] == ["", "40 s", "12 min", "3.5 h"]
