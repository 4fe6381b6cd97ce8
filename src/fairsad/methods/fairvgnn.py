"""FairVGNN: columns that leak the sensitive attribute are masked, and the encoder is held back on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.kernels import exact_dtype
from fairsad.kernels.aggregate import aggregate
from fairsad.losses.classification import classification_loss
from fairsad.methods.base import GraphFacts, MethodCard
from fairsad.methods.classifier import ClassifierMethod
from fairsad.methods.neural import adam
from fairsad.methods.parameters import Search, parameter
from fairsad.nn.backbone import Backbone, NodeClassifier, View
from fairsad.training.selection import Validator


class FairViews(nn.Module):
    r"""Generator g: a share for every input column, from which the masks of the fair views are drawn.

    .. math::
        m^k_i \sim \operatorname{GumbelSoftmax}(\omega_i, \tau)_1, \qquad p_i = \operatorname{softmax}(\omega_i)_1

    Args:
        num_columns: Columns d of x.
        num_views: Masks K of a draw.
        temperature: τ of the Gumbel-softmax.
        draw_at_evaluation: Evaluate with K masks of zeros and ones, see ``draw``; otherwise with the shares p.
    """

    def __init__(self, num_columns: int, num_views: int, *, temperature: float, draw_at_evaluation: bool) -> None:
        super().__init__()
        self.num_views = num_views
        self.temperature = temperature
        self.scores = nn.Parameter(torch.empty(num_columns, 2))
        nn.init.xavier_uniform_(self.scores)
        self.drawn: Tensor | None
        self.register_buffer("drawn", torch.ones(num_views, num_columns) if draw_at_evaluation else None)

    def probabilities(self) -> Tensor:
        """Shares [d] of the columns that are kept, p in the formula."""
        return self.scores.softmax(dim=1)[:, 0]

    def sample(self) -> Tensor:
        """Soft masks [K, d] in (0, 1), with a gradient."""
        scores = self.scores.expand(self.num_views, -1, -1)
        return functional.gumbel_softmax(scores, tau=self.temperature, dim=2)[:, :, 0]

    @torch.no_grad()
    def draw(self) -> None:
        """Draw the masks of the next evaluation, where evaluation is with a draw.

        The random stream is put back to where it was, so that what is trained does not depend on what is looked at.
        """
        if self.drawn is not None:
            with torch.random.fork_rng():
                self.drawn.copy_(self.sample() > 0.5)

    def at_evaluation(self) -> Tensor:
        """The masks [views, d] that predictions are made with."""
        return self.probabilities().unsqueeze(0) if self.drawn is None else self.drawn


class FairVGNNModel(NodeClassifier):
    r"""Encoder f, classifier C and generator g: what is left after training.

    A mask scales columns and what the first layer gathers from the neighbours is a sum over rows, so masks may
    come after it: :math:`\tilde A ((X \odot m) W^\top) = (\tilde A X) (W \odot m)^\top`. One layer followed by a linear
    head is one product even for all views at once, and the mean over views is the view of the mean mask.

    Args:
        backbone: Represents the nodes.
        hidden_dim: Width of the representation.
        num_scores: Outputs of the classifier.
        dropout: Rate on the representation, while training.
        views: Generator; none where the columns are left as they are.
    """

    def __init__(
        self, backbone: Backbone, hidden_dim: int, num_scores: int, dropout: float, views: FairViews | None
    ) -> None:
        super().__init__(backbone, hidden_dim, num_scores, dropout)
        self.views = views

    @property
    def is_linear(self) -> bool:
        """Whether scores are linear in the masks."""
        return len(self.backbone.layers) == 1 and isinstance(self.backbone.layers[0], nn.Linear) and self.dropout == 0.0

    @property
    def first_weight(self) -> Tensor:
        """Weight [out, columns] that the input columns meet first."""
        return next(weight for name, weight in self.backbone.layers[0].named_parameters() if name.endswith("weight"))

    def sample(self) -> Tensor | None:
        """Masks [K, d] of fresh views, or ``None`` where there are no views."""
        return None if self.views is None else self.views.sample()

    def forward(self, view: View) -> tuple[Tensor, Tensor]:
        """Representation and scores, each the mean over the views of an evaluation."""
        if self.views is None:
            return super().forward(view)
        masks = self.views.at_evaluation()
        if self.is_linear:
            masks = masks.mean(dim=0, keepdim=True)
        each = [super(FairVGNNModel, self).forward(_masked(view, mask)) for mask in masks]
        h, scores = (torch.stack(part).mean(dim=0) for part in zip(*each, strict=True))
        return h, scores

    def scores_of_views(self, view: View, masks: Tensor | None, head: nn.Linear) -> Tensor:
        """What a linear head says about the nodes in each view: [nodes, views, outputs of the head]."""
        if masks is None:
            return head(self._represent(view)).unsqueeze(1)  # type: ignore[no-any-return]
        if not self.is_linear:
            return torch.stack([head(self._represent(_masked(view, mask))) for mask in masks], dim=1)
        layer = self.backbone.layers[0]
        assert isinstance(layer, nn.Linear)
        unmasked = head.weight @ layer.weight  # [outputs, columns]
        weight = _repeated(masks, layer.in_features).unsqueeze(1) * unmasked
        bias = functional.linear(layer.bias, head.weight, head.bias).repeat(len(masks))
        return functional.linear(view.x, weight.flatten(0, 1), bias).view(-1, len(masks), head.out_features)

    def _represent(self, view: View) -> Tensor:
        return functional.dropout(self.backbone(view), self.dropout, self.training)


def _masked(view: View, mask: Tensor) -> View:
    return View(view.x * _repeated(mask, view.x.size(1)), view.graph, view.nodes)


def _repeated(masks: Tensor, width: int) -> Tensor:
    """Masks of the columns of x, for an input that has them more than once, as GraphSAGE's has."""
    times = width // masks.size(-1)
    return masks if times == 1 else torch.cat([masks] * times, dim=-1)


@dataclass(kw_only=True, eq=False, repr=False)
class FairVGNN(ClassifierMethod):
    r"""Fair views against sensitive attribute leakage: three players on K masked copies of the features, in turns.

    .. math::
        \mathcal{L}_D &= \tfrac1K \sum_k \operatorname{mean}_v \operatorname{BCE}(D(f(x^k))_v, s_v) \\
        \mathcal{L}_C &= \tfrac1K \sum_k \operatorname{mean}_{v \in T} \operatorname{BCE}(C(f(x^k))_v, y_v) \\
        \mathcal{L}_G &= \tfrac1K \sum_k \bigl\{ \operatorname{mean}_v (D(f(x^k))_v - \tfrac12)^2
            + \rho \operatorname{mean}_i (m^k_i - 1)^2 \bigr\}

    with :math:`x^k = X \odot m^k`. An epoch is n_d steps on L_D, n_c steps on L_C and n_g steps on L_G; then each
    column of the encoder's first weight is clamped to :math:`\pm \varepsilon \bar m_i`, the mean mask of that column.

    Works for several sensitive attributes with any number of groups: the discriminator has an output for each group
    (one for two groups), and losses are averaged over the attributes. Nodes of unknown sensitive value take no part
    in L_D. On other backbones, or more than one layer, each view is a forward pass of its own.

    Deviation: at evaluation the mask is its mean p, where the authors' code draws K masks of zeros and ones from the
    same random stream as training. For one layer, p is the limit of many draws, exactly; ``evaluation_mask="sample"``
    draws K masks that are kept with the epoch and leaves the stream of training alone.

    Deviation: optimisers start fresh with every seed, where the authors' code goes on with the moments of the seed
    before; the best score starts at −∞ instead of 0; the discriminator's target is the sensitive attribute itself,
    not the column of the features that holds it.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> FairVGNN(epochs=5).fit(graph).predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="fairvgnn",
        title="FairVGNN",
        paper="Wang et al., KDD 2022",
        kind="in-processing",
        cost="linear in links, once; then linear in nodes × views",
        groups="any",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="all",
    )
    off: ClassVar[Mapping[str, Any] | None] = {
        "use_views": False,
        "discriminator_steps": 0,
        "generator_steps": 0,
        "classifier_steps": 1,
        "classifier_learning_rate": None,
        "weight_clip": None,
        "classifier_clip": None,
        "self_loops": "once",
        "init": "xavier",
    }

    epochs: int = parameter(200, "Epochs to train.", low=1)
    learning_rate: float = parameter(
        1e-2, "Learning rate of the encoder f.", low=0.0, search=Search(choices=(1e-3, 1e-2))
    )
    classifier_learning_rate: float | None = parameter(
        None,
        "Learning rate of the classifier C; none takes the encoder's.",
        low=0.0,
        search=Search(choices=(1e-3, 1e-2)),
    )
    adversary_learning_rate: float = parameter(1e-3, "Learning rate of generator and discriminator.", low=0.0)
    weight_decay: float = parameter(0.0, "Weight decay of Adam.", low=0.0)
    evaluate_every: int = parameter(1, "Validate after every so many epochs.", low=1)
    selection: str = parameter("auc+f1+acc-dp-eo", "Which evaluation is kept: 'last', or a signed sum of metrics.")
    num_views: int = parameter(10, "Fair views K.", low=1)
    mask_temperature: float = parameter(1.0, "Temperature τ of the Gumbel-softmax.", low=1e-3)
    mask_weight: float = parameter(
        1.0, "Weight ρ of masks being near one, in L_G.", low=0.0, search=Search(choices=(0.0, 0.5, 1.0))
    )
    weight_clip: float | None = parameter(
        1.0, "Clamp ε of the encoder's first weight, times the mean mask.", low=0.0, search=Search(choices=(0.1, 1.0))
    )
    classifier_clip: float | None = parameter(None, "Clamp of the classifier's weight and bias.", low=0.0)
    discriminator_steps: int = parameter(5, "Steps n_d on L_D an epoch.", low=0, search=Search(choices=(5, 10)))
    classifier_steps: int = parameter(5, "Steps n_c on L_C an epoch.", low=1, search=Search(choices=(5, 10)))
    generator_steps: int = parameter(10, "Steps n_g on L_G an epoch.", low=0, search=Search(choices=(5, 10)))
    encoder_in_discriminator_steps: bool = parameter(
        True, "Steps on L_D move the encoder too, towards what tells the groups apart, as most of the scripts do."
    )
    evaluation_mask: Literal["mean", "sample"] = parameter(
        "mean", "Mask at evaluation: 'mean', or 'sample', K draws per evaluation, kept with the epoch (code)."
    )
    discriminator_nodes: Literal["all", "not held out", "train"] = parameter(
        "all", "Whose sensitive value L_D reads: 'all' (code), 'not held out' for validation and test, 'train'."
    )
    self_loops: Literal["once", "twice"] = parameter(
        "once", "Links of a node to itself in the GCN: 'once', 'twice' (code with sparse products)."
    )
    init: Literal["kaiming", "xavier"] = parameter(
        "kaiming", "Start of encoder and classifier: 'kaiming' as PyTorch does (code), 'xavier' as the other methods."
    )
    use_views: bool = parameter(True, "Without it the columns are not masked.")

    def _build(self, facts: GraphFacts) -> FairVGNNModel:
        num_columns = len(facts.feature_names)
        if self.self_loops == "twice" and (self.backbone, self.num_layers) != ("gcn", 1):
            raise DataError(
                f"FairVGNN: self_loops = 'twice' is of a GCN with one layer; backbone is {self.backbone!r} with "
                f"num_layers = {self.num_layers}. Set self_loops to 'once'."
            )
        backbone = Backbone(self.backbone, num_columns, self.hidden_dim, self.num_layers, self.dropout)
        model = FairVGNNModel(backbone, self.hidden_dim, facts.num_scores, self.dropout, None)
        if self.init == "kaiming":
            for layer in backbone.modules():
                if isinstance(layer, nn.Linear):
                    layer.reset_parameters()
                    nn.init.zeros_(layer.bias)
            model.head.reset_parameters()
        if self.use_views:
            model.views = FairViews(
                num_columns,
                self.num_views,
                temperature=self.mask_temperature,
                draw_at_evaluation=self.evaluation_mask == "sample",
            )
        return model

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> FairVGNNTraining:
        assert isinstance(model, FairVGNNModel)
        return FairVGNNTraining(self, model, graph, validator)

    def _forward(self, model: nn.Module, graph: FairGraph) -> tuple[Tensor, Tensor]:
        assert isinstance(model, FairVGNNModel)
        h, scores = model(self._view(model, graph))
        return h, scores

    def _view(self, model: FairVGNNModel, graph: FairGraph) -> View:
        return View(_propagated_with_two_loops(graph)) if self.self_loops == "twice" else model.backbone.view(graph)


class FairVGNNTraining:
    """Steps of discriminator, classifier and generator in turns, each with the encoder, and the clamp at the end."""

    def __init__(self, method: FairVGNN, model: FairVGNNModel, graph: FairGraph, validator: Validator) -> None:
        self.method, self.model, self.validator = method, model, validator
        self.view = method._view(model, graph)
        self.validation_view = _rows(self.view, validator.nodes)
        train_nodes = graph.mask("train").nonzero().squeeze(1)
        self.train_view = _rows(self.view, train_nodes)
        num_views = method.num_views if method.use_views else 1
        self.labels = graph.y[train_nodes].repeat_interleave(num_views)

        rate = method.classifier_learning_rate
        self.modules: dict[str, nn.Module] = {"model": model}
        self.optimisers: dict[str, Optimizer] = {
            "encoder": adam(model.backbone, method),
            "classifier": adam(model.head, method, method.learning_rate if rate is None else rate),
        }
        if model.views is not None:
            self.optimisers["generator"] = adam(model.views, method, method.adversary_learning_rate)
        self.targets: list[_Target] = []
        if method.discriminator_steps or method.generator_steps:
            self.targets = _targets(method, graph, self.view, num_views)
            heads = [nn.Linear(method.hidden_dim, target.indicators.size(2)) for target in self.targets]
            self.discriminator = nn.ModuleList(heads).to(graph.x.device)
            self.modules["discriminator"] = self.discriminator
            self.optimisers["discriminator"] = adam(self.discriminator, method, method.adversary_learning_rate)

    def train_epoch(self) -> dict[str, Tensor]:
        """One epoch of all players; the losses are those before their last step."""
        method, model = self.method, self.model
        model.train()
        with torch.no_grad():
            masks = model.sample()  # for discriminator, classifier and clamp; the generator draws its own
        parts = {}
        learning = ("discriminator", "encoder") if method.encoder_in_discriminator_steps else ("discriminator",)
        for _ in range(method.discriminator_steps):
            parts["discriminator"] = self._step(self.discriminator_loss(masks), *learning)
        for _ in range(method.classifier_steps):
            parts["classification"] = self._step(self.classifier_loss(masks), "encoder", "classifier")
        for _ in range(method.generator_steps):
            fresh = model.sample()
            learning = ("encoder",) if fresh is None else ("encoder", "generator")
            parts["generator"] = self._step(self.generator_loss(fresh), *learning)
        self._clamp(masks)
        return parts

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Scores of the validation nodes, measured."""
        model = self.model.eval()
        if model.views is not None:
            model.views.draw()
        return self.validator.measure(model(self.validation_view)[1])

    def discriminator_loss(self, masks: Tensor | None) -> Tensor:
        """L_D: how badly the groups are told apart in the views."""
        each = [
            functional.binary_cross_entropy_with_logits(
                self.model.scores_of_views(target.view, masks, head), target.indicators
            )
            for target, head in zip(self.targets, self._heads(), strict=True)
        ]
        return torch.stack(each).mean()

    def classifier_loss(self, masks: Tensor | None) -> Tensor:
        """L_C: how badly the classes of the training nodes are told apart in the views."""
        scores = self.model.scores_of_views(self.train_view, masks, self.model.head).flatten(0, 1)
        return classification_loss(scores.squeeze(1) if scores.size(1) == 1 else scores, self.labels)

    def generator_loss(self, masks: Tensor | None) -> Tensor:
        """L_G: how sure the discriminator is on any node, and how far the masks are from keeping everything."""
        each = [
            (self.model.scores_of_views(self.view, masks, head).sigmoid() - 0.5).square().mean()
            for head in self._heads()
        ]
        sure = torch.stack(each).mean()
        return sure if masks is None else sure + self.method.mask_weight * (masks - 1.0).square().mean()

    def _heads(self) -> list[nn.Linear]:
        return [head for head in self.discriminator if isinstance(head, nn.Linear)]

    def _step(self, loss: Tensor, *names: str) -> Tensor:
        """One step of these optimisers on a loss; nothing else is given a gradient."""
        optimisers = [self.optimisers[name] for name in names]
        weights = [weight for each in optimisers for group in each.param_groups for weight in group["params"]]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        for each in optimisers:
            each.step()
        return loss.detach()

    @torch.no_grad()
    def _clamp(self, masks: Tensor | None) -> None:
        method, model = self.method, self.model
        if method.weight_clip is not None:
            weight = model.first_weight
            kept = weight.new_ones(weight.size(1)) if masks is None else _repeated(masks.mean(dim=0), weight.size(1))
            weight.clamp_(-method.weight_clip * kept, method.weight_clip * kept)
        if method.classifier_clip is not None:
            for weight in model.head.parameters():
                weight.clamp_(-method.classifier_clip, method.classifier_clip)


@dataclass(frozen=True, eq=False)
class _Target:
    """What the discriminator is to tell of one sensitive attribute.

    Attributes:
        view: Of the nodes whose value it reads.
        indicators: [nodes, views, outputs], 1 for the group of the node; a single output is of the second group.
    """

    view: View
    indicators: Tensor


def _targets(method: FairVGNN, graph: FairGraph, view: View, num_views: int) -> list[_Target]:
    readable = {
        "all": torch.ones_like(graph.mask("train")),
        "not held out": ~(graph.mask("val") | graph.mask("test")),
        "train": graph.mask("train"),
    }[method.discriminator_nodes]
    targets = []
    for index, name in enumerate(graph.sensitive_names):
        values = graph.sensitive[:, index]
        nodes = (readable & (values >= 0)).nonzero().squeeze(1)
        if nodes.numel() == 0:
            raise ProtocolError(
                f"FairVGNN's discriminator finds no node of graph {graph.name!r} whose {name} it may read "
                f"(discriminator_nodes = {method.discriminator_nodes!r}). Choose other nodes, or a method that does "
                "not need the sensitive attribute ('fairsad methods')."
            )
        num_groups = len(graph.sensitive_values[index])
        groups = torch.arange(1 if num_groups == 2 else 0, num_groups, device=values.device)
        indicators = (values[nodes].unsqueeze(1) == groups).to(graph.x.dtype)
        everyone = nodes.numel() == graph.num_nodes
        targets.append(
            _Target(
                view if everyone else _rows(view, nodes),
                indicators.unsqueeze(1).expand(-1, num_views, -1).contiguous(),
            )
        )
    return targets


def _rows(view: View, nodes: Tensor) -> View:
    """The part of a view of all nodes that represents some of them."""
    return View(view.x[nodes]) if view.graph is None else View(view.x, view.graph, nodes)


def _propagated_with_two_loops(graph: FairGraph) -> Tensor:
    r""":math:`D^{-1/2} (A + 2I) D^{-1/2} X`, D the row sums: what adding self-loops to A + I comes to."""
    adjacency = graph.adjacency()
    x = graph.x.to(exact_dtype(graph.x.device))
    scale = (adjacency.row_pointer.diff() + 1).to(x.dtype).rsqrt().unsqueeze(1)
    scaled = scale * x
    once = aggregate(adjacency, scaled.unsqueeze(1)).squeeze(1)
    twice: Tensor = scale * (once + scaled)
    return twice.to(graph.x.dtype)
