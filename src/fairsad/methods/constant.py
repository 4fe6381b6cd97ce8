"""The predictor that says the same of everybody: what every number has to be read against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairsad.errors import DataError
from fairsad.graph import FairGraph
from fairsad.methods.base import Method, MethodCard
from fairsad.methods.parameters import check_parameters, parameter


@dataclass(kw_only=True, eq=False, repr=False)
class Constant(Method):
    r"""One class for every node: no gap, an AUC of one half, and often a high F1.

    With :math:`n_c` of n training nodes in class c of C, the probability of class c is everywhere

    .. math::
        p_c = \frac{n_c + 1}{n + C}

    and the class with the most training nodes is predicted. Where several have equally many, as in the balanced splits
    of the benchmarks, the one with the most validation nodes counts one more, or else the first. With ``label``, the
    probabilities are those of training nodes that are all of that class.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("german")
        >>> set(Constant().fit(graph).predict(graph))
        {np.int64(1)}
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="constant",
        title="Constant",
        paper="–",
        kind="reference",
        cost="none",
        groups="any",
        classes="any",
        unknown_sensitive=True,
        sensitive_nodes="none",
    )

    label: str | None = parameter(None, "Class to predict, by name; none takes the largest among the training nodes.")

    def fit(self, graph: FairGraph) -> Self:
        """Count the classes of the training nodes."""
        check_parameters(self)
        self._check_support(graph)
        if self.label is not None and self.label not in graph.label_names:
            raise DataError(
                f"Constant: label = {self.label!r}; expected one of {', '.join(graph.label_names)}, the classes of "
                f"graph {graph.name!r}."
            )
        self._remember(graph)
        trained, validated = (
            torch.bincount(graph.y[graph.mask(split)].cpu(), minlength=graph.num_classes) for split in ("train", "val")
        )
        if self.label is not None:
            counts = torch.zeros_like(trained)
            counts[graph.label_names.index(self.label)] = trained.sum()
        else:
            largest = trained == trained.max()
            counts = trained.clone()
            counts[torch.where(largest, validated, -1).argmax()] += int(largest.sum() > 1)
        logarithms = (counts + 1.0).log()
        self.scores_ = logarithms[1] - logarithms[0] if self.facts_.num_scores == 1 else logarithms
        return self

    def scores(self, graph: FairGraph) -> Tensor:
        """The logarithm of the odds [n] of the second class, or of each class' count [n, classes]; all rows equal."""
        self._check_fitted()
        self.facts_.check(graph)
        return self.scores_.expand(graph.num_nodes, *self.scores_.shape)

    def embed(self, graph: FairGraph) -> npt.NDArray[np.float32]:
        """The scores, as columns: nothing is known of a node, so nothing can be read from it."""
        return self.scores(graph).reshape(graph.num_nodes, -1).numpy()

    def _weights(self) -> dict[str, Tensor]:
        return {"scores": self.scores_}

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        self.scores_ = weights["scores"]
