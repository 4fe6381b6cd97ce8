"""Which epoch is kept? Rules by name, measured on the validation nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fairsad.errors import ProtocolError
from fairsad.evaluation.rates import GroupCounts, count_metrics, get_metric, resolve_positive
from fairsad.evaluation.scores import auc
from fairsad.graph import FairGraph
from fairsad.losses.classification import classification_loss

# Short names, as the literature writes its rules; any registered metric can be named in full.
SHORT = {
    "acc": "accuracy",
    "auc": "auc",
    "f1": "f1",
    "dp": "demographic_parity_gap",
    "eo": "equal_opportunity_gap",
    "loss": "loss",
}
ALWAYS = ("acc", "auc", "f1", "dp", "eo", "loss")
NAMED = {
    "last": "the last evaluation",
    "acc+auc-dp-eo": "accuracy + AUC − ΔDP − ΔEO, the rule of the FairSAD and FairVGNN code",
    "auc": "largest AUC",
    "-loss": "smallest classification loss",
}

_TERM = re.compile(r"([+-]?)([a-z_0-9]+)")


@dataclass(frozen=True)
class SelectionRule:
    """A signed sum of validation metrics, such as ``acc+auc-dp-eo``; the epoch with the largest sum is kept.

    Attributes:
        text: The rule as it was written.
        terms: Sign and metric of each term.
    """

    text: str
    terms: tuple[tuple[int, str], ...]

    def score(self, metrics: Mapping[str, float]) -> float:
        """The sum; NaN, which is never kept, as soon as one metric is undefined."""
        return math.fsum(sign * metrics[name] for sign, name in self.terms)


def selection_rule(text: str, own_metrics: Collection[str] = ()) -> Callable[[Mapping[str, float]], float]:
    """The score of a rule by its text.

    Args:
        text: The rule.
        own_metrics: What the method measures besides, see ``NeuralMethod.own_metrics``.

    Raises:
        ProtocolError: The rule names a metric that there is not.
    """
    if text == "last":
        evaluations = iter(range(2**62))
        return lambda metrics: float(next(evaluations))
    return parse_rule(text, own_metrics).score


def parse_rule(text: str, own_metrics: Collection[str] = ()) -> SelectionRule:
    """Read a rule: metrics by short or full name with + and − between them.

    Example:
        >>> parse_rule("auc-dp").terms
        ((1, 'auc'), (-1, 'dp'))
    """
    known = {*SHORT, *(metric.name for metric in count_metrics()), *own_metrics}
    terms = tuple((-1 if sign == "-" else 1, name) for sign, name in _TERM.findall(text))
    unknown = [name for _, name in terms if name not in known]
    if not terms or unknown or "".join(f"{sign}{name}" for sign, name in _TERM.findall(text)) != text:
        raise ProtocolError(
            f"selection rule {text!r} is not understood; expected 'last' or a sum such as 'acc+auc-dp-eo' of "
            f"{', '.join(sorted(known))}."
        )
    return SelectionRule(text, terms)


class Validator:
    """Measures scores on the validation nodes of a graph, with their labels and groups made ready once.

    Gaps are those of the sensitive attribute where they are largest; nodes of unknown groups are left out of them.

    Args:
        graph: Its ``val_mask`` is looked at.
        rule: Selection rule, to know which metrics beside the usual ones are wanted.
        own_metrics: Names in the rule that the method measures itself.

    Raises:
        ProtocolError: There are no validation nodes, or a gap of the rule cannot be defined on them.
    """

    def __init__(self, graph: FairGraph, rule: str, own_metrics: Collection[str] = ()) -> None:
        self.nodes = graph.mask("val").nonzero().squeeze(1)
        if self.nodes.numel() == 0:
            raise ProtocolError(
                f"graph {graph.name!r} has no validation nodes to select by. Set val_mask, or make a split."
            )
        rows = self.nodes.cpu().numpy()
        self._labels_on_device = graph.y[self.nodes]
        self._labels: npt.NDArray[np.int64] = graph.y.cpu().numpy()[rows]
        self._groups = [graph.groups([name]).select(rows) for name in graph.sensitive_names]
        self._class_names = graph.label_names
        terms = () if rule == "last" else parse_rule(rule, own_metrics).terms
        wanted = tuple(name for _, name in terms if name not in own_metrics)
        self._metrics = tuple(dict.fromkeys((*ALWAYS, *wanted)))
        self._refuse_what_cannot_be_measured(graph, wanted)

    def measure(self, scores: Tensor) -> dict[str, float]:
        """Metrics of the scores [v] or [v, classes] of the validation nodes, in order of node number."""
        predicted = (scores > 0).long() if scores.dim() == 1 else scores.argmax(dim=1)
        return self._measure(
            predicted.cpu().numpy(),
            scores.detach().cpu().numpy(),
            float(classification_loss(scores.detach(), self._labels_on_device)),
        )

    def _measure(
        self, predictions: npt.NDArray[np.int64], scores: npt.NDArray[np.floating] | None, loss: float
    ) -> dict[str, float]:
        overall = GroupCounts.from_codes(self._labels, predictions, class_names=self._class_names)
        by_attribute = [
            GroupCounts.from_codes(self._labels, predictions, groups, self._class_names) for groups in self._groups
        ]
        positive = resolve_positive(None, self._class_names)
        measured = {}
        for name in self._metrics:
            if name == "loss":
                measured[name] = loss
            elif name == "auc":
                measured[name] = math.nan if scores is None else _auc(self._labels, scores)
            else:
                metric = get_metric(SHORT.get(name, name))
                tables = by_attribute if metric.kind == "gap" else [overall]
                measured[name] = max(float(metric(table.counts, positive)) for table in tables)
        return measured

    def _refuse_what_cannot_be_measured(self, graph: FairGraph, wanted: tuple[str, ...]) -> None:
        """Some gaps depend on the labels alone for being defined: better said before training than after."""
        perfect = self._measure(self._labels, None, 0.0)
        undefined = [name for name in wanted if name not in ("auc", "loss") and math.isnan(perfect[name])]
        if undefined:
            raise ProtocolError(
                f"selection by {', '.join(undefined)} is not possible on graph {graph.name!r}: among its "
                f"{self.nodes.numel()} validation nodes, fewer than two groups have the labels this needs. "
                "Make another split, or choose another rule with selection=..., such as 'auc'."
            )


def _auc(labels: npt.NDArray[np.int64], scores: npt.NDArray[np.floating]) -> float:
    """AUC of the positive class, or the mean over the classes, each against the rest."""
    if scores.ndim == 1:
        return auc(labels == 1, scores.astype(np.float64))
    each = [auc(labels == label, scores[:, label].astype(np.float64)) for label in range(scores.shape[1])]
    return float(np.mean(each))
