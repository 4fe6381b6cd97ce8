r"""Where does the sensitive attribute live? Linear probes of a model's representation, channel by channel.

FairSAD's claim is that the sensitive attribute is gathered in one channel, which the mask then weakens. A **probe**
puts that to the test on one's own model: how well can the attribute be read from each channel, before and after the
mask? It answers for the nodes that it looked at and for a reader who can only add up columns; another reader may
see more.

*How it is read.* By Fisher's linear discriminant, which is least squares on the standardised columns, with a ridge of
columns / rows: a closed form, with nothing to tune. The nodes are cut into folds; those of a fold are scored by what
the other folds teach, and the AUCs of the folds are averaged, with their standard deviation beside the mean. More than
two values are taken each against the rest, and averaged.

*What the mask can change.* The mask multiplies each column by a fixed number, and a reader of unlimited precision
divides by it and reads what was there before. (A penalty on the reader's coefficients does not help: an AUC is about
ranks, and no penalty changes the ranks that a single column, or a channel masked evenly, can give.) What the mask does
change is the size of a column beside the rest. So there is a second, **blurred** reader: each column gets normal noise
of one and the same standard deviation, the root mean square of the columns' standard deviations before the mask. A
column of typical size is then half signal, and one that is masked towards zero drowns. Before and after the mask the
noise is the same, draw for draw: under a mask of ones the two readings are equal. With few nodes, several draws of the
noise are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError, ProtocolError
from fairsad.evaluation.rates import FloatArray, IntArray
from fairsad.evaluation.scores import auc
from fairsad.evaluation.tables import Table, show_number

if TYPE_CHECKING:
    from torch import Tensor

    from fairsad.graph import FairGraph

SCHEMA = "fairsad.probe/1"
MAX_NODES = 20_000
MAX_DRAWS = 20
FEATURES, EMBEDDING, ALL_CHANNELS = "features", "embedding", "all channels"

# The columns of one place as each reader sees them, exact first; for each draw of the reader's noise [nodes, columns].
Views = Sequence[Sequence[FloatArray]]


class Embeds(Protocol):
    """A model with a representation."""

    def embed(self, graph: FairGraph) -> npt.NDArray[np.float32]:
        """The representation [n, d_h] that the prediction is made from."""
        ...


@runtime_checkable
class HasChannels(Protocol):
    """A model whose representation is channels under a mask."""

    def channels(self, graph: FairGraph) -> tuple[Tensor, Tensor]:
        """Channels [n, K, q] before the mask, and the mask [K, q]."""
        ...


@dataclass(frozen=True)
class Reading:
    """How well something can be read: an AUC over folds, 0.5 being chance.

    Attributes:
        auc: Mean over the folds; NaN where it cannot be read.
        std: Standard deviation over the folds.
        folds: The AUC of each fold.
    """

    auc: float
    std: float
    folds: tuple[float, ...]

    @classmethod
    def of(cls, folds: Sequence[float]) -> Reading:
        """From the AUC of each fold, of which there may be none."""
        if not folds:
            return cls(float("nan"), float("nan"), ())
        return cls(float(np.mean(folds)), float(np.std(folds)), tuple(folds))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"auc": _number(self.auc), "std": _number(self.std), "folds": list(self.folds)}


@dataclass(frozen=True)
class Place:
    """A place where something may be read.

    Attributes:
        name: ``"features"``, ``"embedding"``, ``"channel 1"``, ... or ``"all channels"``.
        exact: By a reader of unlimited precision.
        before: Blurred, before the mask; channels only.
        after: Blurred, after the mask; channels only.
    """

    name: str
    exact: Reading
    before: Reading | None = None
    after: Reading | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        blurred = {} if self.before is None or self.after is None else {"before": self.before, "after": self.after}
        return {name: reading.to_dict() for name, reading in ({"exact": self.exact} | blurred).items()}


@dataclass(frozen=True)
class Target:
    """Something that may be read from the representation: a sensitive attribute, or the label.

    Attributes:
        name: Name of the attribute, or ``"label"``.
        sensitive: Whether it is a sensitive attribute.
        nodes: Nodes probed, by value.
        unknown: Nodes left out because the value is unknown.
        reason: Why it cannot be read, or which values are left out.
        places: Where it was looked for: features, embedding, each channel, all channels.
    """

    name: str
    sensitive: bool
    nodes: dict[str, int]
    unknown: int
    reason: str
    places: tuple[Place, ...]

    @property
    def readable(self) -> bool:
        """Whether there were enough nodes to look for it."""
        return len(self.nodes) > 1

    def place(self, name: str) -> Place:
        """One place by its name.

        Raises:
            DataError: There is no such place.
        """
        found = next((place for place in self.places if place.name == name), None)
        if found is None:
            known = ", ".join(place.name for place in self.places)
            raise DataError(f"'{self.name}' was not looked for in '{name}'; expected one of: {known}.")
        return found

    @property
    def channels(self) -> tuple[Place, ...]:
        """The channels, in order."""
        return tuple(place for place in self.places if place.name.startswith("channel "))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "sensitive": self.sensitive,
            "nodes": self.nodes,
            "unknown": self.unknown,
            "reason": self.reason,
            "places": {place.name: place.to_dict() for place in self.places},
        }


@dataclass(frozen=True, eq=False)
class Probe:
    """What can be read from a representation, and where.

    Attributes:
        graph: Name of the graph.
        split: Split that was probed.
        nodes: Nodes that were looked at.
        of_nodes: Nodes that there are in the split.
        folds: Folds of the cross-validation.
        targets: Sensitive attributes first, the label last.
        mask: [K, q], what each column of each channel is multiplied by; None without channels.
        correlation: [K, K], distance correlation of the channels; None without channels.
    """

    graph: str
    split: str
    nodes: int
    of_nodes: int
    folds: int
    targets: tuple[Target, ...]
    mask: FloatArray | None
    correlation: FloatArray | None

    def target(self, name: str) -> Target:
        """One attribute by its name, or the label.

        Raises:
            DataError: There is no such target.
        """
        found = next((target for target in self.targets if target.name == name), None)
        if found is None:
            known = ", ".join(target.name for target in self.targets)
            raise DataError(f"'{name}' was not probed for; expected one of: {known}.")
        return found

    def sentences(self) -> list[str]:
        """In plain language, for each target: where it can be read best, and what the mask changes."""
        return [_sentence(target) for target in self.targets]

    def tables(self) -> list[Table]:
        """For each target where it can be read, then the mask and the correlation of the channels."""
        looked = f"{self.nodes} nodes of split {self.split}"
        looked += f", drawn from {self.of_nodes}" if self.nodes < self.of_nodes else ""
        tables = [_target_table(target, f"{looked}, {self.folds} folds") for target in self.targets]
        if self.mask is not None and self.correlation is not None:
            names = _channel_names(self.mask)
            columns = tuple(f"column {number + 1}" for number in range(self.mask.shape[1]))
            masked = [
                (name, show_number(row.mean()), *map(show_number, row))
                for name, row in zip(names, self.mask, strict=True)
            ]
            related = [(name, *map(show_number, row)) for name, row in zip(names, self.correlation, strict=True)]
            tables.append(Table("Mask", ("channel", "mean", *columns), tuple(masked), "What each column keeps."))
            note = "Between channels, before the mask: 0 where they are independent, or one of them is constant."
            tables.append(Table("Distance correlation", ("channel", *names), tuple(related), note))
        return tables

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "schema": SCHEMA,
            "graph": self.graph,
            "split": self.split,
            "nodes": self.nodes,
            "of_nodes": self.of_nodes,
            "folds": self.folds,
            "sentences": self.sentences(),
            "targets": {target.name: target.to_dict() for target in self.targets},
            "mask": None if self.mask is None else self.mask.tolist(),
            "distance_correlation": None
            if self.correlation is None
            else [[_number(value) for value in row] for row in self.correlation.tolist()],
        }

    def to_markdown(self) -> str:
        """Sentences first, then every table."""
        listed = "\n".join(f"- {sentence}" for sentence in self.sentences())
        return "\n\n".join(["## Probe", listed, *(table.to_markdown() for table in self.tables())]) + "\n"


def probe(
    model: Embeds,
    graph: FairGraph,
    *,
    split: str = "test",
    folds: int = 5,
    seed: int = 0,
    max_nodes: int = MAX_NODES,
) -> Probe:
    """Find out where the sensitive attributes, and the label, can be read in a model's representation.

    The module's text says how they are read. Nodes whose value of an attribute is unknown are left out for it and
    counted; so are values that fewer nodes have than there are folds.

    Args:
        model: A fitted method. One with ``channels(graph)``, such as FairSAD, is probed channel by channel, before
            and after its mask.
        graph: The graph to look at.
        split: Nodes to look at: ``"train"``, ``"val"``, ``"test"``, or ``"all"`` labelled ones.
        folds: Folds of the cross-validation.
        seed: Seed of the folds, the noise and the sample.
        max_nodes: Of more nodes than this, so many are drawn.

    Raises:
        DataError: If there are fewer than two folds.
        ProtocolError: If there are no nodes in the split.
    """
    if folds < 2:
        raise DataError(f"folds = {folds}; expected at least 2, so that something is left out. Pass folds=5.")
    in_split = np.flatnonzero(graph.mask(split).cpu().numpy())
    if not len(in_split):
        raise ProtocolError(f"graph {graph.name!r} has no nodes in split {split!r}. Choose another split.")
    generator = np.random.default_rng(seed)
    nodes = in_split
    if len(nodes) > max_nodes:
        nodes = np.sort(generator.choice(nodes, max_nodes, replace=False))
    places: dict[str, Views] = {
        FEATURES: [[graph.x.cpu().numpy()[nodes].astype(np.float64)]],
        EMBEDDING: [[np.asarray(model.embed(graph), dtype=np.float64)[nodes]]],
    }
    mask = correlation = None
    if isinstance(model, HasChannels):
        channels, mask, correlation = _channels(model, graph, nodes)
        places |= dict(_channel_places(channels, mask, generator))
    places = {
        name: [[_standardised(columns) for columns in draws] for draws in views] for name, views in places.items()
    }

    sensitive = graph.sensitive.cpu().numpy()[nodes]
    codes = [
        (name, True, sensitive[:, number], graph.sensitive_values[number])
        for number, name in enumerate(graph.sensitive_names)
    ]
    codes.append(("label", False, graph.y.cpu().numpy()[nodes], graph.label_names))
    targets = tuple(_look_for(*target, places, folds, seed) for target in codes)
    return Probe(graph.name, split, len(nodes), len(in_split), folds, targets, mask, correlation)


def _channels(model: HasChannels, graph: FairGraph, nodes: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Channels [nodes, K, q] before the mask, the mask, and the channels' distance correlation."""
    import torch  # whoever has a model has torch

    from fairsad.losses.distance_correlation import distance_correlation_matrix

    every, mask = model.channels(graph)
    chosen = every.detach().cpu()[torch.from_numpy(nodes)]
    correlation = distance_correlation_matrix(chosen).cpu().numpy().astype(np.float64)
    return chosen.numpy().astype(np.float64), mask.detach().cpu().numpy().astype(np.float64), correlation


def _channel_places(
    channels: FloatArray, mask: FloatArray, generator: np.random.Generator
) -> Iterator[tuple[str, Views]]:
    """Each channel, and all of them: exact, blurred, and blurred after the mask."""
    typical = float(np.sqrt(channels.var(axis=0).mean()))
    draws = max(1, min(MAX_DRAWS, MAX_NODES // len(channels)))
    noise = typical * generator.standard_normal((draws, *channels.shape))
    before, after = channels + noise, channels * mask + noise
    for number, name in enumerate(_channel_names(mask)):
        yield name, [[channels[:, number]], list(before[:, :, number]), list(after[:, :, number])]
    wide = (draws, len(channels), -1)
    yield ALL_CHANNELS, [[channels.reshape(wide[1:])], list(before.reshape(wide)), list(after.reshape(wide))]


def _channel_names(mask: FloatArray) -> list[str]:
    return [f"channel {number + 1}" for number in range(len(mask))]


def _look_for(
    name: str,
    sensitive: bool,
    codes: IntArray,
    value_names: Sequence[str],
    columns: Mapping[str, Views],
    folds: int,
    seed: int,
) -> Target:
    known, counts = np.unique(codes[codes >= 0], return_counts=True)
    values = known[counts >= folds]
    unknown = int((codes < 0).sum())
    few = [f"{value_names[value]} ({count})" for value, count in zip(known, counts, strict=True) if count < folds]
    reason = f"fewer than {folds} nodes, one for each fold, have the value: {', '.join(few)}" if few else ""
    nodes = {value_names[value]: int(count) for value, count in zip(known, counts, strict=True) if count >= folds}
    if len(values) < 2:
        reason = "; ".join(filter(None, (f"fewer than two values with at least {folds} nodes each", reason)))
        places = [Place(place, *(Reading.of(()) for _ in views)) for place, views in columns.items()]
    else:
        rows = np.flatnonzero(np.isin(codes, values))
        fold = _stratified_folds(codes[rows], folds, seed)
        is_value = codes[rows, None] == (values[1:] if len(values) == 2 else values)

        def read(draws: Sequence[FloatArray]) -> Reading:
            return Reading.of(np.mean([_fold_aucs(draw[rows], is_value, fold) for draw in draws], axis=0).tolist())

        places = [Place(place, *map(read, views)) for place, views in columns.items()]
    return Target(name, sensitive, nodes, unknown, reason, tuple(places))


def _stratified_folds(codes: IntArray, folds: int, seed: int) -> IntArray:
    """Fold of each node: each value's nodes in random order, dealt out like cards."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(codes), dtype=np.int64)
    fold[order] = np.arange(len(codes)) % folds
    return fold


def _fold_aucs(columns: FloatArray, is_value: npt.NDArray[np.bool_], fold: IntArray) -> list[float]:
    """For each fold the AUC, averaged over the values, of the discriminant that the other folds give."""
    aucs = []
    for number in range(int(fold.max()) + 1):
        held = fold == number
        scores = _scores(columns, is_value, held)
        aucs.append(np.mean([auc(known, score) for known, score in zip(is_value[held].T, scores.T, strict=True)]))
    return [float(value) for value in aucs]


def _scores(columns: FloatArray, is_value: npt.NDArray[np.bool_], held: npt.NDArray[np.bool_]) -> FloatArray:
    """Least-squares scores [held nodes, values] of the held nodes, learnt on the others."""
    learnt, known = columns[~held], is_value[~held].astype(np.float64)
    rows, width = learnt.shape
    learnt = learnt - learnt.mean(axis=0)
    products = learnt.T @ learnt / rows + width / rows * np.eye(width)
    scores: FloatArray = columns[held] @ np.linalg.solve(products, learnt.T @ (known - known.mean(axis=0)) / rows)
    return scores


def _standardised(columns: FloatArray) -> FloatArray:
    """Columns with mean 0 and variance 1 over all nodes (no label is looked at); a constant one is 0."""
    columns = columns - columns.mean(axis=0)
    spread = columns.std(axis=0)
    return columns / np.where(spread > 0, spread, 1.0)


def _sentence(target: Target) -> str:
    what = target.name if target.sensitive else "the label"
    if not target.readable:
        return f"Where {what} can be read is not known: {target.reason}."
    read = ", ".join(f"{_auc(target.place(name).exact)} from the {name}" for name in (FEATURES, EMBEDDING))
    text = f"{what[0].upper()}{what[1:]} can be read with AUC {read}."
    # Of equal channels the first, so that the sentence does not depend on rounding in the last digit.
    best = max(target.channels, key=lambda place: round(place.exact.auc, 3), default=None)
    if best is None or best.before is None or best.after is None:
        return text
    if round(best.exact.auc, 3) <= 0.5:
        return f"{text} From no channel can it be read better than by chance."
    less = round(best.before.auc, 3) - round(best.after.auc, 3)
    change = f"{less:.3f} less" if less > 0 else f"{-less:.3f} more" if less < 0 else "no less"
    return (
        f"{text} {best.name.capitalize()} tells most of it ({_auc(best.exact)}); to a blurred reader "
        f"{_auc(best.before)} before the mask and {_auc(best.after)} after it, {change}."
    )


def _target_table(target: Target, looked: str) -> Table:
    channels = bool(target.channels)
    rows = tuple(
        (
            place.name,
            _with_std(place.exact),
            *((_with_std(place.before), _with_std(place.after)) if channels else ()),
        )
        for place in target.places
    )
    blurred = ("blurred, before the mask", "blurred, after the mask") if channels else ()
    notes = [f"AUC, mean ± std over folds, 0.5 is chance; {looked}"]
    notes += [f"{target.unknown} nodes of unknown value left out"] if target.unknown else []
    notes += [target.reason] if target.reason else []
    title = f"Where {target.name if target.sensitive else 'the label'} can be read"
    return Table(title, ("read from", "exact", *blurred), rows, ". ".join(notes) + ".")


def _with_std(reading: Reading | None) -> str:
    if reading is None or np.isnan(reading.auc):
        return show_number(float("nan"))
    return f"{reading.auc:.3f} ± {reading.std:.3f}"


def _auc(reading: Reading) -> str:
    return f"{reading.auc:.3f}"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
