from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fairsad import load_graph, make_method
from fairsad.errors import ProtocolError
from fairsad.experiments.execute import execute
from tests.studies import GRAPH, quick_plan


def test_a_trial_is_what_fitting_and_evaluating_by_hand_gives() -> None:
    trial = next(trial for trial in quick_plan().trials if trial.method == "fairsad" and trial.seed == 1)
    result, predictions, nodes = execute(trial)
    graph = load_graph(GRAPH)
    model = make_method("fairsad", epochs=4, seed=1).fit(graph)
    by_hand = model.evaluate(graph)
    np.testing.assert_array_equal(nodes, np.flatnonzero(graph.test_mask.numpy()))
    np.testing.assert_array_equal(predictions.predictions, model.predict(graph)[nodes])
    assert result.metrics["auc"] == by_hand.overall["auc"].value.value
    gaps = next(iter(by_hand.attributes.values())).gaps
    assert result.metrics["demographic_parity_gap"] == gaps["demographic_parity_gap"].value.value
    assert result.validation == model.protocol_["validation"]
    assert result.probe is not None
    assert result.protocol["versions"]["numba"]
    assert result.protocol["fingerprint"] == graph.fingerprint
    assert result.seconds > 0


def test_validation_nodes_are_measured_where_settings_are_searched() -> None:
    trial = dataclasses.replace(quick_plan().trials[0], split="val", detail=False)
    result, _, nodes = execute(trial)
    np.testing.assert_array_equal(nodes, np.flatnonzero(load_graph(GRAPH).val_mask.numpy()))
    assert result.evaluation == {}
    assert result.probe is None


def test_another_attribute_has_its_gaps_behind_its_name() -> None:
    source = "synthetic:nodes=300,groups=3,seed=1"
    trial = dataclasses.replace(quick_plan().trials[0], graph=source, data=_data(source))
    metrics = execute(trial)[0].metrics
    assert "demographic_parity_gap" in metrics
    assert {"accuracy", "f1", "auc"} <= set(metrics)


def test_changed_data_are_refused() -> None:
    trial = dataclasses.replace(quick_plan().trials[0], data="of last year")
    with pytest.raises(ProtocolError, match="was of last year when the study was planned"):
        execute(trial)


def _data(source: str) -> str:
    from fairsad.experiments.execute import data_of

    return data_of(load_graph(source))
