from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from fairsad.errors import ProtocolError
from fairsad.training.selection import Validator, parse_rule, selection_rule
from tests.graphs import toy_graph


def test_a_rule_is_a_signed_sum() -> None:
    score = selection_rule("acc+auc-dp-eo")
    assert score({"acc": 0.75, "auc": 0.5, "dp": 0.25, "eo": 0.125}) == 0.875
    assert selection_rule("-loss")({"loss": 2.0}) == -2.0
    assert parse_rule("auc-equalised_odds_gap").terms == ((1, "auc"), (-1, "equalised_odds_gap"))


def test_a_rule_with_an_undefined_term_has_no_score() -> None:
    assert math.isnan(selection_rule("acc-dp")({"acc": 0.75, "dp": math.nan}))


def test_last_prefers_every_later_evaluation() -> None:
    score = selection_rule("last")
    assert score({}) < score({}) < score({})


@pytest.mark.parametrize("text", ["", "acc+", "acc dp", "speed", "acc*2", "+-acc"])
def test_a_rule_that_is_not_understood(text: str) -> None:
    with pytest.raises(ProtocolError, match="is not understood; expected 'last' or a sum such as"):
        selection_rule(text)


def test_metrics_are_those_of_scikit_learn_and_of_the_paper_on_the_validation_nodes() -> None:
    graph = toy_graph(200)
    validator = Validator(graph, "acc")
    scores = torch.randn(len(validator.nodes)) + graph.y[validator.nodes]
    measured = validator.measure(scores)
    y, s = graph.y[validator.nodes].numpy(), graph.sensitive[validator.nodes, 0].numpy()
    predicted = (scores > 0).numpy()
    assert measured["acc"] == pytest.approx(accuracy_score(y, predicted))
    assert measured["f1"] == pytest.approx(f1_score(y, predicted))
    assert measured["auc"] == pytest.approx(roc_auc_score(y, scores.numpy()))
    assert measured["dp"] == pytest.approx(abs(predicted[s == 0].mean() - predicted[s == 1].mean()))
    positive = y == 1
    assert measured["eo"] == pytest.approx(
        abs(predicted[(s == 0) & positive].mean() - predicted[(s == 1) & positive].mean())
    )
    assert measured["loss"] == pytest.approx(
        torch.nn.functional.binary_cross_entropy_with_logits(scores, torch.tensor(y).float()).item()
    )


def test_with_several_attributes_the_largest_gap_counts() -> None:
    graph = toy_graph(300, num_attributes=2, num_groups=3)
    validator = Validator(graph, "acc")
    scores = torch.randn(len(validator.nodes))
    predicted = (scores > 0).numpy()
    table = graph.sensitive[validator.nodes].numpy()
    gaps = [np.ptp([predicted[table[:, a] == g].mean() for g in range(3)]) for a in range(2)]
    assert measured_gap(validator, scores) == pytest.approx(max(gaps))


def measured_gap(validator: Validator, scores: torch.Tensor) -> float:
    return validator.measure(scores)["dp"]


def test_unknown_groups_are_left_out_of_gaps_only() -> None:
    graph = toy_graph(300, unknown=0.3)
    validator = Validator(graph, "acc")
    scores = torch.randn(len(validator.nodes))
    s = graph.sensitive[validator.nodes, 0].numpy()
    predicted = (scores > 0).numpy()
    assert (s < 0).any()
    assert measured_gap(validator, scores) == pytest.approx(abs(predicted[s == 0].mean() - predicted[s == 1].mean()))
    assert validator.measure(scores)["acc"] == pytest.approx((predicted == graph.y[validator.nodes].numpy()).mean())


def test_more_than_two_classes_are_averaged_one_against_the_rest() -> None:
    graph = toy_graph(300, num_classes=3)
    validator = Validator(graph, "auc")
    scores = torch.randn(len(validator.nodes), 3)
    measured = validator.measure(scores)
    y = graph.y[validator.nodes].numpy()
    assert measured["auc"] == pytest.approx(np.mean([roc_auc_score(y == c, scores[:, c].numpy()) for c in range(3)]))
    assert measured["f1"] == pytest.approx(f1_score(y, scores.argmax(1).numpy(), average="macro"))


def test_what_can_never_be_measured_is_refused_before_training() -> None:
    graph = toy_graph(90, val_mask=torch.zeros(90, dtype=torch.bool))
    with pytest.raises(ProtocolError, match="no validation nodes to select by"):
        Validator(graph, "acc")

    graph = toy_graph(90)
    only_negatives_in_group_1 = graph.mask("val") & ~((graph.y == 1) & (graph.sensitive[:, 0] == 1))
    graph = toy_graph(90, val_mask=only_negatives_in_group_1)
    with pytest.raises(ProtocolError, match="selection by eo is not possible on graph 'toy'"):
        Validator(graph, "acc+auc-dp-eo")
    assert math.isnan(Validator(graph, "auc").measure(torch.randn(int(graph.val_mask.sum())))["eo"])
