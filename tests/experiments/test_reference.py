from __future__ import annotations

import math

import pytest

from fairsad.errors import DataError
from fairsad.evaluation.scores import find_metric
from fairsad.experiments.reference import load_published, published_names
from fairsad.experiments.studies import NAMES, study_card

METRICS = ("auc", "f1", "demographic_parity_gap", "equal_opportunity_gap")


def test_every_study_has_its_published_side() -> None:
    assert set(published_names()) == set(NAMES)


def test_numbers_of_the_paper_spot_checked() -> None:
    table = load_published("comparison")
    value = table.find("bail", "FairSAD", "demographic_parity_gap")
    assert value is not None
    assert (value.mean, value.std) == (0.0297, 0.0222)
    assert table.find("bail", "FairSAD (code)", "demographic_parity_gap") == value
    missing = table.find("pokec-z", "EDITS", "auc")
    assert missing is not None
    assert missing.missing == "OOM"
    assert math.isnan(missing.mean)
    assert table.find("german", "Constant", "auc") is None
    assert len(table.labels) == 7
    assert table.graphs == ("german", "bail", "credit", "pokec-z", "pokec-n")
    ablation = load_published("ablation").find("credit", "FairSAD w/o M", "auc")
    assert ablation is not None
    assert (ablation.mean, ablation.std) == (0.6881, 0.0348)


def test_all_tables_are_whole() -> None:
    """The paper's four metrics for every method and graph, or its word for why not."""
    table = load_published("comparison")
    for graph in table.graphs:
        for label in table.labels:
            values = [table.find(graph, label, metric) for metric in METRICS]
            assert all(value is not None and (value.missing or 0 <= value.mean <= 1) for value in values)
    for _, _, metric in table.values:
        find_metric(metric)


def test_the_impossible_number_is_marked_and_is_impossible() -> None:
    table = load_published("comparison")
    f1, accuracy = (table.find("credit", "FairVGNN", metric) for metric in ("f1", "accuracy"))
    assert f1 is not None
    assert accuracy is not None
    assert f1.impossible
    assert accuracy.impossible
    # With a share p of positives and errors e = 1 - accuracy, F1 = 2 TP / (2 TP + e) and TP >= p - e.
    positives, errors = 0.7788, 1 - accuracy.mean
    assert 2 * (positives - errors) / (2 * (positives - errors) + errors) > f1.mean + 0.1
    marked = {key for key, value in table.values.items() if value.impossible}
    assert marked == {("credit", "FairVGNN", "f1"), ("credit", "FairVGNN", "accuracy")}


def test_published_rows_are_rows_of_ours() -> None:
    for name in ("comparison", "ablation"):
        ours = {row.label for row in study_card(name).rows}
        assert set(load_published(name).labels) <= ours


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(DataError, match="no published numbers are known as 'nothing'; there are ablation"):
        load_published("nothing")
