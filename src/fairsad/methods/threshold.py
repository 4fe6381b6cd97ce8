"""A GCN whose scores are cut at a threshold per group: the least that a fairness method has to be better than."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairsad.errors import DataError, ProtocolError
from fairsad.graph import FairGraph
from fairsad.groups import Groups
from fairsad.methods.base import MethodCard
from fairsad.methods.gcn import GCN
from fairsad.methods.parameters import parameter
from fairsad.training.loop import Row

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_THRESHOLDS = "group_thresholds"


@dataclass(frozen=True)
class Cuts:
    """The places where the scores of some nodes can be cut, from nobody selected to everybody selected.

    Attributes:
        thresholds: Scores above are selected; halfway between two neighbouring scores.
        rates: Share that each selects: of all, or of those of the second class.
        utility: What each adds to the objective.
    """

    thresholds: FloatArray
    rates: FloatArray
    utility: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, counted: BoolArray, gain: FloatArray) -> Cuts:
        """The cuts of some nodes; of those with one rate the best, which selects the fewest.

        Args:
            scores: Score of each node.
            counted: Whose selection makes the rate; at least one.
            gain: What is gained by selecting each node.
        """
        order = np.argsort(-scores, kind="stable")
        ordered = scores[order]
        last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)  # of nodes with one score
        between = np.append((ordered[last[:-1]] + ordered[last[:-1] + 1]) / 2, np.nextafter(ordered[-1], -np.inf))
        rates = np.append(0.0, np.cumsum(counted[order])[last] / counted.sum())
        kept = np.unique(rates, return_index=True)[1]
        utility = np.append(0.0, np.cumsum(gain[order])[last])
        return cls(np.append(ordered[0], between)[kept], rates[kept], utility[kept])

    def nearest(self, rates: FloatArray) -> IntArray:
        """The cut whose rate is nearest to each of the given rates, the lower one of two."""
        above: IntArray = np.searchsorted(self.rates, rates).clip(1, len(self.rates) - 1)
        return above - (rates - self.rates[above - 1] <= self.rates[above] - rates)


@dataclass(kw_only=True, eq=False, repr=False)
class Threshold(GCN):
    r"""A GCN, and for each group the threshold at which all groups have one rate on the validation nodes.

    The rate of a group g at threshold t is the share of its nodes with score z > t: of all of them
    (``"demographic_parity"``) or of those of the second class (``"equal_opportunity"``). For a rate r, every group
    gets the threshold whose rate is nearest to r; the r with the best accuracy is taken,

    .. math::
        t_g(r) = \arg\min_t |r_g(t) - r|, \qquad r^* = \arg\max_r \text{accuracy}(t_1(r), \ldots, t_G(r))

    over all rates that some group can have. Rates can only be met up to half a node of each group, so on the
    validation nodes the gap is at most 1/(2a) + 1/(2b), a and b being the sizes of the two smallest groups (of their
    members of the second class), but for nodes with equal scores. The scores that are given out are z − t_g, so that
    they rank and decide as the method does.

    The test nodes are never looked at. **A prediction needs the group of the node**, which may be forbidden or not
    known; a node of unknown group, or of a group without validation nodes, gets the threshold that has rate r* over
    all validation nodes. With several attributes the groups are their intersections, or those of ``attribute``.

    Why not Fairlearn's ``ThresholdOptimizer``: it meets the rates exactly by drawing, for a person, one of two
    thresholds by chance, so two predictions of one model differ; a threshold per group is what can be used and
    explained. It is the judge in the tests.

    Example:
        >>> from fairsad import load_graph
        >>> graph = load_graph("synthetic:nodes=400,seed=1")
        >>> model = Threshold(epochs=5, constraint="equal_opportunity").fit(graph)
        >>> sorted(model.protocol_["group_thresholds"])
        ['group=group 0', 'group=group 1', 'unknown']
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="threshold",
        title="GCN + thresholds",
        paper="Hardt et al., NeurIPS 2016",
        kind="post-processing",
        cost="as GCN; then n log n in validation nodes",
        groups="any",
        classes="two",
        unknown_sensitive=True,
        sensitive_nodes="none",
        sensitive_to_predict=True,
    )
    off: ClassVar[Mapping[str, Any] | None] = None

    constraint: Literal["demographic_parity", "equal_opportunity"] = parameter(
        "demographic_parity", "Rate that the groups are to share: of all nodes, or of those of the second class."
    )
    objective: Literal["accuracy", "balanced_accuracy"] = parameter(
        "accuracy", "What the shared rate makes as large as it can be on the validation nodes."
    )
    attribute: str | None = parameter(None, "Sensitive attribute whose groups count; none takes all, intersected.")

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
        """Train the GCN, then find the thresholds on the validation nodes; for the arguments see ``GCN.fit``."""
        groups = graph.groups(None if self.attribute is None else [self.attribute])
        validation = graph.mask("val").cpu().numpy()
        labels, members = graph.y.cpu().numpy()[validation], groups.select(validation)
        if graph.num_classes == 2:
            self._check_enough(graph, labels, members)
        super().fit(
            graph,
            folder=folder,
            resume=resume,
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
            callbacks=callbacks,
        )
        scores = super().scores(graph).cpu().numpy()[validation].astype(np.float64)
        self.thresholds_, rate = self._find_thresholds(scores, labels, members)
        self.protocol_ |= {
            "constraint": self.constraint,
            "target_rate": rate,
            "group_thresholds": dict(zip([*groups.names, "unknown"], self.thresholds_.tolist(), strict=True)),
        }
        return self

    def _check_enough(self, graph: FairGraph, labels: IntArray, groups: Groups) -> None:
        counted = self._counted(labels) & (groups.codes >= 0)
        if len(np.unique(groups.codes[counted])) < 2:
            of_class = f" of class {graph.label_names[1]!r}" if self.constraint == "equal_opportunity" else ""
            raise ProtocolError(
                f"{self.card.title} compares groups on the validation nodes; in graph {graph.name!r} fewer than two "
                f"groups have validation nodes{of_class}. Make another split, or choose another constraint."
            )

    def _counted(self, labels: IntArray) -> BoolArray:
        """Whose selection makes the rate."""
        return labels == 1 if self.constraint == "equal_opportunity" else np.ones(len(labels), dtype=bool)

    def _find_thresholds(self, scores: FloatArray, labels: IntArray, groups: Groups) -> tuple[Tensor, float]:
        """The threshold of each group, last that of unknown groups, and the rate they share."""
        counted, gain = self._counted(labels), np.where(labels == 1, 1.0, -1.0)
        if self.objective == "balanced_accuracy":
            gain /= np.where(labels == 1, max((labels == 1).sum(), 1), max((labels == 0).sum(), 1))
        everybody = Cuts.of(scores, counted, gain)
        by_group = [groups.codes == code for code in range(len(groups))]
        cuts = [Cuts.of(scores[g], counted[g], gain[g]) if counted[g].any() else None for g in by_group]
        rates = np.unique(np.concatenate([each.rates for each in cuts if each is not None]))
        utility = np.sum([each.utility[each.nearest(rates)] for each in cuts if each is not None], axis=0)
        best = rates[[utility.argmax()]]
        thresholds = [(each or everybody).thresholds[(each or everybody).nearest(best)[0]] for each in (*cuts, None)]
        return torch.tensor(thresholds, dtype=torch.float64), float(best[0])

    def scores(self, graph: FairGraph) -> Tensor:
        """Scores [n] less the threshold of each node's group."""
        scores = super().scores(graph)
        names = self.facts_.sensitive_names if self.attribute is None else (self.attribute,)
        values = dict(zip(self.facts_.sensitive_names, self.facts_.sensitive_values, strict=True))
        found = dict(zip(graph.sensitive_names, graph.sensitive_values, strict=True))
        for name in names:
            if found.get(name) != values[name]:
                has = f"the values {', '.join(found[name])}" if name in found else "no such attribute"
                raise DataError(
                    f"{self.card.title} decides by {name} with the values {', '.join(values[name])}; graph "
                    f"{graph.name!r} has {has}. Encode the new table as the training table was, or use a method that "
                    "does not need it, such as gcn."
                )
        codes = graph.groups(names).codes
        if (codes < 0).all():
            raise DataError(
                f"{self.card.title} decides by the group of each node; of graph {graph.name!r} no node's is known. "
                f"Give {', '.join(names)}, or use a method that does not need it, such as gcn."
            )
        # an unknown group is -1, and the last threshold is for these
        return scores.double() - self.thresholds_[torch.from_numpy(codes)].to(scores.device)

    def _weights(self) -> dict[str, Tensor]:
        return super()._weights() | {_THRESHOLDS: self.thresholds_}

    def _restore(self, weights: Mapping[str, Tensor]) -> None:
        super()._restore({name: tensor for name, tensor in weights.items() if name != _THRESHOLDS})
        self.thresholds_ = weights[_THRESHOLDS]
