"""Generated graphs with a planted bias: every amount is a parameter, and holds in the graph that comes out."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsad.data.card import check_keys
from fairsad.data.splits import split_fractions, split_labelled
from fairsad.errors import DataError
from fairsad.graph import FairGraph

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

USUAL_LABEL_HOMOPHILY = 0.3


@dataclass(frozen=True)
class SyntheticSpec:
    r"""What a generated graph is like.

    Groups are of equal size. A node of group :math:`g` of :math:`G` has the last of :math:`C` classes with
    probability :math:`1/C + b\,(g/(G-1) - 1/2)` and the other classes with equal shares of the rest, where
    :math:`b` is the bias: the base rates of the last class in the first and the last group differ by :math:`b`. The
    counts are exact, up to rounding to whole nodes.

    A link starts at a node drawn uniformly. Its other end has the same group with probability :math:`h` and any group
    otherwise, and within that group the same class with a probability chosen so that the wanted label homophily comes
    out. Both homophilies are assortativity coefficients, (share of links within − chance) / (1 − chance): 0 where
    links ignore the groups, 1 where all links stay within them. Links are distinct, so in graphs that are nearly full
    the homophilies come out lower.

    Attributes:
        nodes: Number of nodes.
        degree: Mean number of neighbours of a node; 10 where neither it nor ``edges`` is given.
        edges: Exact number of links, in place of ``degree``.
        features: Number of features. First come the columns that hold the group (one, or one per group of more
            than two); of the rest a quarter carries the label, a quarter stands in for the group, and the
            remainder is noise.
        bias: Difference of base rates between the first and the last group, in (-2/classes, 2/classes).
        homophily: Assortativity of links by group, from 0 to 1.
        label_homophily: Assortativity of links by label. Where left out 0.3, or what bias and homophily imply
            where that is more.
        groups: Number of values of the sensitive attribute.
        classes: Number of classes.
        signal: How far apart the means of neighbouring classes are, in standard deviations, over all features that
            carry the label together: with two classes these features alone reach an AUC of Φ(signal / √2).
        proxy: The same for groups and the features that stand in for them.
        train: Share of nodes that train (a quarter validates and the rest tests, within each class), or, where it is
            1 or more, the number of training nodes (half of all at most; a quarter validates, a quarter tests).
        seed: Of everything that is drawn.
    """

    nodes: int = 1000
    degree: float | None = None
    edges: int | None = None
    features: int = 16
    bias: float = 0.3
    homophily: float = 0.3
    label_homophily: float | None = None
    groups: int = 2
    classes: int = 2
    signal: float = 1.5
    proxy: float = 1.5
    train: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("groups", 2), ("classes", 2), ("nodes", 2), ("seed", 0)):
            value = getattr(self, name)
            if not _is_whole(value) or value < least:
                raise DataError(f"synthetic {name} = {value!r}; expected a whole number, at least {least}.")
        _check_range("bias", self.bias, -2 / self.classes, 2 / self.classes)
        _check_range("homophily", self.homophily, 0, 1)
        if self.label_homophily is not None:
            _check_range("label_homophily", self.label_homophily, 0, 1)
        _check_range("signal", self.signal, 0, math.inf)
        _check_range("proxy", self.proxy, 0, math.inf)
        least = self.num_group_columns + 3
        if not _is_whole(self.features) or self.features < least:
            raise DataError(
                f"synthetic features = {self.features!r}; expected a whole number, at least {least}: "
                f"{self.num_group_columns} for the group, one for the label, one proxy, one of noise."
            )
        self._check_links()
        self._check_train()

    @property
    def num_group_columns(self) -> int:
        """How many columns of ``x`` hold the group."""
        return 1 if self.groups == 2 else self.groups

    @property
    def num_edges(self) -> int:
        """How many links there are."""
        if self.edges is not None:
            return self.edges
        return round(self.nodes * (10.0 if self.degree is None else self.degree) / 2)

    @property
    def name(self) -> str:
        """The settings that differ from the usual ones, as the command line takes them."""
        given = (
            f"{part.name}={_brief(getattr(self, part.name))}"
            for part in fields(self)
            if part.name == "nodes" or getattr(self, part.name) != part.default
        )
        return f"synthetic:{','.join(given)}"

    def _check_links(self) -> None:
        if self.degree is not None and self.edges is not None:
            raise DataError("synthetic degree and edges are both given; expected one, they say the same. Remove one.")
        if self.degree is not None:
            _check_range("degree", self.degree, 0, math.inf)
        if self.edges is not None and (not _is_whole(self.edges) or self.edges < 0):
            raise DataError(f"synthetic edges = {self.edges!r}; expected a whole number, at least 0.")
        # Half of the pairs that remain when all links stay within group and class, so that distinct links are found.
        most = self.nodes / (2 * self.groups * self.classes)
        degree = 2 * self.num_edges / self.nodes
        if degree > most:
            raise DataError(
                f"synthetic graph with {self.nodes} nodes and {degree:g} neighbours each is too dense; expected a "
                f"degree of at most nodes / (2 · groups · classes) = {most:g}. Take more nodes or fewer links."
            )

    def _check_train(self) -> None:
        _check_range("train", self.train, 0, self.nodes // 2)
        if 0.75 <= self.train < 1 or self.train == 0 or (self.train >= 1 and self.train != int(self.train)):
            raise DataError(
                f"synthetic train = {self.train!r}; expected a share below 0.75 (a quarter validates), or a whole "
                "number of nodes."
            )


def parse_spec(settings: str) -> SyntheticSpec:
    """Read ``"nodes=10000,bias=0.3"``.

    Raises:
        DataError: A name that is not known, or a value that is no number or makes no graph.

    Example:
        >>> parse_spec("nodes=500,groups=3").groups
        3
    """
    known = {part.name: part.type for part in fields(SyntheticSpec)}
    values: dict[str, Any] = {}
    for setting in filter(None, settings.split(",")):
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise DataError(
                f"synthetic setting {setting!r} is not understood; expected name=number, such as nodes=1000."
            )
        check_keys([name], list(known), "synthetic")
        if name in values:
            raise DataError(f"synthetic {name} is given twice; give it once.")
        values[name] = _number(name, text, whole="float" not in str(known[name]))
    return SyntheticSpec(**values)


def from_spec(settings: str, *, split_seed: int | None = None) -> FairGraph:
    """Generate the graph that ``"nodes=10000,bias=0.3"`` describes; ``split_seed`` draws another split of it."""
    return generate(parse_spec(settings), split_seed=split_seed)


def generate(spec: SyntheticSpec, *, split_seed: int | None = None) -> FairGraph:
    """Generate a graph; the same settings make the same graph.

    Args:
        spec: What it is like.
        split_seed: Draws another split of the same graph.

    Raises:
        DataError: Settings that no graph can have together.

    Example:
        >>> generate(SyntheticSpec(nodes=400, seed=1)).num_nodes
        400
    """
    # A stream for each part: with more features the links stay the same.
    for_people, for_links, for_features = (
        np.random.default_rng(stream) for stream in np.random.SeedSequence(spec.seed).spawn(3)
    )
    group, y = _people(spec, for_people)
    seed = spec.seed if split_seed is None else split_seed
    split = (
        split_fractions(y, train=spec.train, val=0.25, seed=seed)
        if spec.train < 1
        else split_labelled(y, seed=seed, train_cap=int(spec.train))
    )
    x, feature_names = _features(spec, group, y, for_features)
    values = [f"group {number}" for number in range(spec.groups)]
    return FairGraph.build(
        x=x,
        edge_index=_links(spec, group, y, for_links),
        y=y,
        sensitive=group,
        sensitive_names=["group"],
        sensitive_values=[values],
        sensitive_columns=[range(spec.num_group_columns)],
        feature_names=feature_names,
        label_names=[f"class {number}" for number in range(spec.classes)],
        train_mask=split.train_mask,
        val_mask=split.val_mask,
        test_mask=split.test_mask,
        split_recipe=split.recipe,
        name=spec.name,
    )


def _people(spec: SyntheticSpec, chance: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Group and class of each node, in exact shares and random order."""
    group = np.arange(spec.nodes, dtype=np.int64) % spec.groups
    y = np.empty(spec.nodes, dtype=np.int64)
    for number in range(spec.groups):
        members = np.flatnonzero(group == number)
        last = 1 / spec.classes + spec.bias * (number / (spec.groups - 1) - 0.5)
        shares = np.full(spec.classes, (1 - last) / (spec.classes - 1))
        shares[-1] = last
        ends = np.rint(np.cumsum(shares) * members.size).astype(np.int64)
        sizes = np.diff(ends, prepend=0)
        if (sizes <= 0).any():
            raise DataError(
                f"synthetic bias = {spec.bias:g} leaves nobody of class {int(np.argmin(sizes))} in group {number} of "
                f"{members.size} nodes; expected someone of each class in each group. "
                "Take a smaller bias or more nodes."
            )
        y[members] = np.repeat(np.arange(spec.classes), sizes)
    order = chance.permutation(spec.nodes)
    return group[order], y[order]


def _features(
    spec: SyntheticSpec, group: IntArray, y: IntArray, chance: np.random.Generator
) -> tuple[npt.NDArray[np.float32], list[str]]:
    first = spec.num_group_columns
    carriers = max(1, (spec.features - first) // 4)
    x = chance.standard_normal((spec.nodes, spec.features), dtype=np.float32)
    x[:, :first] = group[:, None] if spec.groups == 2 else group[:, None] == np.arange(first)
    x[:, first : first + carriers] += _shift(y, spec.signal, carriers)
    x[:, first + carriers : first + 2 * carriers] += _shift(group, spec.proxy, carriers)
    names = ["group"] if spec.groups == 2 else [f"group=group {number}" for number in range(first)]
    names += [f"label_carrier_{number}" for number in range(carriers)]
    names += [f"group_proxy_{number}" for number in range(carriers)]
    names += [f"noise_{number}" for number in range(spec.features - first - 2 * carriers)]
    return x, names


def _shift(codes: IntArray, distance: float, num_columns: int) -> npt.NDArray[np.float32]:
    """Move each value's mean along the diagonal, so that the columns share the distance equally."""
    return (codes * distance / math.sqrt(num_columns)).astype(np.float32)[:, None]


def _links(spec: SyntheticSpec, group: IntArray, y: IntArray, chance: np.random.Generator) -> IntArray:
    """Distinct links between different nodes, each drawn as the class of the specification says."""
    cell = group * spec.classes + y
    by_cell = np.argsort(cell, kind="stable")
    cell_sizes = np.bincount(cell, minlength=spec.groups * spec.classes)
    cell_starts = np.cumsum(cell_sizes) - cell_sizes
    group_sizes, group_starts = np.bincount(group), cell_starts[:: spec.classes]
    same_class = _same_class_probability(spec, cell_sizes.reshape(spec.groups, spec.classes) / spec.nodes)

    def draw(size: int) -> IntArray:
        source = chance.integers(spec.nodes, size=size)
        stays = chance.random(size) < spec.homophily
        other = np.where(stays, group[source], group[chance.integers(spec.nodes, size=size)])
        copies = chance.random(size) < same_class
        of_class = other * spec.classes + y[source]
        starts = np.where(copies, cell_starts[of_class], group_starts[other])
        sizes = np.where(copies, cell_sizes[of_class], group_sizes[other])
        target = by_cell[starts + (chance.random(size) * sizes).astype(np.int64)]
        drawn = np.minimum(source, target) * spec.nodes + np.maximum(source, target)
        distinct: IntArray = drawn[source != target]
        return distinct

    keys = np.empty(0, dtype=np.int64)
    while (lacking := spec.num_edges - keys.size) > 0:
        # A few more than lack, since some repeat; in parts, so that memory stays close to that of the links.
        full_parts, rest = divmod(lacking + lacking // 50 + 16, _LINKS_AT_ONCE)
        keys = np.concatenate([keys, *map(draw, [_LINKS_AT_ONCE] * full_parts + [rest])])
        keys.sort()  # np.unique goes through a hash table, which is many times slower here
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    if keys.size > spec.num_edges:
        keys = keys[chance.choice(keys.size, spec.num_edges, replace=False, shuffle=False)]
    return np.stack(np.divmod(keys, spec.nodes))


_LINKS_AT_ONCE = 1 << 18


def _same_class_probability(spec: SyntheticSpec, shares: FloatArray) -> float:
    """How often a link's other end must copy the class, beyond chance, for the wanted label homophily.

    Links by group alone join equal classes with probability ``by_group``, and copying with probability l makes it
    l + (1 - l) · by_group; neither changes how often a class is met, so chance is the sum of squared class shares.
    """
    group_shares = shares.sum(axis=1)
    within = shares / group_shares[:, None]
    meets = spec.homophily * np.diag(group_shares) + (1 - spec.homophily) * np.outer(group_shares, group_shares)
    by_group = float((meets * (within @ within.T)).sum())
    by_chance = float(np.square(shares.sum(axis=0)).sum())
    implied = (by_group - by_chance) / (1 - by_chance)
    wanted = max(USUAL_LABEL_HOMOPHILY, implied) if spec.label_homophily is None else spec.label_homophily
    if wanted < implied - 1e-9:
        raise DataError(
            f"synthetic label_homophily = {wanted:g} is too low: bias {spec.bias:g} and homophily {spec.homophily:g} "
            f"alone make it {implied:.4g}. Raise it, or lower one of these."
        )
    return max(0.0, by_chance + wanted * (1 - by_chance) - by_group) / (1 - by_group)


def _number(name: str, text: str, *, whole: bool) -> float | int:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        kind = "whole number" if whole else "number"
        raise DataError(f"synthetic {name} = {text!r} is not a {kind}; expected one, such as {name}=1.") from None


def _check_range(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or math.isinf(value):
        upper = "" if math.isinf(high) else f" and at most {high:g}"
        raise DataError(f"synthetic {name} = {value!r}; expected a number, at least {low:g}{upper}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _brief(value: float | int) -> str:
    return f"{value:.12g}"
