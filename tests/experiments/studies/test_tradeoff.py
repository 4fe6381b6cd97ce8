from __future__ import annotations

from fairsad.experiments.studies.tradeoff import CARD, WEIGHTS
from fairsad.methods.parameters import parameters_of
from fairsad.methods.registry import method_class


def test_every_weight_is_a_setting_of_its_method() -> None:
    for (_, method, setting), values in WEIGHTS.items():
        allowed = parameters_of(method_class(method))[setting]
        for value in values:
            assert allowed.low is None or value >= allowed.low
            assert allowed.high is None or value <= allowed.high


def test_methods_without_a_weight_are_one_point() -> None:
    assert [row.label for row in CARD.rows if not row.point] == ["GCN", "Constant", "Threshold"]
