"""Each finding is there when it should be, absent when not, and says the numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fairsad.errors import DataError
from fairsad.evaluation.evaluate import Evaluation, evaluate_predictions
from fairsad.evaluation.verdict import SEVERITIES, Finding, verdict


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


def find(findings: tuple[Finding, ...], code: str) -> Finding:
    return next(finding for finding in findings if finding.code == code)


def from_cells(cells: dict[tuple[int, int, int], int], **options: object) -> Evaluation:
    """Evaluate rows with these numbers of (group, label, prediction)."""
    groups, labels, predictions = (np.repeat([cell[i] for cell in cells], list(cells.values())) for i in range(3))
    return evaluate_predictions(labels, predictions, {"sex": groups}, num_draws=300, **options)  # type: ignore[arg-type]


BALANCED = {(g, y, p): 100 if y == p else 25 for g in (0, 1) for y in (0, 1) for p in (0, 1)}


def test_everyone_credit_worthy_is_nearly_constant() -> None:
    # German credit: 70 % good. The paper's F1 of 82.3 with ΔDP 0 is what "everyone is credit-worthy" scores.
    found = from_cells(
        {(0, 1, 1): 55, (1, 1, 1): 119, (1, 1, 0): 1, (0, 0, 1): 30, (1, 0, 1): 45}, class_names=["bad", "good"]
    )
    finding = found.findings[0]
    assert (finding.code, finding.severity) == ("NEARLY_CONSTANT", "problem")
    assert finding.sentence == (
        "99.6 % of the 250 predictions are 'good', so the predictor is nearly constant. Always answering 'good' scores "
        "F1 0.824, accuracy 0.700 with a demographic parity gap of 0; the predictor scores F1 0.821, accuracy 0.696 "
        "with a gap of 0.006 for sex."
    )
    assert finding.evidence["share"] == pytest.approx(249 / 250)
    assert finding.evidence["constant_utility"]["f1"] == pytest.approx(2 * 0.7 / 1.7)
    assert finding.evidence["constant_gaps"]["sex"]["demographic_parity_gap"] == 0
    assert finding.evidence["gaps"]["sex"]["demographic_parity_gap"] == pytest.approx(1 / 165)


def test_the_threshold_of_nearly_constant_is_an_argument() -> None:
    found = from_cells({(g, y, p): 90 if p else 10 for g in (0, 1) for y in (0, 1) for p in (0, 1)})
    assert "NEARLY_CONSTANT" not in codes(found.findings)
    assert "NEARLY_CONSTANT" in codes(verdict(found, majority_share=0.9))
    assert "NEARLY_CONSTANT" not in codes(verdict(found, majority_share=0.901))


def test_a_gap_that_may_be_none_is_said_to_be_undecided_not_absent() -> None:
    found = from_cells(BALANCED)
    finding = find(found.findings, "GAP_COVERS_ZERO")
    assert finding.severity == "note"
    assert "500 rows cannot tell these gaps from none" in finding.sentence
    assert "no evidence that there is none" in finding.sentence
    evidence = finding.evidence["gaps"]["demographic_parity_gap"]
    assert evidence["interval"]["low"] == 0
    assert evidence["difference"]["interval"]["low"] < 0 < evidence["difference"]["interval"]["high"]
    assert codes(found.findings) == ["GAP_COVERS_ZERO"]
    wide = from_cells(BALANCED | {(1, 0, 1): 90, (1, 1, 1): 400})
    assert "demographic_parity_gap" not in find(wide.findings, "GAP_COVERS_ZERO").evidence["gaps"]
    assert "GAP_COVERS_ZERO" not in codes(from_cells(BALANCED, intervals=False).findings)


def test_no_sentence_calls_a_model_fair() -> None:
    sentences = [finding.sentence.lower() for finding in from_cells(BALANCED).findings]
    assert sentences
    assert not any("fair" in sentence or "bias" in sentence for sentence in sentences)


def test_a_gap_that_rests_on_few_cases_names_group_and_count() -> None:
    found = from_cells(BALANCED | {(1, 1, 0): 5, (1, 1, 1): 7})
    finding = find(found.findings, "FEW_CASES")
    assert "these gaps rest on fewer than 30 cases" in finding.sentence
    assert "12 positive labels in group sex=1" in finding.sentence
    gap = finding.evidence["gaps"]["equal_opportunity_gap"]
    assert gap["rate"] == "true_positive_rate"
    assert gap["carriers"] == [{"group": "sex=1", "cases": 12}]
    assert "demographic_parity_gap" not in finding.evidence["gaps"]
    assert "FEW_CASES" not in codes(verdict(found, few_cases=12))


def test_few_cases_are_found_behind_the_mean_over_classes() -> None:
    generator = np.random.default_rng(0)
    labels, sex = generator.integers(0, 2, 400), generator.integers(0, 2, 400)
    labels[:9] = 2
    predictions = np.where(generator.random(400) < 0.7, labels, generator.integers(0, 3, 400))
    found = evaluate_predictions(labels, predictions, {"sex": sex}, class_names=["a", "b", "c"], num_draws=100)
    finding = find(found.findings, "FEW_CASES")
    assert "equal_opportunity_gap of class 'c'" in finding.evidence["gaps"]
    assert "equal opportunity gap of class 'c'" in finding.sentence


def test_an_undefined_rate_is_said_with_its_reason() -> None:
    found = from_cells({(0, 0, 0): 40, (0, 1, 1): 40, (1, 0, 0): 30, (1, 0, 1): 12})
    finding = find(found.findings, "UNDEFINED_RATE")
    assert "group sex=1 has no positive labels (0 of 42 rows)" in finding.sentence
    assert "There is no equal opportunity gap and equalised odds gap." in finding.sentence
    assert finding.evidence["undefined"] == ["equal_opportunity_gap", "equalised_odds_gap"]
    three = from_cells(BALANCED | {(2, 0, 0): 40})
    finding = find(three.findings, "UNDEFINED_RATE")
    assert "The gaps say nothing about these groups." in finding.sentence
    assert finding.evidence["undefined"] == []


def test_undefined_utility_is_said() -> None:
    found = from_cells({(0, 0, 0): 40, (1, 0, 0): 30})
    overall = find(found.findings, "UNDEFINED_RATE")
    assert "balanced accuracy: a class has no labels" in overall.sentence
    assert set(overall.evidence["reasons"]) == {"balanced_accuracy", "f1"}


def test_low_coverage_is_said() -> None:
    found = from_cells(BALANCED | {(-1, 0, 0): 100, (-1, 1, 1): 100})
    finding = find(found.findings, "LOW_COVERAGE")
    assert "sex is unknown for 200 of 700 rows" in finding.sentence
    assert "71.4 %" in finding.sentence
    assert finding.evidence["coverage"] == pytest.approx(5 / 7)
    assert "LOW_COVERAGE" not in codes(verdict(found, min_coverage=0.7))


def test_worse_than_always_giving_the_same_answer() -> None:
    cells = {(g, y, p): n for g in (0, 1) for y, p, n in ((0, 0, 10), (0, 1, 40), (1, 0, 120), (1, 1, 180))}
    found = from_cells(cells)
    finding = find(found.findings, "WORSE_THAN_CONSTANT")
    assert finding.severity == "problem"
    assert "always answering '1' reaches 0.857" in finding.sentence
    few = from_cells({(0, 1, 1): 8, (1, 1, 1): 7, (0, 1, 0): 1, (1, 1, 0): 2, (1, 0, 0): 1, (0, 0, 1): 1})
    assert find(few.findings, "WORSE_THAN_CONSTANT").severity == "warning"
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 300)
    sex = generator.integers(0, 2, 300)
    upside_down = evaluate_predictions(labels, labels, {"sex": sex}, generator.normal(size=300) - labels, num_draws=50)
    finding = find(upside_down.findings, "WORSE_THAN_CONSTANT")
    assert finding.evidence["metric"] == "auc"
    assert finding.severity == "problem"


def reference_and_model() -> tuple[Evaluation, Evaluation]:
    """A reference with a gap in selection, and a model that closes it by denying the other group's positives."""
    generator = np.random.default_rng(1)
    sex, labels = generator.integers(0, 2, 3000), generator.integers(0, 2, 3000)
    sharp = np.where(generator.random(3000) < 0.9, labels, 1 - labels)
    reference = np.where((sex == 1) & (generator.random(3000) < 0.3), 1, sharp)
    denied = (sex == 1) & (labels == 1) & (generator.random(3000) < 0.35)
    model = np.where(denied, 0, reference)
    scores = labels + generator.normal(size=3000)
    base = evaluate_predictions(labels, reference, {"sex": sex}, scores, num_draws=400)
    worse = scores + 2 * generator.normal(size=3000)
    return base, evaluate_predictions(labels, model, {"sex": sex}, worse, num_draws=400, reference=base)


def test_utility_lost_and_a_gap_traded_against_the_unconstrained_model() -> None:
    base, model = reference_and_model()
    lost = find(model.findings, "UTILITY_LOST")
    assert {"accuracy", "f1", "balanced_accuracy", "auc"} <= set(lost.evidence["differences"])
    assert lost.evidence["differences"]["accuracy"]["value"] == pytest.approx(
        model.overall["accuracy"].value.value - base.overall["accuracy"].value.value
    )
    assert "Against the unconstrained model the predictor loses accuracy -0." in lost.sentence
    traded = find(model.findings, "TRADED_GAP")
    assert "demographic_parity_gap" in traded.evidence["lowered"]
    assert "equal_opportunity_gap" in traded.evidence["raised"]
    assert "Lowered: demographic parity gap -0." in traded.sentence
    # The other way round it gains utility, and still trades gaps.
    back = verdict(base, reference=model)
    assert "UTILITY_LOST" not in codes(back)
    assert "TRADED_GAP" in codes(back)
    assert "TRADED_GAP" not in codes(base.findings)


def test_a_gap_that_was_lowered_without_raising_another_was_not_traded() -> None:
    base, _ = reference_and_model()
    labels, sex = base.predictions.labels, base.predictions.partitions["sex"]
    perfect = evaluate_predictions(labels, labels, {"sex": sex}, num_draws=300)
    assert not {"TRADED_GAP", "UTILITY_LOST"} & set(codes(verdict(perfect, reference=base)))


def test_a_reference_on_other_nodes_is_refused() -> None:
    base, _ = reference_and_model()
    with pytest.raises(DataError, match="about other nodes"):
        verdict(from_cells(BALANCED), reference=base)


def test_findings_are_json_and_the_gravest_come_first() -> None:
    _, model = reference_and_model()
    for findings in (model.findings, from_cells({(0, 1, 1): 40, (1, 1, 1): 3, (1, 0, 1): 2, (-1, 0, 1): 9}).findings):
        json.dumps([finding.to_dict() for finding in findings], allow_nan=False)
        ranks = [SEVERITIES.index(finding.severity) for finding in findings]
        assert ranks == sorted(ranks)
        assert len(findings) >= 3


def test_a_share_is_never_rounded_to_all_or_nothing() -> None:
    found = from_cells({(0, 1, 1): 9_999, (1, 1, 1): 10_000, (1, 0, 0): 1})
    assert "over 99.9 % of the 20000" in find(found.findings, "NEARLY_CONSTANT").sentence
