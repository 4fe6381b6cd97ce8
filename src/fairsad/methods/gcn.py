"""The unconstrained model: a graph convolution and a linear head, which no fairness term holds back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from fairsad.graph import FairGraph
from fairsad.methods.base import MethodCard
from fairsad.methods.classifier import ClassifierMethod, ClassifierTraining
from fairsad.methods.parameters import parameter
from fairsad.nn.backbone import NodeClassifier
from fairsad.training.selection import Validator


@dataclass(kw_only=True, eq=False, repr=False)
class GCN(ClassifierMethod):
    r"""Vanilla graph convolution: the reference row of every comparison, and the backbone of the other methods.

    .. math::
        h = D^{-1/2} (A + I) D^{-1/2} X W + b, \qquad z = h a + c

    One layer is linear in X, so the propagated features are computed once and training reads the rows of the training
    nodes only; the same numbers up to rounding.

    Deviation: the published baseline accepts a dropout rate and ignores it; here the default is 0 and any other rate
    is applied. It also runs one epoch more than it is asked for.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> GCN(epochs=5).fit(graph).predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="gcn",
        title="GCN",
        paper="Kipf and Welling, ICLR 2017",
        kind="reference",
        cost="linear in links, once; then linear in training nodes",
        groups="any",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="none",
    )
    off: ClassVar[Mapping[str, Any] | None] = {}

    evaluate_every: int = parameter(1, "Validate after every so many epochs.", low=1)
    selection: str = parameter("-loss", "Which evaluation is kept: 'last', or a signed sum of metrics.")

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> ClassifierTraining:
        assert isinstance(model, NodeClassifier)
        return ClassifierTraining(self, model, graph, validator)
