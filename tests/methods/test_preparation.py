from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.methods import registry
from fairsad.methods.base import Preparation
from fairsad.methods.gcn import GCN
from fairsad.methods.parameters import parameter
from fairsad.methods.preparation import prepare_graph, require_preparation
from tests.graphs import toy_graph


@dataclass(kw_only=True, eq=False, repr=False)
class Shrink(GCN, Preparation):
    """Makes the features smaller by a factor."""

    factor: float = parameter(0.5, "By how much.", low=0.0)

    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        prepared = graph.clone()
        prepared.x = graph.x * self.factor
        return prepared


def test_the_graph_is_saved_with_the_story_of_how_it_was_made(tmp_path: Path) -> None:
    graph = toy_graph()
    made = prepare_graph(Shrink(factor=0.25, seed=3), graph, "toy.toml", tmp_path)
    assert torch.equal(made.graph.x, graph.x / 4)
    assert made.graph.name == "toy, prepared by GCN"
    assert graph.name == "toy"
    assert FairGraph.load(made.path).fingerprint == made.graph.fingerprint == made.story["prepared_fingerprint"]
    story: dict[str, Any] = json.loads((tmp_path / "prepared.json").read_text())
    assert story == made.story
    assert (story["settings"]["factor"], story["settings"]["seed"]) == (0.25, 3)
    assert (story["source"], story["graph"], story["fingerprint"]) == ("toy.toml", "toy", graph.fingerprint)


def test_it_is_made_once_and_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = toy_graph()
    made = prepare_graph(Shrink(), graph, "toy", tmp_path)
    prepare = Shrink.prepare
    monkeypatch.setattr(Shrink, "prepare", lambda *_, **__: pytest.fail("prepared again"))
    again = prepare_graph(Shrink(device="cpu"), graph, "toy", tmp_path, resume=True)
    assert (again.graph.fingerprint, again.graph.name) == (made.graph.fingerprint, made.graph.name)
    assert again.story == made.story
    for method, of, message in (
        (Shrink(factor=0.1), graph, "its factor is 0.5, this run's is 0.1. Use the same settings, or train anew"),
        (Shrink(), toy_graph(seed=1), "its fingerprint is"),
    ):
        with pytest.raises(ProtocolError, match=message):
            prepare_graph(method, of, "toy", tmp_path, resume=True)
    monkeypatch.setattr(Shrink, "prepare", prepare)
    assert prepare_graph(Shrink(factor=0.1), graph, "toy", tmp_path).graph.fingerprint != made.graph.fingerprint
    assert prepare_graph(Shrink(), graph, "toy", tmp_path / "empty", resume=True).path.is_file()


def test_a_method_that_prepares_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BUILT_IN", {"gcn": "fairsad.methods.gcn:GCN"})
    with pytest.raises(DataError, match=r"GCN does not prepare a graph for other methods; expected one of \(no method"):
        require_preparation("gcn")
    monkeypatch.setitem(registry._BUILT_IN, "shrink", f"{__name__}:Shrink")
    with pytest.raises(DataError, match="expected one of shrink"):
        require_preparation("gcn")
    require_preparation("shrink")
    with pytest.raises(DataError, match="GCN does not prepare a graph"):
        prepare_graph(GCN(), toy_graph(), "toy", tmp_path)
