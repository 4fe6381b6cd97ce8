"""What the methods share whose model is, after training, a backbone and a linear head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fairsad.graph import FairGraph
from fairsad.losses.classification import classification_loss
from fairsad.methods.base import GraphFacts
from fairsad.methods.neural import NeuralMethod, adam
from fairsad.methods.parameters import parameter
from fairsad.nn.backbone import Backbone, NodeClassifier
from fairsad.training.selection import Validator


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifierMethod(NeuralMethod):
    """A method whose model, after training, is a backbone and a linear head."""

    backbone: Literal["gcn", "gin", "sage", "gat"] = parameter("gcn", "Graph layers; 'gcn' is the paper's.")
    hidden_dim: int = parameter(16, "Width of the representation.", low=1)
    num_layers: int = parameter(1, "Graph layers.", low=1)
    dropout: float = parameter(
        0.0, "Dropout between layers and on the representation, while training.", low=0.0, high=0.95
    )

    def _build(self, facts: GraphFacts) -> NodeClassifier:
        backbone = Backbone(self.backbone, len(facts.feature_names), self.hidden_dim, self.num_layers, self.dropout)
        return NodeClassifier(backbone, self.hidden_dim, facts.num_scores, self.dropout)

    def _forward(self, model: nn.Module, graph: FairGraph) -> tuple[Tensor, Tensor]:
        assert isinstance(model, NodeClassifier)
        h, scores = model(model.backbone.view(graph))
        return h, scores


class ClassifierTraining:
    """Cross-entropy on the training nodes, one step of Adam an epoch."""

    def __init__(self, method: NeuralMethod, model: NodeClassifier, graph: FairGraph, validator: Validator) -> None:
        self.model, self.validator = model, validator
        train_nodes = graph.mask("train").nonzero().squeeze(1)
        self.labels = graph.y[train_nodes]
        self.train_view = model.backbone.view(graph, train_nodes)
        self.validation_view = model.backbone.view(graph, validator.nodes)
        self.modules: Mapping[str, nn.Module] = {"model": model}
        self.optimisers: Mapping[str, Optimizer] = {"model": adam(model, method)}

    def loss(self, scores: Tensor) -> Tensor:
        """The loss on the scores of the training nodes, in order of node number."""
        return classification_loss(scores, self.labels)

    def train_epoch(self) -> dict[str, Tensor]:
        """One step on the classification loss."""
        self.model.train()
        (optimiser,) = self.optimisers.values()
        optimiser.zero_grad(set_to_none=True)
        loss = self.loss(self.model(self.train_view)[1])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return {"classification": loss}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Scores of the validation nodes, measured."""
        return self.validator.measure(self.model.eval()(self.validation_view)[1])
