from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods.base import GraphFacts, Method, MethodCard
from fairsad.methods.fairsad import FairSAD
from tests.graphs import toy_graph

CARD = MethodCard("first", "First feature", "nowhere", "reference", "constant")


@dataclass(kw_only=True, eq=False, repr=False)
class FirstFeature(Method):
    """Predicts the sign of the first feature: the least a method can be."""

    card: ClassVar[MethodCard] = CARD

    def fit(self, graph: FairGraph) -> Self:
        self._check_support(graph)
        self._remember(graph)
        return self

    def scores(self, graph: FairGraph) -> Tensor:
        self._check_fitted()
        self.facts_.check(graph)
        first: Tensor = graph.x[:, : self.facts_.num_scores]
        return first.squeeze(1) if self.facts_.num_scores == 1 else first

    def embed(self, graph: FairGraph) -> npt.NDArray[np.float32]:
        return graph.x.numpy()  # type: ignore[no-any-return]

    def _weights(self) -> dict[str, Tensor]:
        return {}

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        pass


def test_probabilities_and_predictions_follow_from_scores() -> None:
    graph = toy_graph()
    model = FirstFeature().fit(graph)
    probabilities = model.predict_proba(graph)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-graph.x[:, 0].double().numpy())))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(graph), graph.x[:, 0].numpy() > 0)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"num_groups": 3}, "one sensitive attribute with two groups; graph 'toy' has s with 3 groups"),
        ({"num_attributes": 2}, "graph 'toy' has s with 2 groups; t with 2 groups"),
        ({"num_classes": 3}, "predicts two classes; graph 'toy' has 3"),
        ({"unknown": 0.5}, "needs the sensitive value of every training node; .* are unknown"),
        ({"train_mask": None}, "graph 'toy' has no training nodes"),
    ],
)
def test_what_a_method_cannot_do_is_said_clearly(kind: dict[str, float], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        FirstFeature().fit(toy_graph(**kind))  # type: ignore[arg-type]


def test_a_card_that_says_any_is_believed() -> None:
    graph = toy_graph(num_groups=3, num_attributes=2, num_classes=3, unknown=0.5)
    method = FirstFeature()
    method.card = replace(CARD, groups="any", classes="any", unknown_sensitive=True)  # type: ignore[misc]
    assert method.fit(graph).predict_proba(graph).shape == (60, 3)


def test_facts_come_back_from_json() -> None:
    facts = GraphFacts.of(toy_graph(encoding={"columns": [{"name": "a", "scale": [0.5, 1]}]}))
    assert GraphFacts.from_json(json.loads(json.dumps(asdict(facts)))) == facts


def test_the_protocol_says_what_a_number_depends_on() -> None:
    graph = toy_graph(split_recipe="thirds")
    protocol = FirstFeature().fit(graph).protocol_
    assert protocol["split"] == {"recipe": "thirds", "hash": graph.split_hash}
    assert protocol["sensitive_in_features"] is True
    assert protocol["threshold"] == "score > 0"
    assert protocol["versions"]["torch"] == torch.__version__


def test_what_is_not_a_saved_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not the folder of a saved model: .*model.json is missing"):
        Method.load(tmp_path)
    folder = FairSAD(epochs=1).fit(toy_graph()).save(tmp_path / "model")
    assert isinstance(Method.load(folder), FairSAD)
    with pytest.raises(DataError, match=r"holds a FairSAD; expected a FirstFeature. Use FairSAD.load"):
        FirstFeature.load(folder)
    text = (folder / "model.json").read_text()
    (folder / "model.json").write_text(text.replace("fairsad-model-1", "fairsad-model-0"))
    with pytest.raises(DataError, match="has format 'fairsad-model-0'; expected 'fairsad-model-1'"):
        Method.load(folder)
    (folder / "model.json").write_text(text[:100])
    with pytest.raises(DataError, match="cannot be read"):
        Method.load(folder)
    (folder / "model.json").write_text(text)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read"):
        Method.load(folder)
