"""FairSAD: the sensitive attribute is given a component of its own instead of being erased."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from fairsad.errors import DataError
from fairsad.graph import FairGraph
from fairsad.losses.channels import channel_loss
from fairsad.losses.classification import classification_loss
from fairsad.losses.covariance import centred_indicators, covariance_loss
from fairsad.losses.distance_correlation import distance_correlation_loss
from fairsad.methods.base import GraphFacts, MethodCard
from fairsad.methods.neural import NeuralMethod, adam
from fairsad.methods.parameters import Search, parameter
from fairsad.nn.discriminator import ChannelDiscriminator
from fairsad.nn.encoder import DisentangledEncoder
from fairsad.nn.mask import ColumnMask
from fairsad.training.selection import Validator

# What each ablation of the paper leaves out, in settings.
ABLATIONS: dict[str, dict[str, Any]] = {
    "w/o D": {"num_channels": 1, "use_assigner": False, "use_independence": False},
    "w/o M": {"use_mask": False},
    "w/o Micro": {"use_assigner": False},
    "w/o Macro": {"use_independence": False},
}

# Where the authors' code does something else than the paper's text says.
REFERENCE_CODE: dict[str, Any] = {
    "assigner_activation": "none",
    "assigner_hidden_dim": None,
    "layer_input": "concatenated",
    "channel_loss_nodes": "all",
    "distance_ratio": "per_column",
    "discriminator_gradient": "shared",
}


class FairSADModel(nn.Module):
    """Backbone with assigner, column mask and classifier: what is left after training.

    Args:
        encoder: Features to channels.
        mask: Scales the columns; none in the ablation "w/o M".
        num_scores: Outputs of the linear classifier f_c.
    """

    def __init__(self, encoder: DisentangledEncoder, mask: ColumnMask | None, num_scores: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.mask = mask
        self.classifier = nn.Linear(encoder.num_channels * encoder.channel_dim, num_scores)
        nn.init.xavier_uniform_(self.classifier.weight)
        nn.init.zeros_(self.classifier.bias)

    def masked(self, channels: Tensor) -> Tensor:
        """The representation [n, d_h] for the task, Eq. (5)."""
        columns = channels.flatten(1)
        return columns if self.mask is None else self.mask(columns)

    def classify(self, columns: Tensor) -> Tensor:
        """Scores [n], or [n, classes] for more than two."""
        scores: Tensor = self.classifier(columns)
        return scores.squeeze(1) if scores.size(1) == 1 else scores


@dataclass(kw_only=True, eq=False, repr=False)
class FairSAD(NeuralMethod):
    r"""Fair representation learning by sensitive attribute disentanglement, Eqs. (2)-(9) and Alg. 1.

    .. math::
        \mathcal{L} = \mathcal{L}_c + \alpha (\mathcal{L}_{dc} + \mathcal{L}_d) + \beta \mathcal{L}_m

    ``FairSAD()`` reads the paper's text, ``FairSAD.reference_code()`` the authors' code; every difference is one of
    the settings below, and ``docs/fairsad.md`` has them in a table. Both are deterministic at evaluation.

    Works for several sensitive attributes with any number of groups, unknown sensitive values and any number of
    classes; the sensitive attribute is not needed to predict.

    Example:
        >>> from fairsad import FairSAD, load_graph
        >>> graph = load_graph("synthetic:nodes=200,seed=1")
        >>> model = FairSAD(epochs=5).fit(graph)
        >>> model.predict(graph).shape
        (200,)
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="fairsad",
        title="FairSAD",
        paper="Zhu et al., WWW 2024",
        kind="in-processing",
        cost="linear in links, n log n in training nodes",
        groups="any",
        classes="any",
        unknown_sensitive=True,
    )

    alpha: float = parameter(
        0.1, "Weight α of the disentanglement losses, Eq. (9).", low=0.0, search=Search(1e-3, 10.0, log=True)
    )
    beta: float = parameter(
        0.1, "Weight β of the decorrelation loss, Eq. (9).", low=0.0, search=Search(1e-3, 10.0, log=True)
    )
    num_channels: int = parameter(4, "Channels K, a divisor of hidden_dim.", low=1, search=Search(choices=(2, 4, 8)))
    hidden_dim: int = parameter(16, "Width d_h of the representation.", low=1)
    num_layers: int = parameter(1, "Disentangled layers l.", low=1)
    dropout: float = parameter(0.5, "Dropout on the channels while training; the paper is silent.", low=0.0, high=0.95)
    assigner_activation: Literal["relu", "none"] = parameter(
        "relu", "Between the assigner's two layers: 'relu' (paper: an MLP), 'none' (code)."
    )
    assigner_hidden_dim: int | None = parameter(
        None, "Hidden width of the assigner; none takes K, as the code does (paper: silent).", low=1
    )
    layer_input: Literal["channel", "concatenated"] = parameter(
        "channel",
        "What layers after the first take in: 'channel' (paper), 'concatenated', which mixes channels (code).",
    )
    channel_init: Literal["normal", "xavier"] = parameter(
        "normal", "Start of the channels' own weights: 'normal' N(0, 1) (code), 'xavier'."
    )
    mask_temperature: float = parameter(1.0, "Temperature τ of the Gumbel-softmax.", low=1e-3)
    mask_draw: Literal["soft", "hard"] = parameter(
        "soft", "Mask while training: 'soft' (code), 'hard' zeros and ones with the soft gradient."
    )
    evaluation_mask: Literal["mean", "sample"] = parameter(
        "mean", "Mask at evaluation: 'mean', or 'sample', one draw per evaluation, kept with the epoch (code)."
    )
    channel_loss_nodes: Literal["train", "all"] = parameter(
        "train", "Nodes of the channel loss L_d: 'train' (paper, Eq. 8), 'all' (code)."
    )
    distance_nodes: Literal["train", "all"] = parameter(
        "train", "Nodes of the distance correlation L_dc: 'train' (code), 'all' (appendix)."
    )
    distance_ratio: Literal["pooled", "per_column"] = parameter(
        "pooled",
        "L_dc: 'pooled', one ratio per pair of channels (paper, Eq. 7), 'per_column', a ratio per column (code).",
    )
    discriminator_gradient: Literal["separate", "shared"] = parameter(
        "separate", "The discriminator f_d descends L_d ('separate', paper) or α·L_d ('shared', code)."
    )
    use_assigner: bool = parameter(True, "Without it every link has an equal share in each channel (w/o Micro).")
    use_independence: bool = parameter(True, "Without it there is neither L_dc nor L_d (w/o Macro).")
    use_mask: bool = parameter(True, "Without it there is neither mask nor L_m (w/o M).")

    @classmethod
    def reference_code(cls, **settings: Any) -> Self:
        """The authors' code, but for its random mask at evaluation: that is ``evaluation_mask="sample"``."""
        return cls(**(REFERENCE_CODE | settings))

    @classmethod
    def ablation(cls, name: str, **settings: Any) -> Self:
        """FairSAD without one of its parts: ``"w/o D"``, ``"w/o M"``, ``"w/o Micro"``, ``"w/o Macro"``."""
        if name not in ABLATIONS:
            raise DataError(f"unknown ablation {name!r}; expected one of {', '.join(ABLATIONS)}.")
        return cls(**(settings | ABLATIONS[name]))

    def _build(self, facts: GraphFacts) -> FairSADModel:
        if self.hidden_dim % self.num_channels:
            raise DataError(
                f"FairSAD: hidden_dim = {self.hidden_dim} cannot be shared among num_channels = {self.num_channels}; "
                "expected a multiple. Change one of the two."
            )
        encoder = DisentangledEncoder(
            len(facts.feature_names),
            hidden_dim=self.hidden_dim,
            num_channels=self.num_channels,
            num_layers=self.num_layers,
            dropout=self.dropout,
            use_assigner=self.use_assigner,
            assigner_activation=self.assigner_activation,
            assigner_hidden_dim=self.assigner_hidden_dim,
            layer_input=self.layer_input,
            channel_init=self.channel_init,
        )
        mask = ColumnMask(
            self.hidden_dim,
            temperature=self.mask_temperature,
            hard=self.mask_draw == "hard",
            draw_at_evaluation=self.evaluation_mask == "sample",
        )
        return FairSADModel(encoder, mask if self.use_mask else None, facts.num_scores)

    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> FairSADTraining:
        assert isinstance(model, FairSADModel)
        return FairSADTraining(self, model, graph, validator)

    def _forward(self, model: nn.Module, graph: FairGraph) -> tuple[Tensor, Tensor]:
        assert isinstance(model, FairSADModel)
        columns = model.masked(model.encoder(graph.x, graph.adjacency()))
        return columns, model.classify(columns)

    @torch.no_grad()
    def channels(self, graph: FairGraph) -> tuple[Tensor, Tensor]:
        """Channels [n, K, q] before the mask, and the mask [K, q]: where to look for the sensitive attribute."""
        self._check_fitted()
        self.facts_.check(graph)
        model = self.model_
        assert isinstance(model, FairSADModel)
        before = model.encoder(graph.x.to(model.classifier.weight.device), graph.adjacency())
        shares = torch.ones(self.hidden_dim) if model.mask is None else model.mask.at_evaluation()
        return before.cpu(), shares.cpu().view(self.num_channels, -1)


class FairSADTraining:
    """Alg. 1: one forward pass, the four losses, one backward pass, a step for the model and one for f_d.

    Only the nodes that a loss reads have to be right, so training runs on their neighbourhood: the training nodes and
    all within ``num_layers`` links of them, and in each layer only over links that still reach them in time. The result
    is the same, and with one layer on Bail that is a sixth of the nodes.
    """

    def __init__(self, method: FairSAD, model: FairSADModel, graph: FairGraph, validator: Validator) -> None:
        self.method, self.model, self.graph, self.validator = method, model, graph, validator
        device = graph.x.device
        self.independence = method.use_independence and method.num_channels > 1
        self.discriminator = ChannelDiscriminator(method.num_channels, model.encoder.channel_dim).to(device)
        self.modules: Mapping[str, nn.Module] = {"model": model, "discriminator": self.discriminator}
        self.optimisers: Mapping[str, Optimizer] = {name: adam(module, method) for name, module in self.modules.items()}

        train_nodes = graph.mask("train").nonzero().squeeze(1)
        self.labels = graph.y[train_nodes]
        self.groups = centred_indicators(graph.sensitive[train_nodes], graph.x.dtype)
        reads_all = self.independence and "all" in (method.channel_loss_nodes, method.distance_nodes)
        if reads_all:
            self.x, self.train_rows = graph.x, train_nodes
            self.rounds = (graph.adjacency(),) * method.num_layers
        else:
            nodes, self.rounds, self.train_rows = graph.adjacency().around(train_nodes, method.num_layers)
            self.x = graph.x[nodes]

    def train_epoch(self) -> dict[str, Tensor]:
        """One pass of Alg. 1's loop."""
        method, model = self.method, self.model
        model.train()
        for optimiser in self.optimisers.values():
            optimiser.zero_grad(set_to_none=True)

        columns = model.masked(model.encoder(self.x, self.rounds))
        trained = columns[self.train_rows]
        parts = {"classification": classification_loss(model.classify(trained), self.labels)}
        loss = parts["classification"]
        if self.independence:
            everywhere = columns.view(len(columns), method.num_channels, -1)
            on_train = trained.view(len(trained), method.num_channels, -1)
            parts["distance"] = distance_correlation_loss(
                everywhere if method.distance_nodes == "all" else on_train, ratio=method.distance_ratio
            )
            parts["channel"] = channel_loss(
                self.discriminator(everywhere if method.channel_loss_nodes == "all" else on_train)
            )
            loss = loss + method.alpha * (parts["distance"] + parts["channel"])
        if method.use_mask:
            parts["covariance"] = covariance_loss(trained, self.groups)
            loss = loss + method.beta * parts["covariance"]
        loss.backward()  # type: ignore[no-untyped-call]
        if self.independence and method.discriminator_gradient == "separate" and method.alpha > 0:
            # f_d appears in L_d alone, so its gradient of L is α times that of L_d
            for weight in self.discriminator.parameters():
                if weight.grad is not None:
                    weight.grad /= method.alpha
        for optimiser in self.optimisers.values():
            optimiser.step()
        return {"loss": loss, **parts}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Scores of the validation nodes, measured."""
        model = self.model.eval()
        if model.mask is not None:
            model.mask.draw()
        _, scores = self.method._forward(model, self.graph)
        return self.validator.measure(scores[self.validator.nodes])
