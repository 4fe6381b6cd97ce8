from __future__ import annotations

import dataclasses

import pytest

from fairsad import load_graph, make_method
from fairsad.errors import DataError
from fairsad.experiments.execute import data_of
from fairsad.experiments.plan import Row, distinct_labels, plan, settings_on, sweep
from tests.studies import GRAPH


def test_a_trial_names_every_setting_and_its_data() -> None:
    study = plan("s", "S", [Row("FairSAD", "fairsad", {"dropout": 0.2})], ["german"], seeds=2)
    first, second = study.trials
    assert (first.seed, second.seed) == (0, 1)
    expected = make_method("fairsad", alpha=0.1, beta=1.0, learning_rate=1e-2, dropout=0.2).get_params()
    assert first.settings == {name: value for name, value in expected.items() if name != "seed"}
    assert first.data == data_of(load_graph("german"))
    assert study.versions["torch"]


def test_published_settings_belong_to_their_graph_and_give_way() -> None:
    row = Row("FairSAD", "fairsad", {"beta": 7.0})
    assert settings_on(row, "german", {})[0]["alpha"] == 0.1
    assert settings_on(row, "german", {"alpha": 3.0})[0]["alpha"] == 3.0
    assert settings_on(row, "german", {"beta": 3.0})[0]["beta"] == 7.0, "what a row says is never overridden"
    assert settings_on(row, "my graph", {})[0]["alpha"] == make_method("fairsad").alpha
    assert settings_on(Row("GCN", "gcn"), "german", {"alpha": 1.0}), "an override is for methods that know it"


def test_a_sweep_has_every_point_once() -> None:
    rows = sweep(Row("F", "fairsad"), {"alpha": (0.1, 1.0), "beta": (2.0, 3.0, 4.0)})
    assert len({tuple(row.point.items()) for row in rows}) == 6
    assert all(row.settings == row.point for row in rows)


def test_equal_rows_make_one_trial() -> None:
    row = Row("GCN", "gcn")
    assert len(plan("s", "S", [row, row], [GRAPH], seeds=1).trials) == 1
    twin = dataclasses.replace(row, label="the same")
    one, two = plan("s", "S", [row, twin], [GRAPH], seeds=1).trials
    assert one.work == two.work


def test_what_cannot_be_planned_is_told() -> None:
    with pytest.raises(DataError, match=r"FairSAD \(fairsad\) has no setting 'gamma'; it has alpha"):
        plan("s", "S", [Row("FairSAD", "fairsad", {"gamma": 1})], [GRAPH])
    with pytest.raises(DataError, match="alpha = -1; expected a number, at least 0"):
        plan("s", "S", [Row("FairSAD", "fairsad", {"alpha": -1})], [GRAPH])
    with pytest.raises(DataError, match="no graph is known as 'nowhere'"):
        plan("s", "S", [Row("GCN", "gcn")], ["nowhere"])
    with pytest.raises(DataError, match="'GCN' is named twice"):
        distinct_labels([Row("GCN", "gcn"), Row("GCN", "gcn")])
