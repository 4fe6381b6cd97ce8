from __future__ import annotations

import torch

from fairsad.methods.classifier import ClassifierTraining
from fairsad.methods.gcn import GCN
from fairsad.training.selection import Validator
from tests.graphs import toy_graph


def test_training_reads_the_rows_of_the_training_nodes_only() -> None:
    graph = toy_graph()
    method = GCN()
    model = method._build(_facts(graph))
    training = ClassifierTraining(method, model, graph, Validator(graph, "auc"))
    assert training.train_view.graph is None
    torch.testing.assert_close(training.train_view.x, graph.propagated()[graph.mask("train")])
    assert training.validation_view.x.size(0) == int(graph.mask("val").sum())


def test_an_epoch_lowers_the_loss() -> None:
    graph = toy_graph()
    method = GCN(learning_rate=0.01)
    training = ClassifierTraining(method, method._build(_facts(graph)), graph, Validator(graph, "auc"))
    losses = [float(training.train_epoch()["classification"].detach()) for _ in range(30)]
    assert losses[-1] < losses[0]


def _facts(graph):  # type: ignore[no-untyped-def]
    from fairsad.methods.base import GraphFacts

    return GraphFacts.of(graph)
