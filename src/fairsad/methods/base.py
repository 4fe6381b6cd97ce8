"""The contract of every method: scikit-learn manners, on a graph instead of a table."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from fairsad.errors import DataError, NotFittedError, ProtocolError
from fairsad.files import as_tuples, whole_file
from fairsad.graph import FairGraph

if TYPE_CHECKING:
    from fairsad.evaluation.evaluate import Evaluation

FORMAT = "fairsad-model-1"
FACTS_FILE, WEIGHTS_FILE = "model.json", "model.safetensors"


@dataclass(frozen=True)
class MethodCard:
    """What a reader of a comparison needs to know about a method.

    Attributes:
        name: Its name on the command line.
        title: Its name in tables.
        paper: Where it is published.
        kind: When it acts: on the data, in training, on the predictions, or not at all.
        cost: How time and memory grow.
        groups: Whether more than two groups, or several attributes, can be mitigated at once.
        classes: Whether more than two classes can be predicted.
        unknown_sensitive: Whether nodes may have unknown sensitive values.
        sensitive_nodes: Whose sensitive value is read in training, besides the validation nodes' for selection and
            besides a sensitive column among the features: nobody's, the training nodes', those neither in validation
            nor in test, or everybody's.
        sensitive_to_predict: Whether a prediction reads the node's sensitive value, a feature column apart.
    """

    name: str
    title: str
    paper: str
    kind: Literal["pre-processing", "in-processing", "post-processing", "reference"]
    cost: str
    groups: Literal["two", "any"] = "two"
    classes: Literal["two", "any"] = "two"
    unknown_sensitive: bool = False
    sensitive_nodes: Literal["none", "train", "not held out", "all"] = "train"
    sensitive_to_predict: bool = False


@dataclass(frozen=True)
class GraphFacts:
    """What a fitted model remembers of its graph, to be rebuilt and to know a graph that it can read.

    Attributes:
        name: Of the graph.
        feature_names: Columns of x, in order.
        label_names: Classes, in order.
        sensitive_names: Sensitive attributes.
        sensitive_values: The values of each.
        sensitive_columns: Columns of x that hold each.
        encoding: How a table became x.
    """

    name: str
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]
    sensitive_names: tuple[str, ...]
    sensitive_values: tuple[tuple[str, ...], ...]
    sensitive_columns: tuple[tuple[int, ...], ...]
    encoding: dict[str, Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, graph: FairGraph) -> GraphFacts:
        """The facts of a graph."""
        return cls(**{name: getattr(graph, name) for name in cls.__dataclass_fields__})

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> GraphFacts:
        """What ``dataclasses.asdict`` and JSON made lists of."""
        return cls(
            **{name: value if name in ("name", "encoding") else as_tuples(value) for name, value in content.items()}
        )

    @property
    def num_scores(self) -> int:
        """One score for two classes, one score per class for more."""
        return 1 if len(self.label_names) == 2 else len(self.label_names)

    def check(self, graph: FairGraph) -> None:
        """Refuse a graph whose columns are not those of training.

        Raises:
            DataError: The columns differ; the message names those missing and those unexpected.
        """
        if graph.feature_names == self.feature_names:
            return
        missing = [name for name in self.feature_names if name not in graph.feature_names]
        unexpected = [name for name in graph.feature_names if name not in self.feature_names]
        told = [
            f"{word} {', '.join(names[:5])}"
            for word, names in (("without", missing), ("but with", unexpected))
            if names
        ]
        raise DataError(
            f"graph {graph.name!r} has other features than the model was trained on ({self.name!r}): "
            f"{' '.join(told) or 'the same columns in another order'}. "
            "Encode the new table as the training table was (load_card(..., encoding=model.facts_.encoding))."
        )


@dataclass(kw_only=True, eq=False, repr=False)
class Method(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """A method that learns to predict the label of every node of a graph.

    Hyper-parameters are keyword arguments and only stored; they are checked in ``fit``. What is learned has a name
    that ends in an underscore. ``sklearn.base.clone``, ``get_params`` and ``set_params`` work.
    """

    card: ClassVar[MethodCard]
    # Settings under which the method is a plain GCN (with the same epochs, learning rate, ...), where there are such.
    off: ClassVar[Mapping[str, Any] | None] = None

    # -- to be written by a method --------------------------------------------------------------------------

    @abstractmethod
    def fit(self, graph: FairGraph) -> Self:
        """Learn from the labels of ``train_mask``, and select by those of ``val_mask``."""

    @abstractmethod
    def scores(self, graph: FairGraph) -> Tensor:
        """Scores [n] for two classes (positive where the second class is predicted), or [n, classes]."""

    @abstractmethod
    def embed(self, graph: FairGraph) -> npt.NDArray[np.float32]:
        """The representation [n, d_h] that the prediction is made from."""

    @abstractmethod
    def _weights(self) -> dict[str, Tensor]:
        """What was learned, as named tensors."""

    @abstractmethod
    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        """Be the fitted model that these weights came from; ``facts_`` is there already."""

    # -- the same for all -----------------------------------------------------------------------------------

    def predict_proba(self, graph: FairGraph) -> npt.NDArray[np.float64]:
        """Probability [n, classes] of each class."""
        return _probabilities(self.scores(graph))

    def predict(self, graph: FairGraph) -> npt.NDArray[np.int64]:
        """Class number [n] of each node; the names are ``model.facts_.label_names``."""
        return _decide(self.scores(graph))

    def evaluate(self, graph: FairGraph, split: str = "test", **options: Any) -> Evaluation:
        """Metrics with intervals, group tables and findings on the nodes of a split.

        Args:
            graph: The graph to predict on.
            split: ``"train"``, ``"val"``, ``"test"``, or ``"all"`` labelled nodes.
            **options: Passed to ``fairsad.evaluation.evaluate_predictions``.
        """
        from fairsad.evaluation.evaluate import evaluate_predictions

        nodes = graph.mask(split).cpu().numpy()
        if not nodes.any():
            raise ProtocolError(f"graph {graph.name!r} has no nodes in split {split!r}. Choose another split.")
        scores = self.scores(graph)
        probabilities = _probabilities(scores)[nodes]
        return evaluate_predictions(
            graph.y.cpu().numpy()[nodes],
            _decide(scores)[nodes],
            {name: graph.groups([name]).select(nodes) for name in graph.sensitive_names},
            scores=probabilities[:, 1] if graph.num_classes == 2 else probabilities,
            class_names=graph.label_names,
            **options,
        )

    @property
    def is_fitted(self) -> bool:
        """Whether there is something to predict with."""
        return hasattr(self, "facts_")

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet. Call fit(graph) or load(folder) first."
            )

    def _check_support(self, graph: FairGraph) -> None:
        """Say clearly which graph this method cannot mitigate."""
        card, several = self.card, len(graph.sensitive_names) > 1
        if card.groups == "two" and (several or any(len(values) > 2 for values in graph.sensitive_values)):
            raise ProtocolError(
                f"{card.title} mitigates one sensitive attribute with two groups; graph {graph.name!r} has "
                + "; ".join(
                    f"{name} with {len(values)} groups"
                    for name, values in zip(graph.sensitive_names, graph.sensitive_values, strict=True)
                )
                + ". Choose one attribute with two groups, or a method that takes any ('fairsad methods')."
            )
        if card.classes == "two" and graph.num_classes > 2:
            raise ProtocolError(
                f"{card.title} predicts two classes; graph {graph.name!r} has {graph.num_classes}. "
                "Choose a method that takes any number ('fairsad methods')."
            )
        trained = graph.mask("train").cpu().numpy()
        if not trained.any():
            raise ProtocolError(f"graph {graph.name!r} has no training nodes. Set train_mask, or make a split.")
        unknown = int((graph.sensitive.cpu().numpy()[trained] < 0).any(axis=1).sum())
        if unknown and not card.unknown_sensitive:
            raise ProtocolError(
                f"{card.title} needs the sensitive value of every training node; {unknown} of {int(trained.sum())} are "
                "unknown. Choose a method that does not ('fairsad methods'), or take these nodes out of train_mask."
            )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the model as a folder: weights as safetensors, everything else as JSON, no pickle.

        Returns:
            The folder.
        """
        from safetensors.torch import save_file

        self._check_fitted()
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        content = {
            "format": FORMAT,
            "method": self.card.name,
            "parameters": self.get_params(deep=False),
            "facts": asdict(self.facts_),
            "protocol": self.protocol_,
        }
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in self._weights().items()}
        with whole_file(target / WEIGHTS_FILE) as partial:
            save_file(weights, partial)
        with whole_file(target / FACTS_FILE) as partial:
            partial.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
        return target

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what ``save`` wrote; on ``Method`` itself, whatever method it is."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from fairsad.methods.registry import method_class

        source = Path(folder)
        try:
            content = json.loads((source / FACTS_FILE).read_text(encoding="utf-8"))
            weights = load_file(source / WEIGHTS_FILE)
        except FileNotFoundError as error:
            raise DataError(f"{source} is not the folder of a saved model: {error.filename} is missing.") from None
        except (json.JSONDecodeError, SafetensorError) as error:
            raise DataError(f"the model in {source} cannot be read ({error}). Save it again.") from None
        if content.get("format") != FORMAT:
            raise DataError(
                f"the model in {source} has format {content.get('format')!r}; expected {FORMAT!r}. Train it again."
            )
        own = getattr(cls, "card", None)  # a class can read its own models before it is registered
        found = cls if own is not None and own.name == content["method"] else method_class(content["method"])
        if not issubclass(found, cls):
            raise DataError(f"{source} holds a {found.__name__}; expected a {cls.__name__}. Use {found.__name__}.load.")
        model = found(**content["parameters"])
        model.facts_ = GraphFacts.from_json(content["facts"])
        model.protocol_ = content["protocol"]
        model._restore(weights)
        return model

    def _remember(self, graph: FairGraph, **learned: Any) -> None:
        """Keep the facts of the graph, and the protocol that travels with every number of this model."""
        self.facts_ = GraphFacts.of(graph)
        self.protocol_ = {
            "method": self.card.name,
            "graph": graph.name,
            "fingerprint": graph.fingerprint,
            "split": {"recipe": graph.split_recipe, "hash": graph.split_hash},
            "sensitive_in_features": graph.sensitive_in_features,
            "threshold": "score > 0" if self.facts_.num_scores == 1 else "largest score",
            "versions": {name: version(name) for name in ("fairsad", "torch", "torch_geometric", "numpy", "numba")},
            **learned,
        }


class Preparation(ABC):
    """What a method can do besides predicting: make a graph that another method trains on.

    ``fairsad train GRAPH --method gcn --prepare edits`` trains a GCN on what EDITS makes of the graph.
    """

    @abstractmethod
    def prepare(self, graph: FairGraph, *, progress: bool | None = None) -> FairGraph:
        """The graph that is made of this one: the same nodes, labels, sensitive values and split.

        Uses the hyper-parameters and the seed of the method, reads no label outside ``train_mask``, and leaves the
        given graph as it is. The result is a whole graph of its own: it can be saved and trained on by any method.

        Args:
            graph: What to start from.
            progress: Show a bar; by default on a terminal only.
        """


def _decide(scores: Tensor) -> npt.NDArray[np.int64]:
    decided = (scores > 0).long() if scores.dim() == 1 else scores.argmax(dim=1)
    return decided.cpu().numpy()


def _probabilities(scores: Tensor) -> npt.NDArray[np.float64]:
    scores = scores.detach().double().cpu()
    if scores.dim() == 1:
        positive = scores.sigmoid()
        return torch.stack([1 - positive, positive], dim=1).numpy()
    return scores.softmax(dim=1).numpy()
