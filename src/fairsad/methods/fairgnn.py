"""FairGNN: fairness with few known sensitive values, by an estimator, a covariance and an adversary."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from fairsad.errors import ProtocolError
from fairsad.graph import FairGraph
from fairsad.losses.classification import classification_loss
from fairsad.methods.base import MethodCard
from fairsad.methods.classifier import ClassifierMethod, ClassifierTraining
from fairsad.methods.gcn import GCN
from fairsad.methods.neural import adam
from fairsad.methods.parameters import Search, parameter, parameters_of
from fairsad.nn.backbone import Backbone, NodeClassifier, linear
from fairsad.training.loop import LoopSettings, train
from fairsad.training.progress import Progress
from fairsad.training.selection import Validator, selection_rule

# The estimator is judged on the validation nodes after every so many epochs, as in the authors' code.
_ESTIMATOR_EVALUATED_EVERY = 10


@dataclass(kw_only=True, eq=False, repr=False)
class FairGNN(ClassifierMethod):
    r"""Fair classification with limited sensitive information, Dai and Wang, Eqs. (2)-(10).

    .. math::
        \min_{f_G, f_C} \max_{f_A} \; \mathcal{L}_C + \alpha \mathcal{L}_R - \beta \mathcal{L}_A, \qquad
        \mathcal{L}_R = |\operatorname{Cov}(\tilde s, \hat y)|, \qquad
        \mathcal{L}_A = \operatorname{mean}_v \operatorname{BCE}(f_A(h_v), \tilde s_v)

    First an estimator f_E learns to predict s from the few nodes S whose value is known. Then :math:`\tilde s_v` is
    :math:`s_v` on S and :math:`\sigma(f_E(v))` everywhere else, and a classifier is trained on the training nodes while
    its prediction :math:`\hat y` is kept uncorrelated with :math:`\tilde s`, and a linear adversary f_A, which has to
    tell :math:`\tilde s` from the representation, is fooled. Classifier and adversary step in turn, once an epoch each;
    the adversary's step reads the representation that the classifier's step started from.

    S is drawn from the nodes that are neither in validation nor in test; which nodes depends on ``sensitive_seed`` and
    not on ``seed``. The estimator is trained within ``fit``, and again when a run is resumed, with the same result.

    ``selection="thresholded"`` is the authors' rule: among the epochs whose validation accuracy and AUC are above a
    threshold, the smallest ΔDP + ΔEO; the largest AUC, if there is no such epoch. Their thresholds were set by hand for
    each dataset; here they are what a GCN with the same settings reaches, minus ``threshold_margin``.

    Several attributes and more than two groups have an indicator for each group, which counts half (the two of a binary
    attribute are one another's opposite, so that case is the formula above); so have more than two classes in
    :math:`\mathcal{L}_R`.

    Deviation: dropout is on the representation, before both heads (the authors' is between two layers, which one layer
    does not have); the estimator gives its estimates at evaluation, without dropout (``estimator_mode``), and is left
    alone after its own training, as the authors' code does though the paper's objective has the estimator's loss as
    well (``joint_estimator``).

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> FairGNN(epochs=5, num_sensitive=50).fit(graph).predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="fairgnn",
        title="FairGNN",
        paper="Dai and Wang, WSDM 2021",
        kind="in-processing",
        cost="linear in links, once; then linear in nodes",
        groups="any",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="not held out",
    )
    off: ClassVar[Mapping[str, Any] | None] = {"alpha": 0.0, "beta": 0.0}
    own_metrics: ClassVar[tuple[str, ...]] = ("thresholded",)

    alpha: float = parameter(
        4.0, "Weight α of the covariance of prediction and s.", low=0.0, search=Search(1.0, 100.0, log=True)
    )
    beta: float = parameter(0.01, "Weight β of the adversary.", low=0.0, search=Search(1e-3, 1.0, log=True))
    learning_rate: float = parameter(
        1e-3, "Learning rate of Adam, classifier and adversary.", low=0.0, search=Search(choices=(1e-4, 1e-3, 1e-2))
    )
    dropout: float = parameter(
        0.0,
        "Dropout between layers and on the representation, while training.",
        low=0.0,
        high=0.95,
        search=Search(choices=(0.0, 0.5, 0.8)),
    )
    num_sensitive: int | None = parameter(
        200, "Nodes of S, whose s is used: at most so many; none takes all outside validation and test.", low=1
    )
    sensitive_seed: int = parameter(20, "Seed that S is drawn with.", low=0)
    estimator_epochs: int = parameter(800, "Epochs to train the estimator of s, before all else.", low=1)
    estimator_learning_rate: float = parameter(1e-3, "Learning rate of Adam for the estimator.", low=0.0)
    estimator_dropout: float = parameter(0.0, "Dropout of the estimator, as 'dropout'.", low=0.0, high=0.95)
    estimator_selection: Literal["accuracy", "last"] = parameter(
        "accuracy", "Which estimator is kept: 'accuracy', the best on validation nodes of known s, or the 'last'."
    )
    estimator_mode: Literal["evaluation", "training"] = parameter(
        "evaluation", "Estimates while the classifier trains: without dropout, or in 'training' mode, with it (code)."
    )
    joint_estimator: bool = parameter(False, "Train the estimator on along with the classifier (paper's objective).")
    threshold_margin: float = parameter(
        0.01, "How far below a GCN's accuracy and AUC selection='thresholded' goes.", low=0.0, high=1.0
    )

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> FairGNNTraining:
        assert isinstance(model, NodeClassifier)
        thresholds = None
        if "thresholded" in self.selection:
            thresholds = self.protocol_["thresholds"] = self._thresholds(graph)
        training = FairGNNTraining(self, model, graph, validator, thresholds, self._progress)
        if training.mitigates:
            self.protocol_["estimator"] = training.estimator_facts
        return training

    def _thresholds(self, graph: FairGraph) -> dict[str, float]:
        """Validation accuracy and AUC that an epoch has to be above, from a GCN with the same settings."""
        shared = {name: getattr(self, name) for name in parameters_of(GCN) if name != "selection"}
        reference = GCN(**shared).fit(graph, progress=self._progress)
        reached = reference.protocol_["validation"]
        return {name: reached[name] - self.threshold_margin for name in ("acc", "auc")}


class FairGNNTraining(ClassifierTraining):
    """A step for the classifier and a step for the adversary, in turn; before the first, the estimator is trained.

    Where neither the covariance nor the adversary has a weight, there is nothing to read outside the training nodes:
    this is the training of a plain classifier then, without estimator and adversary.

    Args:
        method: The settings.
        model: What is trained to predict.
        graph: Its features, links and S are read at all nodes.
        validator: Measures on the validation nodes.
        thresholds: Validation metrics to be above, for selection by "thresholded".
        progress: Show a bar while the estimator is trained; by default on a terminal only.
    """

    def __init__(
        self,
        method: FairGNN,
        model: NodeClassifier,
        graph: FairGraph,
        validator: Validator,
        thresholds: Mapping[str, float] | None = None,
        progress: bool | None = None,
    ) -> None:
        super().__init__(method, model, graph, validator)
        self.method, self.thresholds = method, thresholds
        self.mitigates = method.alpha > 0 or method.beta > 0
        if not self.mitigates:
            return
        self.view = model.backbone.view(graph)
        self.train_nodes = graph.mask("train").nonzero().squeeze(1)
        self.known = KnownSensitive.draw(graph, method.num_sensitive, method.sensitive_seed)
        self.estimator, self.estimator_facts = train_estimator(method, graph, self.known, validator.nodes, progress)
        self.adversary = linear(method.hidden_dim, self.known.num_indicators).to(graph.x.device)

        noisy = method.estimator_mode == "training" and method.estimator_dropout > 0
        self.estimator.train(noisy).requires_grad_(method.joint_estimator)
        self.estimator_view = self.estimator.backbone.view(graph)
        self.estimates_change = noisy or method.joint_estimator
        if not self.estimates_change:
            self.sensitive = self.known.completed(self._estimate())

        trained: dict[str, nn.Module] = {"model": model, "adversary": self.adversary}
        if method.joint_estimator:
            trained["estimator"] = self.estimator
        self.modules: Mapping[str, nn.Module] = trained
        self.optimisers: Mapping[str, Optimizer] = {name: adam(module, method) for name, module in trained.items()}

    def train_epoch(self) -> dict[str, Tensor]:
        """The step of the classifier, then that of the adversary, both from the same weights."""
        if not self.mitigates:
            return super().train_epoch()
        method, known = self.method, self.known
        self.model.train()
        for optimiser in self.optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        if self.estimates_change:
            estimates = self._estimate()
            self.sensitive = known.completed(estimates.detach())

        self.adversary.requires_grad_(False)
        h, scores = self.model(self.view)
        parts = {
            "classification": classification_loss(scores[self.train_nodes], self.labels),
            "covariance": prediction_covariance(scores, self.sensitive, known.weights),
            "adversary": known.cross_entropy(self.adversary(h), self.sensitive),
        }
        loss = parts["classification"] + method.alpha * parts["covariance"] - method.beta * parts["adversary"]
        if method.joint_estimator:
            parts["estimator"] = known.estimator_loss(estimates[known.nodes])
            loss = loss + parts["estimator"]
        loss.backward()  # type: ignore[no-untyped-call]
        for name, optimiser in self.optimisers.items():
            if name != "adversary":
                optimiser.step()

        self.adversary.requires_grad_(True)
        known.cross_entropy(self.adversary(h.detach()), self.sensitive).backward()  # type: ignore[no-untyped-call]
        self.optimisers["adversary"].step()
        return {"loss": loss, **parts}

    def validate(self) -> dict[str, float]:
        """Scores of the validation nodes, measured."""
        metrics = super().validate()
        if self.thresholds is not None:
            metrics["thresholded"] = thresholded(metrics, self.thresholds)
        return metrics

    def _estimate(self) -> Tensor:
        """What the estimator says [n, indicators], before the sigmoid."""
        return _columns(self.estimator(self.estimator_view)[1])


@dataclass(frozen=True, eq=False)
class KnownSensitive:
    r"""The sensitive values of S, as indicators: one of a binary attribute, one of each group of any other.

    Attributes:
        nodes: S.
        indicators: [|S|, indicators], whether a node is of a group.
        known: bool [|S|, indicators], where that is known.
        weights: [indicators], 1 for the one of a binary attribute and 1/2 for any other.
    """

    nodes: Tensor
    indicators: Tensor
    known: Tensor
    weights: Tensor

    @classmethod
    def draw(cls, graph: FairGraph, size: int | None, seed: int) -> KnownSensitive:
        """Draw S from the nodes with a known value that are neither in validation nor in test.

        Raises:
            ProtocolError: Nobody's value of an attribute is known there.
        """
        held_out = graph.mask("val") | graph.mask("test")
        pool = ((graph.sensitive >= 0).any(dim=1) & ~held_out).nonzero().squeeze(1).tolist()
        random.Random(seed).shuffle(pool)  # Python's, as for splits: the same nodes on every platform
        nodes = torch.tensor(sorted(pool[:size]), dtype=torch.int64, device=graph.x.device)
        indicators, known, weights = group_indicators(graph, nodes)
        for name, column in zip(graph.sensitive_names, (graph.sensitive[nodes] >= 0).unbind(1), strict=True):
            if not bool(column.any()):
                raise ProtocolError(
                    f"FairGNN learns {name!r} from nodes whose value is known and which are neither in validation nor "
                    f"in test; of graph {graph.name!r} it drew {len(nodes)} nodes and none has one. Know some more "
                    "values, or raise num_sensitive."
                )
        return cls(nodes, indicators, known, weights)

    @property
    def num_indicators(self) -> int:
        """Columns of what estimator and adversary have to tell."""
        return self.weights.numel()

    def completed(self, estimates: Tensor) -> Tensor:
        """What is known, and where it is not, what is estimated: [n, indicators] from scores [n, indicators]."""
        probabilities = estimates.sigmoid()
        probabilities[self.nodes] = torch.where(self.known, self.indicators, probabilities[self.nodes])
        return probabilities

    def estimator_loss(self, scores: Tensor) -> Tensor:
        """L_E: cross-entropy of the estimator's scores [|S|, indicators], over what is known."""
        shares = self.weights * self.known / self.known.sum(0)
        return functional.binary_cross_entropy_with_logits(scores, self.indicators, shares, reduction="sum")

    def cross_entropy(self, scores: Tensor, targets: Tensor) -> Tensor:
        """L_A: cross-entropy of the adversary's scores [n, indicators] with probabilities for targets."""
        shares = self.weights / len(scores)
        return functional.binary_cross_entropy_with_logits(scores, targets, shares, reduction="sum")


def group_indicators(graph: FairGraph, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of these nodes, which group each is of, where that is known, and how much each indicator counts."""
    indicators, known, weights = [], [], []
    for values, names in zip(graph.sensitive[nodes].unbind(1), graph.sensitive_values, strict=True):
        groups = [1] if len(names) == 2 else range(len(names))
        for group in groups:
            indicators.append((values == group).to(graph.x.dtype))
            known.append(values >= 0)
            weights.append(1.0 if len(names) == 2 else 0.5)
    return torch.stack(indicators, dim=1), torch.stack(known, dim=1), graph.x.new_tensor(weights)


def prediction_covariance(scores: Tensor, sensitive: Tensor, weights: Tensor) -> Tensor:
    r"""L_R: how much the prediction of all nodes covaries with the sensitive attribute.

    .. math::
        \mathcal{L}_R = |\operatorname{Cov}(\tilde s, \hat y)| =
            |\operatorname{E}[(\tilde s - \operatorname{E} \tilde s) (\hat y - \operatorname{E} \hat y)]|

    Args:
        scores: [n] for two classes, [n, classes] for more, of which the probability of each counts half.
        sensitive: Indicators or probabilities [n, indicators].
        weights: How much each indicator counts.
    """
    probabilities = scores.sigmoid().unsqueeze(1) if scores.dim() == 1 else scores.softmax(dim=1)
    # with s centred, the probabilities need not be
    covariances = (sensitive - sensitive.mean(0)).t() @ probabilities / len(scores)
    counted = (weights @ covariances.abs()).sum()
    return counted if scores.dim() == 1 else counted / 2


def thresholded(metrics: Mapping[str, float], thresholds: Mapping[str, float]) -> float:
    """A score that puts epochs above all thresholds first, by small gaps, and after them the others, by AUC."""
    if all(metrics[name] > threshold for name, threshold in thresholds.items()):
        return 4.0 - metrics["dp"] - metrics["eo"]  # at least 2, and an AUC at most 1
    return metrics["auc"]


def train_estimator(
    method: FairGNN, graph: FairGraph, known: KnownSensitive, validation: Tensor, progress: bool | None
) -> tuple[NodeClassifier, dict[str, Any]]:
    """The estimator f_E, a GCN with a linear head, trained on S, and what to remember of its training."""
    backbone = Backbone("gcn", graph.x.size(1), method.hidden_dim, method.num_layers, method.estimator_dropout)
    estimator = NodeClassifier(backbone, method.hidden_dim, known.num_indicators, method.estimator_dropout)
    training = EstimatorTraining(method, estimator.to(graph.x.device), graph, known, validation)
    by_accuracy = method.estimator_selection == "accuracy"
    settings = LoopSettings(
        epochs=method.estimator_epochs,
        score=(lambda metrics: metrics["accuracy"]) if by_accuracy else selection_rule("last"),
        evaluate_every=_ESTIMATOR_EVALUATED_EVERY,
    )
    outcome = train(training, settings, Progress(f"{method.card.title}, estimator of s", progress))
    return estimator, {
        "known_nodes": len(known.nodes),
        "best_epoch": outcome.best_epoch,
        "validation": outcome.best_metrics,
    }


class EstimatorTraining:
    """Stage 1: cross-entropy on S, one step of Adam an epoch; the accuracy on validation nodes says what is kept."""

    def __init__(
        self, method: FairGNN, estimator: NodeClassifier, graph: FairGraph, known: KnownSensitive, validation: Tensor
    ) -> None:
        self.estimator, self.known = estimator, known
        self.view = estimator.backbone.view(graph, known.nodes)
        self.validation_view = estimator.backbone.view(graph, validation)
        self.truth, self.truth_known, _ = group_indicators(graph, validation)
        if method.estimator_selection == "accuracy" and not bool(self.truth_known.any()):
            raise ProtocolError(
                f"FairGNN keeps the estimator that is best on validation nodes whose sensitive value is known; graph "
                f"{graph.name!r} has none. Set estimator_selection='last'."
            )
        self.modules: Mapping[str, nn.Module] = {"estimator": estimator}
        self.optimisers: Mapping[str, Optimizer] = {
            "estimator": adam(estimator, method, method.estimator_learning_rate)
        }

    def train_epoch(self) -> dict[str, Tensor]:
        """One step on L_E."""
        self.estimator.train()
        (optimiser,) = self.optimisers.values()
        optimiser.zero_grad(set_to_none=True)
        loss = self.known.estimator_loss(_columns(self.estimator(self.view)[1]))
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return {"estimator": loss}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Share of the known indicators of the validation nodes that are told right."""
        told = _columns(self.estimator.eval()(self.validation_view)[1]) > 0
        right = (told == (self.truth > 0))[self.truth_known]
        return {"accuracy": float(right.double().mean())}


def _columns(scores: Tensor) -> Tensor:
    """Scores [n] or [n, indicators] as [n, indicators]."""
    return scores.unsqueeze(1) if scores.dim() == 1 else scores
