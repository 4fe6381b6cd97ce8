"""Graphair: fair representations from views of the graph that an augmenter learns to draw."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adam, Optimizer

from fairsad.data.sampling import RandomWalks, Subgraph, WholeGraph
from fairsad.errors import ProtocolError
from fairsad.graph import FairGraph
from fairsad.losses.contrast import contrastive_loss
from fairsad.losses.links import link_loss
from fairsad.methods.base import GraphFacts, MethodCard, Preparation
from fairsad.methods.classifier import ClassifierMethod, ClassifierTraining
from fairsad.methods.fairgnn import group_indicators
from fairsad.methods.neural import adam
from fairsad.methods.parameters import Search, check_parameters, parameter
from fairsad.nn.augmenter import (
    Augmenter,
    Convolutions,
    DrawnLinks,
    Propagate,
    draw_link_list,
    draw_links,
    draw_mask,
    perceptron,
)
from fairsad.nn.backbone import Backbone, NodeClassifier, View
from fairsad.training.device import on_device, resolve_device
from fairsad.training.loop import LoopSettings, train
from fairsad.training.progress import Progress
from fairsad.training.selection import Validator, selection_rule

_AUGMENTER_DROPOUT = 0.1
_ADVERSARY_DROPOUT = 0.2
# Links of a prepared graph: more take more memory than most machines have.
_MOST_PREPARED_LINKS = 60_000_000


class Encoder(Backbone):
    """The GCN that is trained by contrast, and left as it is once the classifier is trained on what it gives.

    Args:
        num_features: Features d.
        hidden_dim: Width of every layer.
        num_layers: Layers.
        dropout: Rate between layers, while training.
        scaled: Bring every feature to [-1, 1] first.
        relu_out: End in ReLU, as DIG's encoder does.
    """

    middle: Tensor
    reach: Tensor

    def __init__(
        self, num_features: int, hidden_dim: int, num_layers: int, dropout: float, *, scaled: bool, relu_out: bool
    ) -> None:
        super().__init__("gcn", num_features, hidden_dim, num_layers, dropout)
        self.relu_out = relu_out
        self.frozen = False
        if scaled:
            self.register_buffer("middle", torch.zeros(num_features))
            self.register_buffer("reach", torch.ones(num_features))

    def fit_scale(self, x: Tensor) -> None:
        """Learn where the features lie; one that is constant has nothing to be scaled by."""
        if not self.scaled:
            return
        low, high = x.amin(dim=0), x.amax(dim=0)
        self.middle.copy_((low + high) / 2)
        self.reach.copy_(torch.where(high > low, (high - low) / 2, torch.ones_like(low)))

    @property
    def scaled(self) -> bool:
        """Whether features are scaled."""
        return "middle" in self._buffers

    def scale(self, x: Tensor) -> Tensor:
        """Features as the first layer takes them."""
        return (x - self.middle) / self.reach if self.scaled else x

    def view(self, graph: FairGraph, nodes: Tensor | None = None) -> View:
        """What to read to represent these nodes, or all of them."""
        if not self.scaled:
            return super().view(graph, nodes)
        graph.adjacency()  # made once, and kept with the graph and its copies
        other = copy.copy(graph)
        other.x = self.scale(graph.x)
        return super().view(other, nodes)

    def forward(self, view: View) -> Tensor:
        """Representation [nodes, hidden_dim] of the nodes of a view."""
        h = super().forward(view)
        return h.relu() if self.relu_out else h

    def on(self, propagated: Tensor, propagate: Propagate) -> Tensor:
        """Representation over other links, from what the first layer gathers there."""
        h = propagated
        for index, layer in enumerate(self.layers):
            if index > 0:
                h = propagate(functional.dropout(h.relu(), self.dropout, self.training))
            h = layer(h)
        return h.relu() if self.relu_out else h

    def freeze(self) -> None:
        """Change no more, and give the same with every call: no gradient, no dropout."""
        self.frozen = True
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Encoder:
        """Training or evaluation; always evaluation once it is frozen."""
        super().train(mode and not self.frozen)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class Graphair(ClassifierMethod, Preparation):
    r"""Learning fair graph representations via automated data augmentations, Ling et al.

    .. math::
        \min_{g, f} \max_k \; \beta \mathcal{L}_{con} + \gamma \mathcal{L}_{rec} - \alpha \mathcal{L}_{adv}, \qquad
        \mathcal{L}_{rec} = \frac{n^2}{2 (n^2 - |A|)} \operatorname{mean}_{ij}
            \operatorname{BCE}(\sigma(E_{ij}), A_{ij}) + \lambda \operatorname{mean}_{vi} (X'_{vi} - X_{vi})^2

    First an augmenter g draws other links A' and a mask of the features X', an adversary k tries to tell the sensitive
    attribute of each node from that view, and an encoder f learns to represent a node alike in the graph and in the
    view. Then f is frozen and a linear classifier is trained on what it gives for the graph as it is. Fairness reaches
    f only through the views; labels are read by the classifier alone. History and ``best_epoch_`` count the
    ``view_epochs`` of the first stage before the ``epochs`` of the classifier.

    A view has about a quarter of all pairs of nodes for links, so it is a dense matrix. Graphs of at most
    ``batch_nodes`` · (``walk_length`` + 1) nodes are taken whole, larger ones by subgraphs of the nodes that
    ``batch_nodes`` random walks meet, never more. ``prepare`` draws one view of the whole graph for other methods.

    Several attributes and more than two groups have an indicator for each group, which counts half; nodes of unknown
    group are left out of :math:`\mathcal{L}_{adv}`.

    Deviation: features are scaled to [-1, 1] within the method, as DIG does with its own data, unless
    ``features="raw"``. The projector is trained (``train_projector=False`` leaves it at random, as DIG does). The
    encoder does not end in ReLU (``relu_out``), as the backbones of the other methods. In subgraphs the contrast is the
    estimate of its full-batch value; DIG's is twice that, which is ``beta=2``. Embeddings for the classifier are made
    without dropout. Batch weights are restricted to the nodes whose s is known, and estimate the mean over these.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> Graphair(epochs=5, view_epochs=2, warm_up_steps=2).fit(graph).predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="graphair",
        title="Graphair",
        paper="Ling et al., ICLR 2023",
        kind="pre-processing",
        cost="quadratic in the nodes of a subgraph, of 4,000 nodes at most",
        groups="any",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="all",
    )
    off: ClassVar[Mapping[str, Any] | None] = {"view_epochs": 0, "freeze_encoder": False, "features": "raw"}

    epochs: int = parameter(500, "Epochs to train the classifier.", low=1)
    learning_rate: float = parameter(
        1e-3, "Learning rate of Adam, classifier.", low=0.0, search=Search(1e-4, 1e-2, log=True)
    )
    evaluate_every: int = parameter(1, "Validate after every so many epochs.", low=1)
    selection: str = parameter("acc", "Which evaluation is kept: 'last', or a signed sum of metrics.")
    backbone: Literal["gcn"] = parameter("gcn", "Graph layers; views have links for the GCN only.")
    alpha: float = parameter(1.0, "Weight α of the adversary.", low=0.0, search=Search(choices=(0.1, 1.0, 10.0)))
    beta: float = parameter(1.0, "Weight β of the contrast.", low=0.0)
    gamma: float = parameter(
        1.0, "Weight γ of keeping the views close to the graph.", low=0.0, search=Search(choices=(0.1, 1.0, 10.0))
    )
    feature_weight: float = parameter(
        1.0, "Weight λ of features within that.", low=0.0, search=Search(choices=(0.1, 1.0, 10.0))
    )
    view_epochs: int = parameter(500, "Epochs of the first stage: augmenter, adversary and encoder.", low=0)
    view_learning_rate: float = parameter(1e-4, "Learning rate of Adam, first stage.", low=0.0)
    warm_up_steps: int = parameter(50, "Steps of the augmenter alone before all else, on L_rec.", low=0)
    adversary_first_steps: int = parameter(10, "Steps of the adversary in the first epoch; 1 in each after it.", low=1)
    temperature: float = parameter(0.07, "Temperature τ of the contrast.", low=0.03)
    view_dim: int = parameter(64, "Width of augmenter and adversary.", low=1)
    batch_nodes: int | None = parameter(
        1000, "Random walks of a subgraph, for graphs larger than their subgraphs; none takes any graph whole.", low=1
    )
    walk_length: int = parameter(3, "Steps of each walk.", low=0)
    coverage: int = parameter(500, "How often a node is met while the weights of subgraphs are estimated.", low=1)
    steps_per_epoch: int | None = parameter(
        1, "Subgraphs of an epoch, 1 as DIG does; none takes as many as there are nodes per walk.", low=1
    )
    sensitive_nodes: Literal["all", "not held out", "train"] = parameter(
        "all", "Whose s the adversary reads: 'all' (DIG), 'not held out' for validation and test, 'train'."
    )
    features: Literal["scaled", "raw"] = parameter("scaled", "Features 'scaled' to [-1, 1], or as they are.")
    relu_out: bool = parameter(False, "End the encoder in ReLU, as DIG does.")
    train_projector: bool = parameter(True, "Train the contrast's projector; DIG leaves it at random.")
    freeze_encoder: bool = parameter(True, "Keep the encoder as it is while the classifier is trained on it.")

    @property
    def _first_epochs(self) -> int:
        return self.view_epochs

    def _build(self, facts: GraphFacts) -> NodeClassifier:
        encoder = Encoder(
            len(facts.feature_names),
            self.hidden_dim,
            self.num_layers,
            self.dropout,
            scaled=self.features == "scaled",
            relu_out=self.relu_out,
        )
        return NodeClassifier(encoder, self.hidden_dim, facts.num_scores, self.dropout)

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> GraphairTraining:
        assert isinstance(model, NodeClassifier)
        return GraphairTraining(self, model, graph, validator)

    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        """One view of the whole graph, drawn by the augmenter that ``fit`` would train.

        A masked feature takes the value that is 0 to the method: the middle of its range where features are scaled.

        Args:
            graph: What to start from.
            progress: Show a bar; by default on a terminal only.

        Raises:
            ProtocolError: The view would have too many links, or the augmenter is not trained.
        """
        check_parameters(self)
        if self.view_epochs == 0:
            raise ProtocolError("Graphair draws views with what it learns in view_epochs = 0 epochs. Set some.")
        device = resolve_device(self.device)
        there = on_device(graph, device)
        with torch.random.fork_rng():  # the caller's random stream is left as it was
            torch.manual_seed(self.seed)
            encoder = self._build(GraphFacts.of(graph)).to(device).backbone
            assert isinstance(encoder, Encoder)
            encoder.fit_scale(there.x)
            training = ViewTraining(self, encoder, there)
            settings = LoopSettings(self.view_epochs, selection_rule("last"), evaluate_every=self.view_epochs)
            train(training, settings, Progress(f"{self.card.title}, views", progress))
            mask, links = training.draw_view(there)
        middle = encoder.middle if encoder.scaled else torch.zeros_like(there.x[0])
        x = torch.where(mask, there.x, middle)
        return graph.replace(x=x.to(graph.x.device), edge_index=links.to(graph.x.device))


class GraphairTraining:
    """Both stages, one after the other: the views and the encoder, then the classifier."""

    def __init__(self, method: Graphair, model: NodeClassifier, graph: FairGraph, validator: Validator) -> None:
        assert isinstance(model.backbone, Encoder)
        self.encoder = model.backbone
        self.encoder.fit_scale(graph.x)
        self.freeze_encoder = method.freeze_encoder
        self.classifier = ClassifierTraining(method, model, graph, validator)
        self.views = ViewTraining(method, self.encoder, graph) if method.view_epochs else None
        self.modules: Mapping[str, nn.Module] = {
            **self.classifier.modules,
            **(self.views.modules if self.views else {}),
        }
        self.optimisers: Mapping[str, Optimizer] = {
            **self.classifier.optimisers,
            **(self.views.optimisers if self.views else {}),
        }

    def train_epoch(self) -> dict[str, Tensor]:
        """One epoch of the stage that it is time for."""
        if self.views is not None and not self.views.is_done:
            return self.views.train_epoch()
        if self.freeze_encoder:
            self.encoder.freeze()
        return self.classifier.train_epoch()

    def validate(self) -> dict[str, float]:
        """Scores of the validation nodes, measured."""
        return self.classifier.validate()


class Clock(nn.Module):
    """Epochs done, kept with the weights so that a resumed run knows."""

    epochs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))


class Adversary(nn.Module):
    """Graphair's k: from a view, which group each node is of.

    Args:
        num_features: Features d.
        hidden_dim: Width of the layers.
        num_indicators: Outputs, one for each indicator of a group.
    """

    def __init__(self, num_features: int, hidden_dim: int, num_indicators: int) -> None:
        super().__init__()
        self.convolutions = Convolutions((num_features, hidden_dim, hidden_dim), _ADVERSARY_DROPOUT)
        self.head = perceptron(hidden_dim, num_indicators, nn.ReLU())

    def forward(self, propagated: Tensor, propagate: Propagate) -> Tensor:
        """Scores [k, indicators]."""
        scores: Tensor = self.head(self.convolutions(propagated, propagate))
        return scores


@dataclass(frozen=True, eq=False)
class Batch:
    """A part of the graph, with what every step on it reads.

    Attributes:
        part: Its nodes and links.
        x: Features [k, d].
        propagated: What a first layer gathers of them.
        propagate: One step of propagation over the part's own links.
    """

    part: Subgraph
    x: Tensor
    propagated: Tensor
    propagate: Propagate


class ViewTraining:
    """The first stage: in each step a view is drawn, the adversary steps, then augmenter and encoder do.

    Args:
        method: The settings.
        encoder: Learns to represent a node alike in the graph and in its views.
        graph: Its features and links, and the sensitive values that the method may read; no label.
    """

    def __init__(self, method: Graphair, encoder: Encoder, graph: FairGraph) -> None:
        self.method, self.encoder = method, encoder
        self.x = encoder.scale(graph.x)
        num_features, device = self.x.size(1), self.x.device
        self.indicators, self.adversary_shares = _indicators(graph, method)
        self.augmenter = Augmenter(num_features, method.view_dim, _AUGMENTER_DROPOUT).to(device)
        self.adversary = Adversary(num_features, method.view_dim, self.indicators.size(1)).to(device)
        self.projector = perceptron(method.hidden_dim, method.hidden_dim, nn.ELU()).to(device)
        self.clock = Clock().to(device)

        self.sampler = _sampler(graph, method)
        self.steps = 1 if isinstance(self.sampler, WholeGraph) else -(-graph.num_nodes // self.sampler.num_roots)
        if method.steps_per_epoch is not None:
            self.steps = method.steps_per_epoch
        entries, pairs = graph.adjacency().num_entries, graph.num_nodes**2
        self.link_weight = pairs / (2 * max(pairs - entries, 1))

        moved = [self.augmenter, encoder, *([self.projector] if method.train_projector else [])]
        self.modules: Mapping[str, nn.Module] = {
            "augmenter": self.augmenter,
            "adversary": self.adversary,
            "projector": self.projector,
            "clock": self.clock,
        }
        self.optimisers: Mapping[str, Optimizer] = {
            "views": self._adam(nn.ModuleList(moved)),
            "adversary": self._adam(self.adversary),
        }

    @property
    def is_done(self) -> bool:
        """Whether all epochs of the stage are over."""
        return int(self.clock.epochs) >= self.method.view_epochs

    def train_epoch(self) -> dict[str, Tensor]:
        """The steps of an epoch, and before the first epoch the warm-up; gives the losses of the last step."""
        is_first = int(self.clock.epochs) == 0
        for module in (self.augmenter, self.adversary, self.projector, self.encoder):
            module.train()
        if is_first:
            self.warm_up()
        for step in range(self.steps):
            parts = self.step(self.method.adversary_first_steps if is_first and step == 0 else 1)
        self.clock.epochs.add_(1)
        return parts

    def validate(self) -> dict[str, float]:
        """Nothing: there is no classifier yet."""
        return {}

    def warm_up(self) -> None:
        """Bring the views close to the graph first: the augmenter alone, on L_rec alone."""
        optimiser = self._adam(self.augmenter)
        for _ in range(self.method.warm_up_steps):
            batch = self._batch()
            z, scores = self.augmenter(batch.propagated, batch.propagate)
            optimiser.zero_grad(set_to_none=True)
            self._reconstruction(batch, z, batch.x * draw_mask(scores)).backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    def step(self, adversary_steps: int) -> dict[str, Tensor]:
        """A view is drawn; the adversary steps on it, and then augmenter and encoder do."""
        method, batch = self.method, self._batch()
        z, scores = self.augmenter(batch.propagated, batch.propagate)
        links = DrawnLinks(draw_links(z, batch.part.pattern()))
        x = batch.x * draw_mask(scores)
        propagated = links.propagate(x)

        fixed, seen = links.detached(), propagated.detach()
        for _ in range(adversary_steps):
            self.optimisers["adversary"].zero_grad(set_to_none=True)
            self._adversary_loss(batch, seen, fixed).backward()  # type: ignore[no-untyped-call]
            self.optimisers["adversary"].step()

        self.optimisers["views"].zero_grad(set_to_none=True)
        self.adversary.requires_grad_(False)
        parts = {
            "contrast": contrastive_loss(
                self.projector(self.encoder.on(batch.propagated, batch.propagate)),
                self.projector(self.encoder.on(propagated, links.propagate)),
                method.temperature,
                batch.part.shares,
            ),
            "reconstruction": self._reconstruction(batch, z, x),
            "adversary": self._adversary_loss(batch, propagated, links),
        }
        loss = (
            method.beta * parts["contrast"] + method.gamma * parts["reconstruction"] - method.alpha * parts["adversary"]
        )
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimisers["views"].step()
        self.adversary.requires_grad_(True)
        return {"loss": loss, **parts}

    @torch.no_grad()
    def draw_view(self, graph: FairGraph) -> tuple[Tensor, Tensor]:
        """One view of the whole graph: which features are kept, bool [n, d], and links int64 [2, m], one direction.

        Raises:
            ProtocolError: There are more links than can be handled.
        """
        batch = self._batch(WholeGraph(graph).draw())
        z, scores = self.augmenter.eval()(batch.propagated, batch.propagate)
        mask = draw_mask(scores) > 0.5
        drawn, number = [graph.edge_index.new_zeros(2, 0)], 0
        for links in draw_link_list(z, batch.part.rows, batch.part.columns):
            number += links.size(1)
            if number > _MOST_PREPARED_LINKS:
                raise ProtocolError(
                    f"a view of graph {graph.name!r} has more than {_MOST_PREPARED_LINKS:,} links: Graphair draws "
                    f"up to half of all pairs of its {graph.num_nodes:,} nodes. Prepare a smaller graph, or train "
                    "Graphair itself, which reads views of subgraphs."
                )
            drawn.append(links)
        return mask, torch.cat(drawn, dim=1)

    def _adam(self, module: nn.Module) -> Adam:
        return adam(module, self.method, self.method.view_learning_rate)

    def _batch(self, part: Subgraph | None = None) -> Batch:
        part = self.sampler.draw() if part is None else part
        matrix = part.matrix()

        def propagate(h: Tensor) -> Tensor:
            product: Tensor = torch.sparse.mm(matrix, h)
            return product

        x = self.x[part.nodes]
        return Batch(part, x, propagate(x), propagate)

    def _reconstruction(self, batch: Batch, z: Tensor, x: Tensor) -> Tensor:
        """L_rec."""
        links = link_loss(z, batch.part.rows, batch.part.columns)
        loss: Tensor = self.link_weight * links + self.method.feature_weight * functional.mse_loss(x, batch.x)
        return loss

    def _adversary_loss(self, batch: Batch, propagated: Tensor, links: DrawnLinks) -> Tensor:
        """L_adv: the mean over the nodes whose group the adversary may know, or its estimate from a subgraph."""
        nodes = batch.part.nodes
        shares = len(self.x) * batch.part.shares.unsqueeze(1) * self.adversary_shares[nodes]
        return functional.binary_cross_entropy_with_logits(
            self.adversary(propagated, links.propagate), self.indicators[nodes], shares, reduction="sum"
        )


def _sampler(graph: FairGraph, method: Graphair) -> WholeGraph | RandomWalks:
    """The whole graph where it is no larger than a subgraph may be."""
    if method.batch_nodes is None or graph.num_nodes <= method.batch_nodes * (method.walk_length + 1):
        return WholeGraph(graph)
    return RandomWalks(graph, method.batch_nodes, method.walk_length, method.coverage)


def _indicators(graph: FairGraph, method: Graphair) -> tuple[Tensor, Tensor]:
    """Which group each node is of [n, indicators], and how much it counts in the adversary's loss [n, indicators].

    Raises:
        ProtocolError: Nobody's value of an attribute may be read.
    """
    readable = {
        "all": torch.ones_like(graph.mask("train")),
        "not held out": ~(graph.mask("val") | graph.mask("test")),
        "train": graph.mask("train"),
    }[method.sensitive_nodes]
    for name, values in zip(graph.sensitive_names, graph.sensitive.unbind(1), strict=True):
        if not bool((readable & (values >= 0)).any()):
            raise ProtocolError(
                f"Graphair's adversary learns {name!r} from nodes whose value is known (sensitive_nodes = "
                f"{method.sensitive_nodes!r}); graph {graph.name!r} has none. Know some, or read those of more nodes."
            )
    indicators, known, weights = group_indicators(graph, torch.arange(graph.num_nodes, device=graph.x.device))
    counted = known & readable.unsqueeze(1)
    return indicators * counted, weights * counted / counted.sum(0)
