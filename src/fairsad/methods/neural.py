"""What all trained methods share: fitting through the one loop, predicting, saving."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import Adam

from fairsad.graph import FairGraph
from fairsad.methods.base import GraphFacts, Method
from fairsad.methods.parameters import Search, check_parameters, parameter
from fairsad.training.device import on_device, resolve_device
from fairsad.training.loop import LoopSettings, Procedure, Row, train
from fairsad.training.progress import Progress
from fairsad.training.selection import Validator, selection_rule

# What does not change the epochs done so far, so that a checkpoint may be gone on from with another value.
_NOT_OF_THE_RESULT = ("device", "epochs")


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralMethod(Method):
    """A method whose model is a torch module, trained by the shared loop.

    After ``fit``: the module ``model_``, one row per epoch in ``history_``, ``best_epoch_``, ``facts_``, ``protocol_``.
    """

    # What the method measures on the validation nodes besides the usual metrics, for its own selection rule.
    own_metrics: ClassVar[tuple[str, ...]] = ()

    epochs: int = parameter(1000, "Epochs to train.", low=1)
    learning_rate: float = parameter(1e-3, "Learning rate of Adam.", low=0.0, search=Search(1e-4, 1e-2, log=True))
    weight_decay: float = parameter(1e-5, "Weight decay of Adam.", low=0.0)
    evaluate_every: int = parameter(10, "Validate after every so many epochs.", low=1)
    selection: str = parameter("acc+auc-dp-eo", "Which evaluation is kept: 'last', or a signed sum of metrics.")
    patience: int | None = parameter(None, "Stop after so many evaluations without a better one.", low=1)
    seed: int = parameter(0, "Seed of everything random in training.", low=0)
    device: str = parameter("auto", "Where to compute: 'auto', 'cpu', 'cuda', ...")

    # -- to be written by a method --------------------------------------------------------------------------

    @abstractmethod
    def _build(self, facts: GraphFacts) -> nn.Module:
        """The model that predicts, with fresh weights."""

    @abstractmethod
    def _procedure(self, model: nn.Module, graph: FairGraph, validator: Validator) -> Procedure:
        """How the model is trained on this graph; the graph is on the device."""

    @abstractmethod
    def _forward(self, model: nn.Module, graph: FairGraph) -> tuple[Tensor, Tensor]:
        """Embedding [n, d_h] and scores [n] or [n, classes] of every node, with the model at evaluation."""

    # -- the same for all -----------------------------------------------------------------------------------

    @property
    def _first_epochs(self) -> int:
        """Epochs of another stage that come before the ``epochs`` of the classifier, and are not validated."""
        return 0

    def fit(
        self,
        graph: FairGraph,
        *,
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        checkpoint_seconds: float = 30.0,
        progress: bool | None = None,
        callbacks: Sequence[Callable[[Row], None]] = (),
    ) -> Self:
        """Train on a graph and keep the best evaluation.

        Args:
            graph: Labels are read at ``train_mask`` and, to select, at ``val_mask``; nowhere else.
            folder: Where checkpoints go while training; none are written without it.
            resume: Go on from the checkpoint in ``folder``, if there is one; the result has the same bits.
            checkpoint_seconds: Least time between two checkpoints.
            progress: Show a bar; by default on a terminal only.
            callbacks: Called with every row of the history.

        Returns:
            The fitted method itself.
        """
        check_parameters(self)
        rule = selection_rule(self.selection, self.own_metrics)
        self._check_support(graph)
        facts, device = GraphFacts.of(graph), resolve_device(self.device)
        there = on_device(graph, device)
        validator = Validator(there, self.selection, self.own_metrics)
        self._remember(graph, selection=self.selection, seed=self.seed, device=str(device))

        self._progress = progress  # for what a method trains before its model
        with torch.random.fork_rng():  # the caller's random stream is left as it was
            torch.manual_seed(self.seed)
            model = self._build(facts).to(device)
            settings = LoopSettings(
                epochs=self._first_epochs + self.epochs,
                score=rule,
                evaluate_every=self.evaluate_every,
                evaluate_from=self._first_epochs,
                patience=self.patience,
                folder=None if folder is None else Path(folder),
                checkpoint_seconds=checkpoint_seconds,
                resume=resume,
                identity=self._identity(),
            )
            outcome = train(
                self._procedure(model, there, validator), settings, Progress(self.card.title, progress), callbacks
            )

        self.model_ = model.eval()
        self.history_ = outcome.history
        self.best_epoch_ = outcome.best_epoch
        self.protocol_ |= {
            "best_epoch": outcome.best_epoch,
            "validation": outcome.best_metrics,
            "seconds": round(outcome.seconds, 3),
        }
        return self

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with to be gone on from."""
        parameters = {
            name: value for name, value in self.get_params(deep=False).items() if name not in _NOT_OF_THE_RESULT
        }
        return {
            "method": self.card.name,
            **parameters,
            "graph fingerprint": self.protocol_["fingerprint"],
            "split hash": self.protocol_["split"]["hash"],
        }

    def scores(self, graph: FairGraph) -> Tensor:
        """Scores [n] for two classes (positive where the second class is predicted), or [n, classes]."""
        return self._predict(graph)[1]

    def embed(self, graph: FairGraph) -> npt.NDArray[np.float32]:
        """The representation [n, d_h] that the classifier reads."""
        return self._predict(graph)[0].cpu().numpy()

    @torch.no_grad()
    def _predict(self, graph: FairGraph) -> tuple[Tensor, Tensor]:
        self._check_fitted()
        self.facts_.check(graph)
        device = next(self.model_.parameters()).device
        return self._forward(self.model_, on_device(graph, device))

    def _weights(self) -> dict[str, Tensor]:
        return dict(self.model_.state_dict())

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        with torch.random.fork_rng():  # fresh weights are drawn only to be overwritten
            model = self._build(self.facts_)
        model.load_state_dict(weights)
        self.model_ = model.to(resolve_device(self.device)).eval()


def adam(module: nn.Module, method: NeuralMethod, learning_rate: float | None = None) -> Adam:
    """Adam on the weights of a module, with the learning rate, if no other is given, and weight decay of the method."""
    weights = list(module.parameters())
    fused = weights[0].device.type in ("cpu", "cuda")  # one call for all weights; the plain form elsewhere
    rate = method.learning_rate if learning_rate is None else learning_rate
    return Adam(weights, lr=rate, weight_decay=method.weight_decay, fused=fused)
