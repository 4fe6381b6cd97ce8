from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fairsad.errors import ProtocolError
from fairsad.experiments.runner import run
from fairsad.experiments.store import Result, Store, show_point
from fairsad.report.digest import Constant, Digest
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
    assert "By their means, no other row beats these in both AUC and ΔDP: GCN and FairSAD." in told
    assert any(sentence.startswith("Beside the paper: ") for sentence in told)
    assert not any("Nearly constant" in sentence for sentence in told), "the constant predictor itself is no news"


def decides_nothing(folder: Path, label: str) -> Digest:
    """The made-up comparison, with a row that is another method and predicts what the constant predictor does."""
    store = Store(folder)
    study = made_up(store)
    constant = next(each for each in store.results() if each.trial.label == "Constant")
    for trial in study.trials:
        if trial.label == label:
            store.write(dataclasses.replace(constant, trial=trial), *reversed(store.predictions(constant.trial)))
    return Digest.of(store, num_draws=100)


def test_a_nearly_constant_row_is_named_and_is_nobody_s_best(tmp_path: Path) -> None:
    digest = decides_nothing(tmp_path, "FairSAD")
    told = digest.conclusions("german")
    assert told[0] == (
        "In short, against GCN: FairSAD gives almost everybody the same answer, so that a small gap says nothing."
    )
    assert told[1].startswith("Nearly constant: FairSAD. Almost everybody gets the same answer there")
    worst = digest.findings[0]
    assert (worst.code, worst.severity) == ("NEARLY_CONSTANT", "problem")
    gap = digest.cell("german", "FairSAD", "demographic_parity_gap")
    assert gap is not None
    assert (gap["mean"], gap["rank"]) == (0.0, None)


def test_a_reference_that_decides_nothing_is_told_first(tmp_path: Path) -> None:
    digest = decides_nothing(tmp_path, "GCN")
    assert digest.conclusions("german")[0].startswith("In short: GCN gives almost everybody the same answer;")


def test_what_it_comes_to_is_one_sentence(digest: Digest, tmp_path: Path) -> None:
    assert digest.conclusions("german")[0] == digest.verdict("german")[0]
    assert digest.verdict("german") == ["In short, against GCN: FairSAD shows no sure change of ΔDP."]
    store = Store(tmp_path)
    made_up_sweep(store, {"num_channels": (1.0, 2.0)})
    assert Digest.of(store, num_draws=50).verdict("bail") == []


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


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ((1,), "Nearly constant: 1 run, at no point half of them."),
        ((1, 2), "Nearly constant: 3 runs, at no point half of them."),
        ((3, 1), "Nearly constant: 1 of 2 points."),
    ],
)
def test_nearly_constant_points_of_a_sweep_are_counted(seeds: tuple[int, ...], said: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    made_up_sweep(store, {"num_channels": (1.0, 2.0)})
    digest = Digest.of(store, num_draws=50)
    points = sorted({show_point(each.trial.point) for each in digest.results})
    constant = {("bail", "FairSAD", at): Constant(some, 5, "no") for at, some in zip(points, seeds, strict=False)}
    assert dataclasses.replace(digest, constant=constant).conclusions("bail")[0].startswith(f"{said} Almost everybody")


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
