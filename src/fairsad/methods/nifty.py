"""NIFTY: representations that stay the same when links, features and the sensitive attribute are disturbed."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim import Optimizer

from fairsad.errors import ProtocolError
from fairsad.graph import FairGraph
from fairsad.kernels import exact_dtype
from fairsad.losses.classification import classification_loss
from fairsad.methods.base import GraphFacts, MethodCard
from fairsad.methods.classifier import ClassifierMethod
from fairsad.methods.neural import adam
from fairsad.methods.parameters import Search, parameter
from fairsad.nn.backbone import Backbone, NodeClassifier, linear
from fairsad.training.selection import Validator

# Keeps the stream that the frozen validation views are drawn from apart from the one that training draws from.
_FROZEN_VIEWS = 1 << 40


# How tables are encoded where the sensitive value is not known; flipped, it stays what it is.
_UNKNOWN = 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class NIFTY(ClassifierMethod):
    r"""Unified fair and stable representations, by two disturbed views of the graph that have to look alike.

    Each epoch draws two views: both lose a few links and have a few columns shifted, and in the second the sensitive
    column of every node is flipped. With the encoder f, a projector t, a predictor q, :math:`z_i = f(view_i)`,
    :math:`p_i = t(z_i)`, :math:`h_i = q(p_i)` and sg a stopped gradient, one step is taken on

    .. math::
        \lambda L_s = -\tfrac{\lambda}{2} \operatorname{mean}_{v \in T}
            \bigl[\cos(h_1, \operatorname{sg}(p_2)) + \cos(h_2, \operatorname{sg}(p_1))\bigr]

    and then, with the new encoder on the same views, one on

    .. math::
        (1 - \lambda) L_c = \tfrac{1 - \lambda}{2}
            \bigl[\operatorname{BCE}(c(z_1), y) + \operatorname{BCE}(c(z_2), y)\bigr]_T

    All weights of f, t, q and the classifier c are divided by their largest singular value, so that a small change of
    the input cannot become a large one of the output. Predictions are made on the graph as it is, with f and c alone.
    The criterion ``"views"`` is both losses on the validation nodes, in two views that are drawn once.

    Needs the sensitive attribute as one column of zeros and ones among the features, in training and to predict, and
    reads it nowhere else. A one-layer GCN never makes a view's features: see ``PropagatedView``.

    Deviation: spectral normalisation starts with 15 power iterations instead of one. Self-loops are always there; the
    authors' code drops some of them too, and its convolution puts them back. The authors' code runs one epoch more than
    it is asked for. What else it does differently is a setting below.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> NIFTY(epochs=5).fit(graph).predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="nifty",
        title="NIFTY",
        paper="Agarwal et al., UAI 2021",
        kind="in-processing",
        cost="linear in links, once; then linear in nodes and dropped links",
        groups="two",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="none",
    )
    off: ClassVar[Mapping[str, Any] | None] = {
        "sim_coeff": 0.0,
        "edge_drop_rate": 0.0,
        "feature_noise_rate": 0.0,
        "flip": False,
        "spectral_norm": False,
    }
    own_metrics: ClassVar[tuple[str, ...]] = ("views",)

    evaluate_every: int = parameter(1, "Validate after every so many epochs.", low=1)
    selection: str = parameter(
        "-views", "Which evaluation is kept: 'last', or a signed sum of metrics; 'views' is NIFTY's own criterion."
    )
    sim_coeff: float = parameter(
        0.6, "Weight λ of the views' likeness; labels have 1 − λ.", low=0.0, high=1.0, search=Search(0.2, 0.8)
    )
    edge_drop_rate: float = parameter(
        0.001, "Share of links that each view loses.", low=0.0, high=0.95, search=Search(choices=(0.001, 0.01, 0.1))
    )
    edge_drop: Literal["undirected", "directed"] = parameter(
        "undirected",
        "What is dropped: whole links, or each direction on its own ('directed', code; one-layer GCN only).",
    )
    feature_noise_rate: float = parameter(
        0.1,
        "Share of columns that each view shifts, all by the same random number.",
        low=0.0,
        high=1.0,
        search=Search(choices=(0.0, 0.1, 0.3)),
    )
    flip: bool = parameter(True, "Flip the sensitive column in the second view.")
    spectral_norm: bool = parameter(True, "Divide every weight by its largest singular value.")
    projection_dim: int = parameter(16, "Width of projector and predictor.", low=1)
    carry_grad: bool = parameter(
        True, "The step on the labels also takes the encoder's gradient of the step before it (code)."
    )
    criterion: Literal["full", "training"] = parameter(
        "full", "Labels in the criterion 'views': with weight 1 ('full', code), or 1 − λ as in 'training'."
    )

    def _check_support(self, graph: FairGraph) -> None:
        super()._check_support(graph)
        if self.edge_drop == "directed" and self.edge_drop_rate > 0 and not self._is_linear:
            raise ProtocolError(
                f"NIFTY drops single directions of links in a one-layer GCN only; it has backbone = {self.backbone!r}, "
                f"num_layers = {self.num_layers}. Set edge_drop = 'undirected'."
            )
        if not self.flip:
            return
        (name,), (columns,) = graph.sensitive_names, graph.sensitive_columns
        found = None
        if len(columns) != 1:
            found = f"{len(columns)} columns of x hold {name!r}"
        else:
            values = graph.x[:, columns[0]]
            other = values[~torch.isin(values, values.new_tensor([0.0, _UNKNOWN, 1.0]))]
            if other.numel():
                found = f"column {graph.feature_names[columns[0]]!r} of x holds {float(other[0]):g}"
        if found is not None:
            raise ProtocolError(
                f"NIFTY flips the sensitive attribute, so expects it as one column of x with 0 and 1 ({_UNKNOWN} where "
                f"unknown); in graph {graph.name!r} {found}. Put it among the features so, or take another method."
            )

    @property
    def _is_linear(self) -> bool:
        return self.backbone == "gcn" and self.num_layers == 1

    def _build(self, facts: GraphFacts) -> NodeClassifier:
        model = super()._build(facts)
        if self.spectral_norm:
            _normalise(model)
        return model

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> NIFTYTraining:
        assert isinstance(model, NodeClassifier)
        return NIFTYTraining(self, model, graph, validator)


class NIFTYTraining:
    """Two steps an epoch on one pair of views: one that makes them alike, one on the labels."""

    def __init__(self, method: NIFTY, model: NodeClassifier, graph: FairGraph, validator: Validator) -> None:
        self.method, self.model, self.validator = method, model, validator
        width, inner = method.hidden_dim, method.projection_dim
        self.projector = nn.Sequential(
            linear(width, inner), nn.BatchNorm1d(inner), nn.ReLU(), linear(inner, inner), nn.BatchNorm1d(inner)
        )
        self.predictor = nn.Sequential(linear(inner, inner), nn.BatchNorm1d(inner), nn.ReLU(), linear(inner, inner))
        projection = nn.ModuleList([self.projector, self.predictor]).to(graph.x.device)
        if method.spectral_norm:
            _normalise(projection)
        self.modules: Mapping[str, nn.Module] = {"model": model, "projection": projection}
        self.optimisers: Mapping[str, Optimizer] = {
            "views": adam(nn.ModuleList([model.backbone, projection]), method),
            "labels": adam(model, method),
        }
        self.views = Views(method, graph)
        self.train_nodes = graph.mask("train").nonzero().squeeze(1)
        self.labels = graph.y[self.train_nodes]
        self.validation_view = model.backbone.view(graph, validator.nodes)
        self.validation_labels = graph.y[validator.nodes]
        frozen = self.views.pair(torch.Generator().manual_seed(_FROZEN_VIEWS + method.seed))
        self.frozen_views = [view.at(validator.nodes) for view in frozen]

    def train_epoch(self) -> dict[str, Tensor]:
        """Draw two views, then take both steps."""
        weight = self.method.sim_coeff
        for module in self.modules.values():
            module.train()
        for optimiser in self.optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        views = self.views.pair()
        parts = {}
        if weight > 0:
            parts["similarity"] = self._similarity([view(self.model.backbone) for view in views], self.train_nodes)
            (weight * parts["similarity"]).backward()  # type: ignore[no-untyped-call]
            self.optimisers["views"].step()
            if not self.method.carry_grad:
                self.optimisers["labels"].zero_grad(set_to_none=True)
        on_train = [view.at(self.train_nodes)(self.model.backbone) for view in views]
        parts["classification"] = self._classification(on_train, self.labels)
        ((1 - weight) * parts["classification"]).backward()  # type: ignore[no-untyped-call]
        self.optimisers["labels"].step()
        loss = (1 - weight) * parts["classification"]
        return {"loss": loss + weight * parts["similarity"] if weight > 0 else loss, **parts}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Scores of the validation nodes, measured, and the criterion in the frozen views."""
        weight = self.method.sim_coeff
        for module in self.modules.values():
            module.eval()
        hidden = [view(self.model.backbone) for view in self.frozen_views]
        criterion = self._classification(hidden, self.validation_labels)
        if self.method.criterion == "training":
            criterion = (1 - weight) * criterion
        if weight > 0:
            criterion = criterion + weight * self._similarity(hidden, slice(None))
        return self.validator.measure(self.model(self.validation_view)[1]) | {"views": float(criterion)}

    def _similarity(self, hidden: list[Tensor], nodes: Tensor | slice) -> Tensor:
        """L_s at some nodes; while training, batch statistics are those of all that are given."""
        projected = [self.projector(each) for each in hidden]
        # the last layer works node by node, so only the nodes that count go through it
        predicted = [self.predictor[-1](self.predictor[:-1](each)[nodes]) for each in projected]
        first, second = (each[nodes].detach() for each in projected)
        return -(_mean_cosine(predicted[0], second) + _mean_cosine(predicted[1], first)) / 2

    def _classification(self, hidden: list[Tensor], labels: Tensor) -> Tensor:
        """L_c, the mean over both views."""
        dropped = (functional.dropout(each, self.model.dropout, self.model.training) for each in hidden)
        first, second = (classification_loss(self.model.classify(each), labels) for each in dropped)
        return first / 2 + second / 2


def _mean_cosine(first: Tensor, second: Tensor) -> Tensor:
    return functional.cosine_similarity(first, second, dim=1).mean()


def _normalise(module: nn.Module) -> None:
    """Divide every weight matrix inside by its largest singular value, one power iteration each time it is used."""
    for part in list(module.modules()):
        weight = getattr(part, "weight", None)
        if isinstance(weight, nn.Parameter) and weight.dim() == 2:
            spectral_norm(part)
            part.register_state_dict_post_hook(_forget_effective_weight)  # type: ignore[no-untyped-call]


def _forget_effective_weight(part: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Layers of PyG save what they read as their weight besides what it is made of."""
    state.pop(f"{prefix}weight", None)


# --- views of a graph ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Disturbance:
    """What a view does to the graph.

    Attributes:
        dropped: Positions in ``edge_index`` of the links that are missing.
        shift: What is added to each column of x, [d].
        flipped: Column of x that is flipped, if any.
    """

    dropped: Tensor
    shift: Tensor
    flipped: int | None

    def features(self, x: Tensor) -> Tensor:
        """The disturbed features, in full."""
        disturbed = x + self.shift
        if self.flipped is not None:
            disturbed[:, self.flipped] = 1 - x[:, self.flipped]
        return disturbed


class GraphView(Protocol):
    """A disturbed graph."""

    def __call__(self, backbone: Backbone) -> Tensor:
        """Representation [n, hidden_dim] of its nodes."""

    def at(self, nodes: Tensor) -> GraphView:
        """The same, of some nodes only."""


class Views:
    """Draws disturbed views of a graph.

    Args:
        method: The rates.
        graph: What is disturbed.
    """

    def __init__(self, method: NIFTY, graph: FairGraph) -> None:
        self.method, self.graph = method, graph
        columns = graph.sensitive_columns[0] if len(graph.sensitive_columns) == 1 else ()
        self.sensitive_columns = [*columns]
        self.reverse = _reverse_positions(graph) if method.edge_drop == "undirected" else None
        self.constants = PropagatedFeatures(graph, self._flipped(True)) if method._is_linear else None

    def pair(self, generator: torch.Generator | None = None) -> tuple[GraphView, GraphView]:
        """A view that keeps the sensitive column, and one that flips it."""
        first, second = (self.disturbance(flip, generator) for flip in (False, True))
        return self.view(first), self.view(second)

    def view(self, disturbance: Disturbance) -> GraphView:
        """The graph with this disturbance."""
        if self.constants is not None:
            return PropagatedView.of(self.constants, disturbance)
        return WholeView.of(self.graph, disturbance)

    def disturbance(self, flip: bool, generator: torch.Generator | None = None) -> Disturbance:
        """Draw what a view does; on the CPU, so that every device sees the same views."""
        method, device = self.method, self.graph.x.device
        shifted = torch.rand(self.graph.x.size(1), generator=generator) < method.feature_noise_rate
        shifted[self.sensitive_columns] = False
        shift = shifted * torch.randn((), generator=generator)
        if self.reverse is None:
            dropped = bernoulli_positions(self.graph.edge_index.size(1), method.edge_drop_rate, generator).to(device)
        else:
            forward, backward = self.reverse
            drawn = bernoulli_positions(forward.numel(), method.edge_drop_rate, generator).to(device)
            dropped = torch.cat([forward[drawn], backward[drawn]])
        return Disturbance(dropped, shift.to(device), self._flipped(flip))

    def _flipped(self, flip: bool) -> int | None:
        return self.sensitive_columns[0] if flip and self.method.flip else None


def bernoulli_positions(number: int, rate: float, generator: torch.Generator | None = None) -> Tensor:
    """Which of 0 to number − 1 come up when each does with this probability, drawn by the gaps between them."""
    if rate == 0 or number == 0:
        return torch.zeros(0, dtype=torch.int64)
    expected = number * rate
    enough = int(expected + 6 * math.sqrt(expected)) + 8
    drawn = torch.zeros(1, dtype=torch.int64)
    while drawn[-1] < number:
        gaps = torch.empty(enough, dtype=torch.int64).geometric_(rate, generator=generator)
        drawn = torch.cat([drawn, drawn[-1] + gaps.cumsum(0)])
    return drawn[(drawn > 0) & (drawn <= number)] - 1


def _reverse_positions(graph: FairGraph) -> tuple[Tensor, Tensor]:
    """Position in ``edge_index`` of every link in one direction, and of the same links in the other."""
    source, target = graph.edge_index
    forward = (source < target).nonzero().squeeze(1)
    keys = source * graph.num_nodes + target
    return forward, torch.searchsorted(keys, target[forward] * graph.num_nodes + source[forward])


@dataclass(frozen=True, eq=False)
class WholeView:
    """A disturbed graph as a graph of its own, for any backbone.

    Attributes:
        graph: With other features and fewer links.
        nodes: Which are represented; all, if ``None``.
    """

    graph: FairGraph
    nodes: Tensor | None = None

    @classmethod
    def of(cls, graph: FairGraph, disturbance: Disturbance) -> Self:
        """Make the disturbed graph."""
        disturbed = copy.copy(graph)
        disturbed.x = disturbance.features(graph.x)
        if disturbance.dropped.numel():
            kept = torch.ones(graph.edge_index.size(1), dtype=torch.bool, device=graph.x.device)
            kept[disturbance.dropped] = False
            disturbed.edge_index = graph.edge_index[:, kept]
        return cls(disturbed)

    def __call__(self, backbone: Backbone) -> Tensor:
        """Representation of the nodes."""
        return cast("Tensor", backbone(backbone.view(self.graph, self.nodes)))

    def at(self, nodes: Tensor) -> WholeView:
        """Represent some nodes only."""
        return WholeView(self.graph, nodes)


class PropagatedFeatures:
    """What all views of a graph share in a one-layer GCN: X with two more columns, before and after propagation.

    A column of ones carries the shift, a column 1 − 2s the flip: s + (1 − 2s) = 1 − s.

    Args:
        graph: What is disturbed.
        flipped: Column s of x that views may flip, if any.
    """

    def __init__(self, graph: FairGraph, flipped: int | None) -> None:
        self.edge_index, self.adjacency = graph.edge_index, graph.adjacency()
        self.degree = self.adjacency.row_pointer.diff()
        self.scale = self.degree.to(exact_dtype(graph.x.device)).rsqrt()
        more = [torch.ones_like(graph.x[:, :1])]
        if flipped is not None:
            more.append(1 - 2 * graph.x[:, [flipped]])
        self.has_flip = flipped is not None
        self.raw = torch.cat([graph.x, *more], dim=1)
        self.propagated = torch.cat([graph.propagated(), *map(self.adjacency.propagate, more)], dim=1)


@dataclass(frozen=True, eq=False)
class PropagatedView:
    r"""A disturbed graph for a one-layer GCN, as a small correction of the undisturbed one; exact.

    With the features :math:`X^+ = [X, 1, 1 - 2s]` the shift ε·m and the flip are a matter of the weights,
    :math:`W^+ = [W, \epsilon W m, W_s]`, and the representation is linear in them,

    .. math::
        \tilde A' X^+ W^+ = \operatorname{diag}(\rho) \, (\tilde A X^+) W^+ + C \, X^+_t W^+,

    where the prime is without the dropped links, :math:`\rho` the change of :math:`D^{-1/2}`, and C a sparse matrix for
    the few nodes t that lost a link or had one to a node that did. Neither disturbed features nor links are ever made.

    Attributes:
        constants: Of the graph.
        disturbance: What the view does.
        propagated: Rows of :math:`\tilde A X^+`.
        thinning: :math:`\rho`, C and t; ``None`` where no link is dropped.
    """

    constants: PropagatedFeatures
    disturbance: Disturbance
    propagated: Tensor
    thinning: Thinning | None

    @classmethod
    def of(cls, constants: PropagatedFeatures, disturbance: Disturbance) -> Self:
        """The view of all nodes."""
        thinning = None
        if disturbance.dropped.numel():
            thinning = Thinning.of(constants, constants.edge_index[:, disturbance.dropped])
        return cls(constants, disturbance, constants.propagated, thinning)

    def __call__(self, backbone: Backbone) -> Tensor:
        """Representation of the nodes."""
        layer = cast("nn.Linear", backbone.layers[0])
        weight = layer.weight  # read once: under spectral normalisation every reading is another power iteration
        more = [(weight @ self.disturbance.shift).unsqueeze(1)]
        if self.constants.has_flip:
            column = self.disturbance.flipped
            more.append(torch.zeros_like(more[0]) if column is None else weight[:, [column]])
        weight = torch.cat([weight, *more], dim=1)
        result = functional.linear(self.propagated, weight)
        if self.thinning is not None:
            result = self.thinning.apply(result, functional.linear(self.constants.raw[self.thinning.touched], weight))
        return result + layer.bias

    def at(self, nodes: Tensor) -> PropagatedView:
        """Represent some nodes only."""
        thinning = None if self.thinning is None else self.thinning.at(nodes)
        return PropagatedView(self.constants, self.disturbance, self.propagated[nodes], thinning)


@dataclass(frozen=True, eq=False)
class Thinning:
    r"""What dropped links change in GCN propagation: :math:`\tilde A' = \operatorname{diag}(\rho) \tilde A + C`.

    Attributes:
        ratio: :math:`\rho = (D' / D)^{-1/2}`, [n].
        touched: The nodes that C reads, [t].
        correction: C without its empty columns, sparse [n, t].
    """

    ratio: Tensor
    touched: Tensor
    correction: Tensor

    @classmethod
    def of(cls, constants: PropagatedFeatures, dropped: Tensor) -> Self:
        """Find the correction.

        Args:
            constants: Of the graph with all links.
            dropped: [2, m], the dropped ones: the node that no longer receives, the node it received from.
        """
        receiver, sender = dropped
        adjacency, degree, scale = constants.adjacency, constants.degree, constants.scale
        thinned_scale = (degree - torch.bincount(receiver, minlength=degree.numel())).to(scale.dtype).rsqrt()
        # A node with another degree weighs differently in everyone's sum; what is dropped is taken out of one sum.
        changed = receiver.unique()
        entries, _ = adjacency.entries(changed)
        neighbour = adjacency.column[entries].long()
        place = torch.arange(changed.numel() + sender.numel(), device=degree.device)
        sums_of_changed = torch.repeat_interleave(place[: changed.numel()], degree[changed])
        difference = (thinned_scale - scale)[changed]
        reweighed = thinned_scale[neighbour] * difference[sums_of_changed]
        removed = -thinned_scale[receiver] * thinned_scale[sender]
        return cls(
            (thinned_scale / scale).float(),
            torch.cat([changed, sender]),
            _sparse(
                torch.cat([neighbour, receiver]),
                torch.cat([sums_of_changed, place[changed.numel() :]]),
                torch.cat([reweighed, removed]).float(),
                (degree.numel(), place.numel()),
            ),
        )

    def apply(self, propagated: Tensor, touched: Tensor) -> Tensor:
        """Propagation without the dropped links, from that with all links and from the touched nodes themselves."""
        corrected: Tensor = torch.sparse.mm(self.correction, touched)
        return self.ratio.unsqueeze(1) * propagated + corrected

    def at(self, nodes: Tensor) -> Thinning:
        """Some rows only."""
        place = torch.full_like(self.ratio, -1, dtype=torch.int64)
        place[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        row, column = self.correction._indices()
        row = place[row]
        kept = row >= 0
        correction = _sparse(
            row[kept], column[kept], self.correction._values()[kept], (nodes.numel(), self.touched.numel())
        )
        return Thinning(self.ratio[nodes], self.touched, correction)


def _sparse(row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_coo_tensor(torch.stack([row, column]), values, shape, check_invariants=False)
