from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.errors import ProtocolError
from fairsad.experiments.runner import run
from fairsad.experiments.store import Result, Store
from fairsad.report.digest import Digest
from tests.studies import made_up, made_up_sweep, quick_plan


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    store = Store(tmp_path_factory.mktemp("made-up"))
    made_up(store)
    return Digest.of(store, num_draws=200)


def test_conclusions_are_what_the_numbers_say(digest: Digest) -> None:
    told = digest.conclusions("german")
    gap = {label: digest.cell("german", label, "demographic_parity_gap") for label in ("GCN", "FairSAD")}
    assert gap["GCN"] is not None
    assert gap["FairSAD"] is not None
    change = f"{100 * gap['GCN']['mean']:.1f} → {100 * gap['FairSAD']['mean']:.1f}"
    assert any(sentence.startswith(f"FairSAD against GCN: ΔDP {change}") for sentence in told)
    assert any("Not beaten in both AUC and ΔDP by any other row: GCN, FairSAD" in sentence for sentence in told)
    assert any(sentence.startswith("Beside the paper: ") for sentence in told)
    assert not any("Nearly constant" in sentence for sentence in told), "the constant predictor itself is no news"


def test_a_nearly_constant_row_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = made_up(store)
    import dataclasses

    renamed = [
        dataclasses.replace(each.trial, label="FairSAD" if each.trial.label == "Constant" else each.trial.label)
        for each in store.results()
    ]
    kept = [trial for trial, old in zip(renamed, study.trials, strict=True) if old.label != "FairSAD"]
    results = {old.key: (store.read(old), store.predictions(old)) for old in study.trials if old.label != "FairSAD"}
    store.write_study(dataclasses.replace(study, trials=tuple(kept), methods=("GCN", "FairSAD")))
    for trial, (old, (nodes, predictions)) in zip(kept, results.values(), strict=True):
        assert old is not None
        store.write(dataclasses.replace(old, trial=trial), predictions, nodes)
    digest = Digest.of(store, num_draws=100)
    assert digest.conclusions("german")[0].startswith("Nearly constant: FairSAD.")
    worst = digest.findings[0]
    assert (worst.code, worst.severity) == ("NEARLY_CONSTANT", "problem")


def test_findings_count_their_seeds(digest: Digest) -> None:
    for finding in digest.findings:
        assert 1 <= finding.seeds <= finding.of
    order = [finding.severity for finding in digest.findings]
    assert order == sorted(order, key=["problem", "warning", "note"].index)


def test_differences_are_taken_from_the_gcn(digest: Digest) -> None:
    assert digest.comparisons["german"].reference == "GCN"
    assert digest.labels == ("GCN", "FairSAD", "Constant")
    assert digest.cell("german", "nobody", "auc") is None


def test_a_sweep_compares_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made_up_sweep(store, {"num_channels": (1.0, 2.0)})
    digest = Digest.of(store, num_draws=50)
    assert digest.comparisons == {}
    assert digest.study.coordinates == ("num_channels",)


def test_failures_and_missing_trials_are_known(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = made_up(store)
    store.forget(study.trials[:2])
    store.write(Result(study.trials[0], "failed", "it broke"))
    digest = Digest.of(store, num_draws=50)
    assert [each.error for each in digest.failures] == ["it broke"]
    assert digest.missing == 1


def test_a_folder_without_a_number_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = made_up(store)
    store.forget(study.trials)
    store.write(Result(study.trials[0], "failed", "it broke"))
    with pytest.raises(ProtocolError, match="has no finished trial of 7 yet; the first failed: it broke"):
        Digest.of(store)


def test_a_real_study_is_digested(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run(store, quick_plan())
    digest = Digest.of(store, num_draws=100)
    assert digest.published is None
    assert digest.conclusions(digest.graphs[0])
