from __future__ import annotations

import pytest

from fairsad.errors import DataError
from fairsad.evaluation.scores import find_metric
from fairsad.experiments.studies import NAMES, study_card
from tests.studies import GRAPH


@pytest.mark.parametrize("name", NAMES)
def test_every_study_can_be_planned(name: str) -> None:
    card = study_card(name)
    assert card.name == name
    assert card.question.endswith("?")
    assert find_metric(card.utility).kind == "utility"
    assert find_metric(card.gap).kind == "gap"
    study = card.plan([GRAPH], seeds=2, overrides={"epochs": 3})
    assert {trial.graph for trial in study.trials} == {GRAPH}
    assert len({trial.key for trial in study.trials}) == len(study.trials)
    assert study.published == name
    seeded = [trial for trial in study.trials if trial.method == "fairsad"]
    assert {trial.seed for trial in seeded} == {0, 1}
    assert {trial.settings["epochs"] for trial in seeded} == {3}


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(DataError, match="no study is known as 'nothing'; expected one of comparison, ablation"):
        study_card("nothing")
