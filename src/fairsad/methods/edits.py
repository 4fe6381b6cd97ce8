"""EDITS: features and links rewritten so that what is gathered over them differs less between the groups."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import RMSprop

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.kernels.pairs import LinkChanges
from fairsad.machine import memory_bytes
from fairsad.methods.base import MethodCard, Preparation
from fairsad.methods.classifier import ClassifierMethod, ClassifierTraining
from fairsad.methods.parameters import Search, check_parameters, parameter
from fairsad.nn.backbone import NodeClassifier
from fairsad.training.device import on_device, resolve_device
from fairsad.training.loop import LoopSettings, train
from fairsad.training.progress import Progress
from fairsad.training.selection import Validator, selection_rule

_LINK_MOMENTUM = 0.9
_FEATURE_SHRINKAGE, _LINK_SHRINKAGE = 5e-6, 5e-4
_RMSPROP: dict[str, Any] = {"alpha": 0.99, "eps": 1e-4, "weight_decay": 1e-7}
# After so many epochs the learning rate falls to a third; the shrinkage is that of the first rate throughout.
_EPOCHS_AT_FIRST_RATE, _LATER_RATE = 401, 1 / 3
# What is kept of an Edit beside the weights of the classifier.
_PREFIX = "edit."


@dataclass(frozen=True, eq=False)
class Edit:
    """What was rewritten in a graph.

    Attributes:
        dropped: int64 [dropped], the columns of x that are set to 0.
        added: int64 [2, added], pairs of nodes that are linked, each once.
        removed: int64 [2, removed], pairs of nodes that are no longer linked.
        links_hash: uint8 [32], of the links of the graph that it was found for.
    """

    dropped: Tensor
    added: Tensor
    removed: Tensor
    links_hash: Tensor

    def of_features(self, graph: FairGraph) -> FairGraph:
        """The graph without the dropped columns; its links stay."""
        return graph.replace(**self._columns(graph)) if self.dropped.numel() else graph

    def of_all(self, graph: FairGraph) -> FairGraph:
        """The graph, which has to have the links that this was found for, rewritten."""
        if not (self.dropped.numel() or self.added.numel() or self.removed.numel()):
            return graph
        n, device = graph.num_nodes, graph.edge_index.device
        numbers = graph.edge_index[0] * n + graph.edge_index[1]
        removed = torch.cat([self.removed, self.removed.flip(0)], dim=1).to(device)
        kept = graph.edge_index[:, ~torch.isin(numbers, removed[0] * n + removed[1])]
        return graph.replace(edge_index=torch.cat([kept, self.added.to(device)], dim=1), **self._columns(graph))

    def fits(self, graph: FairGraph) -> bool:
        """Whether the graph has the links that this was found for."""
        return bool(torch.equal(self.links_hash, hash_links(graph)))

    def _columns(self, graph: FairGraph) -> dict[str, Any]:
        x, dropped = graph.x.clone(), set(self.dropped.tolist())
        x[:, self.dropped.to(x.device)] = 0
        held = tuple(tuple(column for column in held if column not in dropped) for held in graph.sensitive_columns)
        return {"x": x, "sensitive_columns": held}


def hash_links(graph: FairGraph) -> Tensor:
    """SHA-256 of the links, uint8 [32]."""
    edges = graph.edge_index.cpu().contiguous().numpy()
    digest = hashlib.sha256(f"{graph.num_nodes} nodes".encode())
    digest.update(edges.data)
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


@dataclass(kw_only=True, eq=False, repr=False)
class EDITS(ClassifierMethod, Preparation):
    r"""Modeling and mitigating data bias for graph neural networks, Dong et al.

    .. math::
        \min_{\sigma} \mu_1 \|\tilde X - X\|_F + \mu_2 W, \qquad
        \min_{\hat A} \|\hat A - A\|_F^2 + \mu_3 W, \qquad
        W = \max_f \operatorname{mean}_{s=0} f(R) - \operatorname{mean}_{s=1} f(R), \qquad
        R = [\tilde X, \hat A \tilde X, \hat A^2 \tilde X]

    with :math:`\tilde X = X \operatorname{diag}(\sigma)`: a weight for each column and one for each pair of nodes are
    learned so that a linear critic f with small weights, whose best score estimates the Wasserstein distance W between
    the groups, cannot tell them apart by what is gathered over 0, 1 and 2 links. Then the columns that were weakened
    most are set to 0, links are added and removed where their weight changed most, and a GCN is trained on the
    rewritten graph. The critic reads s of the training nodes only; labels are read by the GCN alone.

    Features X are columns of length 1 in the first part. There is no n × n gradient: with
    :math:`c_v = \pm 1 / |T_s|` on the training nodes, adv = Σ_v c_v f(R_v) has the gradient

    .. math::
        \frac{\partial\, \text{adv}}{\partial \hat A} = c\,(\tilde X w_1 + \hat A \tilde X w_2)^\top
            + (\hat A^\top c)\,(\tilde X w_2)^\top

    of rank 2, and everything a whole epoch needs of :math:`\hat A` is one product with a few columns. Time and memory
    are still quadratic in the nodes: 6 n² bytes for :math:`\hat A` and its momentum, 5.4 GB for 30,000 nodes.

    The first part is done within ``fit``, and again when a run is resumed, with the same result. On the graph that it
    was trained on (any graph with the same links) the model predicts over the rewritten links; a new graph keeps its
    own links, as a weight for each pair of nodes says nothing about other nodes, and loses the columns.

    Deviation: in 32 bits, not 16, where the shrinkage of weights near 1 would vanish. The critic is clipped from the
    start, not from its first step on. Its bias is left out, as it cancels between the groups. All epochs of the GCN
    are candidates, not those from the 15th on. The operator is A + I without normalisation, as in the authors' code.
    Every part of a run follows its seed, not the number 10. The 1-hop and 2-hop distances that the authors' code logs,
    the smoothness term and the nuclear norm, which it defines and does not use, are not here.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> EDITS(edit_epochs=3, epochs=5, num_dropped=1).fit(graph).predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="edits",
        title="EDITS",
        paper="Dong et al., WWW 2022",
        kind="pre-processing",
        cost="quadratic in nodes: 6 n² bytes",
        groups="two",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="train",
    )
    off: ClassVar[Mapping[str, Any] | None] = {"edit_epochs": 0, "num_dropped": 0}

    evaluate_every: int = parameter(1, "Validate after every so many epochs.", low=1)
    selection: str = parameter("-loss", "Which evaluation is kept: 'last', or a signed sum of metrics.")
    edit_epochs: int = parameter(500, "Epochs in which the weights of columns and links are learned.", low=0)
    edit_learning_rate: float = parameter(
        3e-3, "Learning rate of weights and critic; a third after epoch 400.", low=0.0
    )
    keep_weight: float = parameter(
        0.03, "Weight μ1 of keeping the features.", low=0.0, search=Search(choices=(0.03, 0.05, 0.3))
    )
    feature_weight: float = parameter(
        1.0, "Weight μ2 of the critic's distance for the features.", low=0.0, search=Search(choices=(0.1, 0.8, 1.0))
    )
    link_weight: float = parameter(15.0, "Weight μ3 of the critic's distance for the links.", low=0.0)
    link_threshold: float = parameter(
        0.5,
        "Links change where their weight did by more than this part of the largest change.",
        low=0.0,
        high=1.0,
        search=Search(choices=(0.015, 0.02, 0.1, 0.2, 0.29, 0.5)),
    )
    num_dropped: int = parameter(4, "Columns to set to 0.", low=0)
    critic_steps: int = parameter(8, "Steps of the critic in each epoch.", low=1)
    critic_clip: float = parameter(0.02, "Largest weight of the critic.", low=0.0)
    critic_dropout: float = parameter(0.2, "Share of nodes that a step of the critic leaves out.", low=0.0, high=0.95)
    edited_features: Literal["from zero", "as they are"] = parameter(
        "from zero", "Features while editing: each moved so that its least value is 0, or 'as they are'."
    )

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> ClassifierTraining:
        assert isinstance(model, NodeClassifier)
        self.edit_ = self._find(graph, self._progress)
        self.protocol_["edit"] = {
            "dropped_columns": [graph.feature_names[column] for column in self.edit_.dropped.tolist()],
            "drops_sensitive_column": any(
                column in held for held in graph.sensitive_columns for column in self.edit_.dropped.tolist()
            ),
            "pairs_added": self.edit_.added.size(1),
            "pairs_removed": self.edit_.removed.size(1),
        }
        return ClassifierTraining(self, model, self.edit_.of_all(graph), validator)

    def _forward(self, model: nn.Module, graph: FairGraph) -> tuple[Tensor, Tensor]:
        return super()._forward(
            model, self.edit_.of_all(graph) if self.edit_.fits(graph) else self.edit_.of_features(graph)
        )

    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        """The rewritten graph that ``fit`` would train its GCN on."""
        check_parameters(self)
        self._check_support(graph)
        return self._find(on_device(graph, resolve_device(self.device)), progress).of_all(graph)

    def _find(self, graph: FairGraph, progress: bool | None) -> Edit:
        """Learn the weights, and take the largest changes."""
        if self.num_dropped >= graph.x.size(1):
            raise ProtocolError(
                f"EDITS is to drop num_dropped = {self.num_dropped} columns; graph {graph.name!r} has "
                f"{graph.x.size(1)}. Set a smaller number."
            )
        if self.edit_epochs == 0:
            nothing = graph.edge_index.new_zeros(2, 0).cpu()
            scale, added, removed = torch.ones_like(graph.x[0]), nothing, nothing
        else:
            _require_memory(graph)
            editing = Editing(self, graph)
            settings = LoopSettings(self.edit_epochs, selection_rule("last"), evaluate_every=self.edit_epochs)
            train(editing, settings, Progress(f"{self.card.title}, editing", progress))
            scale = editing.scale.detach()
            added, removed = (each.cpu() for each in editing.changes.largest(self.link_threshold))
            removed = removed[:, removed[0] != removed[1]]  # a graph has no loops to remove; every layer adds them
        dropped = scale.argsort(stable=True)[: self.num_dropped].sort().values
        return Edit(dropped.cpu(), added, removed, hash_links(graph))

    def _weights(self) -> dict[str, Tensor]:
        return super()._weights() | {f"{_PREFIX}{name}": tensor for name, tensor in vars(self.edit_).items()}

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        super()._restore({name: tensor for name, tensor in weights.items() if not name.startswith(_PREFIX)})
        self.edit_ = Edit(**{name: weights[f"{_PREFIX}{name}"] for name in Edit.__dataclass_fields__})


class Editing:
    r"""The first part: in each epoch the features' weights step, then the links' weights, then the critic does.

    The critic's weights are w_0, w_1, w_2, for what is gathered over 0, 1 and 2 links. All that the steps read of
    :math:`\hat A` is :math:`Y = \hat A X`, and :math:`q = \hat A c` of the node weights c that dropout leaves to each:
    they are drawn and gathered at once, as soon as the links have stepped.

    Args:
        method: The settings.
        graph: Its features and links, and s of the training nodes; no label.
    """

    def __init__(self, method: EDITS, graph: FairGraph) -> None:
        self.method = method
        self.chance = torch.Generator().manual_seed(method.seed)
        x = graph.x - graph.x.amin(dim=0) if method.edited_features == "from zero" else graph.x
        self.x = functional.normalize(x, dim=0)
        self.square_norms = self.x.square().sum(0)
        self.members, self.weights = _group_weights(graph)
        self.changes = LinkChanges(graph.adjacency())

        num_features, device = x.size(1), x.device
        self.scale = nn.Parameter(torch.ones(num_features, device=device), requires_grad=False)
        # as PyTorch's Linear(3 d, 1), whose bound is 1/sqrt(3 d), clipped
        drawn = torch.rand(3, num_features, generator=self.chance) * 2 - 1
        first = (drawn / (3 * num_features) ** 0.5).clamp_(-method.critic_clip, method.critic_clip)
        self.critic = nn.Parameter(first.to(device), requires_grad=False)
        self.modules: Mapping[str, nn.Module] = {"weights": nn.ParameterList([self.scale, self.critic])}
        self.optimisers: Mapping[str, RMSprop] = {
            name: RMSprop([weights], lr=method.edit_learning_rate, **_RMSPROP)
            for name, weights in (("features", self.scale), ("critic", self.critic))
        }
        self.epoch = 0
        self.seen = self._look(2)

    @torch.no_grad()
    def train_epoch(self) -> dict[str, Tensor]:
        """Steps of the features' weights, of the links' weights and of the critic."""
        method = self.method
        rate = method.edit_learning_rate * (1 if self.epoch < _EPOCHS_AT_FIRST_RATE else _LATER_RATE)
        for optimiser in self.optimisers.values():
            optimiser.param_groups[0]["lr"] = rate
        kept = self._step_features(0)
        self._step_links(1, rate)
        self.scale.clamp_(0, 1)
        self.seen = self._look(2 + method.critic_steps)
        for step in range(2, 2 + method.critic_steps):
            distance = self._step_critic(step)
        self.epoch += 1
        return {"features": kept, "distance": distance}

    def validate(self) -> dict[str, float]:
        """Nothing: there is no classifier yet."""
        return {}

    def feature_gradient(self, step: int) -> Tensor:
        r"""Of :math:`\mu_1 \|\tilde X - X\|_F + \mu_2\,\text{adv}` by the columns' weights; the norm's is 0 at 0."""
        moved, norm = self.scale - 1, self._distance_moved()
        adversarial = (self.critic * self.seen.columns[:, :, step]).sum(0)
        keeping = moved * self.square_norms / norm if norm > 0 else torch.zeros_like(moved)
        return self.method.keep_weight * keeping + self.method.feature_weight * adversarial

    def link_gradient(self, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        r"""Vectors c, a, q, b of :math:`\mu_3\,\partial\,\text{adv} / \partial \hat A = c a^\top + q b^\top`."""
        seen, weight = self.seen, self.method.link_weight
        _, once, twice = self.scale * self.critic
        return seen.c[:, step], weight * (self.x @ once + seen.y @ twice), seen.q[:, step], weight * (self.x @ twice)

    def critic_gradient(self, step: int) -> Tensor:
        """Of −adv by the critic's weights [3, d]."""
        return -self.scale * self.seen.columns[:, :, step]

    def _step_features(self, step: int) -> Tensor:
        self.scale.grad = self.feature_gradient(step)
        self.optimisers["features"].step()
        self.scale.copy_(functional.softshrink(self.scale, _FEATURE_SHRINKAGE * self.method.edit_learning_rate))
        return self._distance_moved()

    def _distance_moved(self) -> Tensor:
        r""":math:`\|\tilde X - X\|_F`."""
        return ((self.scale - 1).square() * self.square_norms).sum().sqrt()

    def _step_links(self, step: int, rate: float) -> None:
        self.changes.step(
            *self.link_gradient(step),
            learning_rate=rate,
            momentum=_LINK_MOMENTUM,
            shrink=_LINK_SHRINKAGE * self.method.edit_learning_rate,
        )

    def _step_critic(self, step: int) -> Tensor:
        """One step, and the distance before it."""
        gradient = self.critic_gradient(step)
        distance = -(self.critic * gradient).sum()
        self.critic.grad = gradient
        self.optimisers["critic"].step()
        self.critic.clamp_(-self.method.critic_clip, self.method.critic_clip)
        return distance

    def _look(self, steps: int) -> Seen:
        """What that many steps read of the links as they are."""
        c = torch.zeros(len(self.x), steps)
        rate = self.method.critic_dropout
        left = torch.rand(len(self.members), steps, generator=self.chance) >= rate
        c[self.members] = self.weights.unsqueeze(1) * left / (1 - rate)
        c = c.to(self.x.device)
        y, q = self.changes.gather(torch.cat([self.x, c], dim=1)).tensor_split([self.x.size(1)], dim=1)
        return Seen(c, q, y, torch.stack([self.x.T @ c, self.x.T @ q, y.T @ q]))


@dataclass(frozen=True, eq=False)
class Seen:
    r"""What the steps of an epoch read.

    Attributes:
        c: Weights of the nodes in adv, a column for each step, [n, steps].
        q: :math:`\hat A c`.
        y: :math:`\hat A X` [n, d].
        columns: :math:`X^\top c`, :math:`X^\top q` and :math:`Y^\top q`, [3, d, steps]: the gradient of adv by the
            critic's weights and by the columns' weights, but for the other one of the two.
    """

    c: Tensor
    q: Tensor
    y: Tensor
    columns: Tensor


def _group_weights(graph: FairGraph) -> tuple[Tensor, Tensor]:
    """The training nodes of known group, and their weights in mean_{s=0} − mean_{s=1}."""
    sensitive = graph.sensitive[:, 0].cpu()
    members = (graph.mask("train").cpu() & (sensitive >= 0)).nonzero().squeeze(1)
    of_second = sensitive[members] == 1
    sizes = {name: int(of.sum()) for name, of in zip(graph.sensitive_values[0], (~of_second, of_second), strict=True)}
    missing = [name for name, size in sizes.items() if size == 0]
    if missing:
        raise ProtocolError(
            f"EDITS compares the two groups of {graph.sensitive_names[0]} among the training nodes; graph "
            f"{graph.name!r} has none there of {', '.join(missing)}. Make another split, or use another method."
        )
    first, second = sizes.values()
    return members, torch.where(of_second, -1 / second, 1 / first)


def _require_memory(graph: FairGraph) -> None:
    """Refuse what cannot end well, before the system ends it."""
    needed, there = LinkChanges.num_bytes(graph.num_nodes), memory_bytes()
    if graph.edge_index.device.type == "cpu" and there is not None and needed > there:
        raise DataError(
            f"EDITS has a weight for each two nodes: {needed / 1e9:.1f} GB for the {graph.num_nodes:,} nodes of graph "
            f"{graph.name!r}, and this machine has {there / 1e9:.1f} GB. Use a smaller graph, or another method."
        )
