from __future__ import annotations

import numpy as np
import pytest
import torch

from fairsad import load_graph
from fairsad.errors import DataError
from fairsad.evaluation.probe import probe
from fairsad.methods.constant import Constant
from tests.graphs import toy_graph


def counts_of(train: list[int], val: list[int]) -> Constant:
    """The method, fitted on a graph with so many training and validation nodes of each class."""
    trained, validated = (np.repeat(np.arange(len(counts)), counts) for counts in (train, val))
    labels = np.concatenate([trained, validated])
    rows = torch.arange(len(labels))
    graph = toy_graph(
        len(labels),
        y=labels,
        label_names=[f"class {number}" for number in range(len(train))],
        train_mask=rows < len(trained),
        val_mask=rows >= len(trained),
        test_mask=None,
    )
    return Constant().fit(graph)


@pytest.mark.parametrize(
    ("train", "val", "predicted"),
    [
        ([9, 10], [50, 10], 1),
        ([10, 9], [10, 50], 0),
        ([10, 10], [10, 50], 1),
        ([10, 10], [50, 10], 0),
        ([10, 10], [10, 10], 0),
        ([5, 8, 8], [90, 3, 4], 2),
        ([5, 8, 8], [90, 4, 4], 1),
        ([5, 0, 6], [1, 1, 1], 2),
    ],
)
def test_the_largest_class_in_training_is_predicted_and_validation_decides_between_equals(
    train: list[int], val: list[int], predicted: int
) -> None:
    model = counts_of(train, val)
    new = toy_graph(25)
    assert set(model.predict(new).tolist()) == {predicted}
    counts = np.array(train, dtype=float)
    counts[predicted] += sum(count == max(train) for count in train) > 1
    np.testing.assert_allclose(
        model.predict_proba(new), np.tile((counts + 1) / (counts.sum() + len(counts)), (25, 1)), rtol=1e-6
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_a_class_can_be_chosen_by_name(classes: int) -> None:
    graph = toy_graph(num_classes=classes, label_names=["no", "yes", "perhaps"][:classes])
    trained = int(graph.mask("train").sum())
    model = Constant(label="yes").fit(graph)
    assert set(model.predict(graph).tolist()) == {1}
    assert model.predict_proba(graph)[0, 1] == pytest.approx((trained + 1) / (trained + classes))
    with pytest.raises(DataError, match="Constant: label = 'maybe'; expected one of no, yes"):
        Constant(label="maybe").fit(graph)


def test_on_german_it_has_the_f1_that_the_paper_reports_for_its_method() -> None:
    graph = load_graph("german")
    evaluation = Constant().fit(graph).evaluate(graph, intervals=False)
    assert evaluation.overall["f1"].value.value == pytest.approx(0.8235, abs=1e-4)
    assert evaluation.overall["auc"].value.value == 0.5
    assert evaluation.attributes["Gender"].gaps["demographic_parity_gap"].value.value == 0.0


def test_nothing_can_be_read_from_its_representation() -> None:
    graph = toy_graph(300)
    model = Constant().fit(graph)
    assert model.embed(graph).shape == (300, 1)
    found = probe(model, graph, split="all")
    for target in found.targets:
        (embedding,) = (place for place in target.places if place.name == "embedding")
        assert embedding.exact.auc == pytest.approx(0.5)
