"""A user's own tables become a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairsad.data.card import ColumnRoles, SplitRule, read_card
from fairsad.data.columns import (
    UNSEEN,
    IntArray,
    Table,
    as_table,
    read_table,
    require_columns,
)
from fairsad.data.encoding import Attribute, Features, TableEncoding, fit_attribute, fit_features, fit_label
from fairsad.data.ids import check_unique, number_nodes, read_ids
from fairsad.data.splits import Split, split_fractions
from fairsad.errors import DataError
from fairsad.graph import SPLITS, FairGraph
from fairsad.groups import UNKNOWN


def load_card(
    path: str | os.PathLike[str], *, encoding: Mapping[str, Any] | None = None, split_seed: int | None = None
) -> FairGraph:
    """Read the graph that a graph card describes.

    Args:
        path: The card, a TOML file.
        encoding: Of an earlier graph (``FairGraph.encoding``): the new tables are encoded as that graph's were,
            and may lack the label and the sensitive columns. Without it, the encoding is learnt from the
            training nodes.
        split_seed: Another split than the card's by the same recipe.

    Raises:
        DataError: Anything in the card or the tables that is not as expected, with file, column and row.
    """
    card = read_card(path)
    nodes = read_table(card.nodes, separator=card.separator, decimal=card.decimal)
    edges = None if card.edges is None else _read_edges(card.edges, card.separator, card.roles)
    return _graph_from_tables(nodes, edges, card.roles, encoding, split_seed, card.name)


def from_frames(
    nodes: Any,
    edges: Any = None,
    *,
    roles: ColumnRoles,
    encoding: Mapping[str, Any] | None = None,
    split_seed: int | None = None,
    name: str = "graph",
) -> FairGraph:
    """Build a graph from pandas frames, as :func:`load_card` does from files.

    Args:
        nodes: One row per node.
        edges: One row per link; left out where ``roles.similarity`` makes the links.
        roles: What the columns mean.
        encoding: As in :func:`load_card`.
        split_seed: As in :func:`load_card`.
        name: What the graph is called.

    Raises:
        DataError: Anything in the frames that is not as expected.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"id": range(8), "age": [20, 30] * 4, "sex": list("ffmmffmm"), "repaid": [0, 1] * 4})
        >>> links = pd.DataFrame({"from": [0, 1, 2], "to": [1, 2, 3]})
        >>> graph = from_frames(people, links, roles=ColumnRoles(id="id", label="repaid", sensitive=("sex",)))
        >>> graph.feature_names, graph.num_edges
        (('age',), 6)
    """
    if (edges is None) == (roles.similarity is None):
        raise DataError(
            f"{'neither' if edges is None else 'both'} an edge frame and roles.similarity; "
            "expected one of them to say what the links are."
        )
    links = None if edges is None else as_table(edges, "edge frame")
    if links is not None:
        chosen = _edge_columns(links.names, roles.edge_columns, links.source)
        links = Table(links.data.select(list(chosen)), links.source)
    return _graph_from_tables(as_table(nodes, "node frame"), links, roles, encoding, split_seed, name)


def _graph_from_tables(
    nodes: Table,
    edges: Table | None,
    roles: ColumnRoles,
    encoding: Mapping[str, Any] | None,
    split_seed: int | None,
    name: str,
) -> FairGraph:
    if not len(nodes):
        raise DataError(f"{nodes.source} has a header but no rows; expected one row per node.")
    ids = None
    if roles.id is not None:
        nodes.require([roles.id], "id")
        ids = read_ids(nodes, roles.id)
        check_unique(ids, nodes, roles.id)
    edge_index = None
    if edges is not None:
        if ids is None:
            raise DataError("edges refer to ids, and no id column is named; name the id column.")
        ends = [number_nodes(read_ids(edges, end), edges, end, ids, nodes.source) for end in edges.names]
        edge_index = np.stack(ends)
    return build_graph(
        nodes,
        edge_index,
        roles=roles,
        encoding=None if encoding is None else TableEncoding.from_dict(encoding),
        split_seed=split_seed,
        node_ids=None if ids is None else _as_numpy(ids),
        name=name,
    )


def build_graph(
    nodes: Table,
    edge_index: IntArray | None,
    *,
    roles: ColumnRoles,
    encoding: TableEncoding | None = None,
    split_seed: int | None = None,
    node_ids: Any = None,
    name: str = "graph",
) -> FairGraph:
    """Build a graph from a node table whose links are already numbered by row; ``None`` makes them by similarity.

    Raises:
        DataError: Anything in the table that is not as expected.
    """
    if encoding is None:
        _require_roles(nodes, roles)
        label_values = fit_label(nodes.column(str(roles.label)), roles.positive)
        attributes = tuple(
            fit_attribute(nodes.column(name), cuts=roles.bins.get(name, ()), categorical=name in roles.categorical)
            for name in roles.sensitive
        )
    else:
        _refuse_new_attributes(encoding, roles)
        label_values, attributes = encoding.label_values, encoding.attributes
    y = _labels(nodes, roles.label, label_values, optional=encoding is not None)
    split = _split(nodes, roles.split, y, split_seed, fitting=encoding is None)
    learnt = encoding or TableEncoding(
        features=fit_features(
            nodes,
            _feature_columns(nodes, roles),
            split.train_mask,
            categorical=roles.categorical,
            attributes=attributes,
            missing=roles.missing,
        ),
        label_values=label_values,
        attributes=attributes,
        missing=roles.missing,
    )
    x = learnt.encode(nodes)
    return FairGraph.build(
        x=x,
        edge_index=_similarity_edges(x, learnt, roles, nodes.source) if edge_index is None else edge_index,
        y=y,
        sensitive=np.stack([_groups(nodes, attribute) for attribute in attributes], axis=1),
        sensitive_names=[attribute.name for attribute in attributes],
        sensitive_values=[attribute.values for attribute in attributes],
        sensitive_columns=[learnt.features_from(attribute.name) for attribute in attributes],
        feature_names=learnt.feature_names,
        label_names=label_values,
        train_mask=split.train_mask,
        val_mask=split.val_mask,
        test_mask=split.test_mask,
        split_recipe=split.recipe,
        node_ids=node_ids,
        encoding=learnt.to_dict(),
        name=name,
    )


def _read_edges(path: Path, separator: str, roles: ColumnRoles) -> Table:
    return read_table(
        path, separator=separator, choose=lambda names: _edge_columns(names, roles.edge_columns, path.name)
    )


def _edge_columns(names: list[str], wanted: tuple[str, str] | None, source: str) -> tuple[str, str]:
    if wanted is not None:
        require_columns(names, wanted, source, "edge_columns")
        return wanted
    if len(names) < 2:
        raise DataError(
            f"{source} has one column, {names[0]!r}; expected two, the ids of the two nodes that each row links."
        )
    return names[0], names[1]


def _require_roles(nodes: Table, roles: ColumnRoles) -> None:
    if roles.label is None:
        raise DataError(
            f"no label is named for {nodes.source}; name the column to predict, its columns are "
            f"{', '.join(nodes.names)}."
        )
    if not roles.sensitive:
        raise DataError(
            f"no sensitive attribute is named for {nodes.source}; name at least one, its columns are "
            f"{', '.join(nodes.names)}."
        )
    nodes.require([roles.label], "label")
    nodes.require(roles.sensitive, "sensitive")
    nodes.require(roles.drop, "drop")
    nodes.require(roles.categorical, "categorical")


def _refuse_new_attributes(encoding: TableEncoding, roles: ColumnRoles) -> None:
    known = [attribute.name for attribute in encoding.attributes]
    new = [name for name in roles.sensitive if name not in known]
    if new:
        raise DataError(
            f"sensitive attribute {new[0]!r} is not among those of the training data, {', '.join(known)}. "
            "Take it out of sensitive, or train on data that have it."
        )


def _feature_columns(nodes: Table, roles: ColumnRoles) -> list[str]:
    apart = {roles.id, roles.label, roles.split.column, *roles.drop}
    if not roles.sensitive_in_features:
        apart |= set(roles.sensitive)
    columns = [name for name in nodes.names if name not in apart]
    if not columns:
        raise DataError(
            f"{nodes.source} has no column left to be a feature: all of {', '.join(nodes.names)} have another role. "
            "Add columns, or drop fewer."
        )
    return columns


def _labels(nodes: Table, label: str | None, values: Sequence[str], *, optional: bool) -> IntArray:
    if label is None or (optional and label not in nodes.names):
        return np.full(len(nodes), UNKNOWN, dtype=np.int64)
    column = nodes.column(label)
    y = column.codes_in(values)
    new = y == UNSEEN
    if new.any():
        word = column.words[1][column.words[0][int(np.argmax(new))]]
        raise DataError(
            f"{column} has the label {word!r} in {column.first(new)}, which the training data did not have; "
            f"expected {', '.join(values)}, or nothing. Correct it or leave it empty."
        )
    return y


def _groups(nodes: Table, attribute: Attribute) -> IntArray:
    if attribute.name in nodes.names:
        return attribute.encode(nodes.column(attribute.name))
    return np.full(len(nodes), UNKNOWN, dtype=np.int64)


def _split(nodes: Table, rule: SplitRule, y: IntArray, split_seed: int | None, *, fitting: bool) -> Split:
    if (y == UNKNOWN).all():
        nobody = np.zeros(len(y), dtype=bool)
        return Split(nobody, nobody, nobody, "no labels, hence no split")
    if rule.column is not None:
        if split_seed is not None:
            raise DataError(
                f"split_seed = {split_seed} asks for another split, but column {rule.column!r} of {nodes.source} fixes "
                "it; use train, val and seed in place of the column."
            )
        return _split_by_column(nodes, rule.column, y, fitting=fitting)
    try:
        return split_fractions(y, train=rule.train, val=rule.val, seed=rule.seed if split_seed is None else split_seed)
    except DataError as error:
        raise DataError(f"{nodes.source}: {error}") from None


def _split_by_column(nodes: Table, name: str, y: IntArray, *, fitting: bool) -> Split:
    nodes.require([name], "split column")
    column = nodes.column(name)
    part = column.codes_in(SPLITS)
    other = part == UNSEEN
    if other.any():
        word = column.words[1][column.words[0][int(np.argmax(other))]]
        raise DataError(
            f"{column} says {word!r} in {column.first(other)}; expected train, val, test, or nothing. Correct it."
        )
    unlabelled = (part >= 0) & (y == UNKNOWN)
    if unlabelled.any():
        raise DataError(
            f"{column} puts {column.rows(unlabelled)} into a part of the split, without a label. "
            "Leave the column empty there."
        )
    masks = [part == index for index in range(len(SPLITS))]
    if fitting:
        empty = next((split for split, mask in zip(SPLITS, masks, strict=True) if not mask.any()), None)
        if empty is not None:
            raise DataError(
                f"{column} puts no row into {empty!r}; expected rows with each of train, val and test. Add some."
            )
    return Split(masks[0], masks[1], masks[2], f"column {name!r} of {nodes.source}")


def _similarity_edges(x: Features, encoding: TableEncoding, roles: ColumnRoles, source: str) -> IntArray:
    from fairsad.data.similarity import similarity_edges

    rule = roles.similarity
    if rule is None:
        raise DataError(f"nothing says how the nodes of {source} are linked; name an edge table or a similarity.")
    if rule.columns is None:
        return similarity_edges(x, rule.threshold)
    made_from = {feature.column for feature in encoding.features}
    other = next((column for column in rule.columns if column not in made_from), None)
    if other is not None:
        raise DataError(
            f"similarity columns names {other!r}, which is not a feature of {source}; features are made from "
            f"{', '.join(sorted(made_from))}. Choose among these."
        )
    return similarity_edges(x[:, encoding.features_from(*rule.columns)], rule.threshold)


def _as_numpy(ids: Any) -> Any:
    """Node ids as numpy: int64, or Python strings."""
    return ids.to_numpy(zero_copy_only=False)
