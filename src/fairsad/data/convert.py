"""Graphs that already are graphs: from NetworkX, PyG and SciPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from torch import Tensor

from fairsad.data.card import ColumnRoles, SplitRule
from fairsad.data.columns import Table
from fairsad.data.encoding import TableEncoding
from fairsad.data.splits import split_fractions
from fairsad.data.tables import build_graph
from fairsad.errors import DataError
from fairsad.graph import SPLITS, FairGraph
from fairsad.groups import UNKNOWN

IntArray = npt.NDArray[np.int64]


def from_networkx(
    graph: Any,
    *,
    label: str,
    sensitive: str | Sequence[str],
    features: Sequence[str] | None = None,
    encoding: Mapping[str, Any] | None = None,
    name: str = "graph",
    **roles: Any,
) -> FairGraph:
    """Build a graph from a NetworkX graph whose node attributes are treated as the columns of a table are.

    Nodes keep their order; ``node_ids`` holds their names. Directions, weights and repeated edges are dropped.

    Args:
        graph: Any kind of NetworkX graph.
        label: The node attribute to predict.
        sensitive: The node attribute, or attributes, that say which group a node belongs to.
        features: The node attributes to take as features; all the others where left out.
        encoding: Of an earlier graph, as in :func:`fairsad.data.tables.load_card`.
        name: What the graph is called.
        **roles: Other settings of :class:`fairsad.data.card.ColumnRoles`, such as ``categorical`` or ``split``.

    Raises:
        DataError: An attribute that is missing or cannot be encoded.

    Example:
        >>> import networkx as nx
        >>> people = nx.karate_club_graph()
        >>> for node, facts in people.nodes(data=True):
        ...     facts.update(age=20 + node, sex="fm"[node % 2])
        >>> graph = from_networkx(people, label="club", sensitive="sex")
        >>> graph.num_nodes, graph.label_names, graph.feature_names
        (34, ('Mr. Hi', 'Officer'), ('age',))
    """
    nodes = list(graph.nodes)
    if not nodes:
        raise DataError("the NetworkX graph has no nodes; expected at least one.")
    attributes = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    columns = list(dict.fromkeys(key for _, facts in graph.nodes(data=True) for key in facts))
    if features is not None:
        absent = next((feature for feature in features if feature not in columns), None)
        if absent is not None:
            raise DataError(
                f"no node has the attribute {absent!r}, named as a feature; there are "
                f"{', '.join(map(str, columns))}. Correct the name."
            )
        columns = [key for key in columns if key in {*features, label, *attributes}]
    table = pa.table({str(key): _attribute(graph, key) for key in columns})
    position = {node: index for index, node in enumerate(nodes)}
    ends = [position[node] for edge in graph.edges() for node in edge]
    return build_graph(
        Table(table, "node attributes"),
        np.array(ends, dtype=np.int64).reshape(-1, 2).T,
        roles=ColumnRoles(label=label, sensitive=attributes, **roles),
        encoding=None if encoding is None else TableEncoding.from_dict(encoding),
        node_ids=_names(nodes),
        name=name,
    )


def from_pyg(
    data: Any,
    *,
    sensitive: Any,
    sensitive_names: Sequence[str] = ("sensitive",),
    split: SplitRule | None = None,
    **facts: Any,
) -> FairGraph:
    """Build a graph from a PyG ``Data``: its ``x``, ``edge_index``, ``y``, and its masks where it has any.

    Args:
        data: With ``x``, ``edge_index`` and ``y`` (-1 where unlabelled). Masks ``train_mask``, ``val_mask`` and
            ``test_mask`` are kept; where there is none of them a split is made.
        sensitive: Value of the attribute of each node, [n] or [n, a], -1 where unknown; or the name of the
            entry of ``data`` that holds it.
        sensitive_names: Name of each attribute.
        split: How to split where there are no masks.
        **facts: Other arguments of :meth:`fairsad.graph.FairGraph.build`. PyG does not record what the columns of
            ``x`` are: ``sensitive_columns`` says which of them hold a sensitive attribute. Without it, and without
            ``feature_names`` in which the attribute occurs, the graph declares that none does.

    Raises:
        DataError: Something is missing, or not as ``FairGraph`` expects it.
    """
    for key in ("x", "edge_index", "y", *([sensitive] if isinstance(sensitive, str) else [])):
        if data.get(key) is None:
            raise DataError(
                f"the PyG data has no {key!r}; it has {', '.join(sorted(data.keys()))}. Add it to the data."
            )
    masks = {key: data.get(key) for key in _MASKS}
    for key, mask in masks.items():
        if mask is not None and mask.dim() != 1:
            raise DataError(
                f"{key} has shape {tuple(mask.shape)}; expected one mask, [nodes]. "
                "Choose one of the splits, such as data.train_mask = data.train_mask[:, 0]."
            )
    return _from_arrays(
        x=data.x,
        edge_index=data.edge_index,
        y=data.y,
        sensitive=data[sensitive] if isinstance(sensitive, str) else sensitive,
        sensitive_names=sensitive_names,
        split=split,
        **masks,
        **facts,
    )


def from_scipy(
    adjacency: Any,
    x: Any,
    y: Any,
    sensitive: Any,
    *,
    sensitive_names: Sequence[str] = ("sensitive",),
    split: SplitRule | None = None,
    **facts: Any,
) -> FairGraph:
    """Build a graph from a SciPy sparse adjacency matrix and arrays.

    Args:
        adjacency: [n, n], any sparse format; every entry that is not zero is a link, in either direction.
        x: [n, d] features, dense or sparse.
        y: [n] class numbers, -1 where unlabelled.
        sensitive: [n] or [n, a] value numbers, -1 where unknown.
        sensitive_names: Name of each attribute.
        split: How to split where ``facts`` has no masks.
        **facts: Other arguments of :meth:`fairsad.graph.FairGraph.build`, such as ``train_mask``,
            ``feature_names`` or ``node_ids``.

    Raises:
        DataError: Arrays that do not belong together.

    Example:
        >>> import numpy as np, scipy.sparse as sp
        >>> ring = sp.coo_array((np.ones(8), (np.arange(8), (np.arange(8) + 1) % 8)), shape=(8, 8))
        >>> graph = from_scipy(ring, np.eye(8), y=[0, 1] * 4, sensitive=[0, 0, 1, 1] * 2)
        >>> graph.num_nodes, graph.num_edges
        (8, 16)
    """
    entries = adjacency.tocoo()
    num_nodes = int(np.shape(x)[0])
    if entries.shape != (num_nodes, num_nodes):
        raise DataError(
            f"the adjacency matrix has shape {entries.shape}; expected ({num_nodes}, {num_nodes}), "
            "one row and one column per row of x."
        )
    links = entries.data != 0
    return _from_arrays(
        x=x.toarray() if hasattr(x, "toarray") else x,
        edge_index=np.stack([entries.row[links], entries.col[links]]).astype(np.int64),
        y=y,
        sensitive=sensitive,
        sensitive_names=sensitive_names,
        split=split,
        **facts,
    )


_MASKS = tuple(f"{part}_mask" for part in SPLITS)


def _from_arrays(*, y: Any, split: SplitRule | None, **facts: Any) -> FairGraph:
    labels = _flat(y)
    if any(facts.get(key) is not None for key in _MASKS):
        if split is not None:
            raise DataError("both masks and a split rule are given; expected one of them to say which nodes train.")
        return FairGraph.build(y=labels, **{"split_recipe": "masks as given", **facts})
    rule = split or SplitRule()
    if rule.column is not None:
        raise DataError(f"split column {rule.column!r} has no table to stand in; give masks instead.")
    made = split_fractions(labels, train=rule.train, val=rule.val, seed=rule.seed)
    masks = {key: getattr(made, key) for key in _MASKS}
    return FairGraph.build(y=labels, **{**facts, **masks, "split_recipe": made.recipe})


def _flat(y: Any) -> IntArray:
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "biuf" or not (labels == np.rint(labels)).all():
        raise DataError(
            f"y has shape {labels.shape} and type {labels.dtype}; expected one class number per node, "
            f"{UNKNOWN} where unlabelled."
        )
    return labels.astype(np.int64)


def _attribute(graph: Any, key: Any) -> Any:
    try:
        return pa.array([facts.get(key) for _, facts in graph.nodes(data=True)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"node attribute {key!r} mixes kinds of values ({error}). Make it all numbers or all text."
        ) from None


def _names(nodes: Sequence[Any]) -> npt.NDArray[Any]:
    """Whole numbers as they are, everything else by its text."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        return np.array(nodes, dtype=np.int64)
    return np.array([str(node) for node in nodes], dtype=object)
