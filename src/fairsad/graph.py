"""``FairGraph``: the one shape of data that every room of the package agrees on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data

from fairsad.errors import DataError
from fairsad.files import as_tuples, whole_file
from fairsad.groups import UNKNOWN, Groups, intersect

if TYPE_CHECKING:
    from fairsad.kernels.adjacency import Adjacency

SPLITS = ("train", "val", "test")
FILE_FORMAT = "fairsad-graph-1"

NodeIds = npt.NDArray[Any]


class FairGraph(Data):  # type: ignore[misc]  # PyG's Data is untyped
    r"""A graph whose nodes are people: features, links, labels, sensitive attributes and a split.

    A thin subclass of PyG's ``Data``, so transforms, loaders and explainers work on it. Make one with
    ``build``, which brings the edges into their one canonical form and checks everything; a graph
    that was changed by hand can be checked again with ``validate``.

    Attributes:
        x: float32 [n, d].
        edge_index: int64 [2, m], both directions of every link, sorted by (row, column), no repeats and no
            self-loops (a method adds its own).
        y: int64 [n], class of each node, -1 where unlabelled.
        sensitive: int64 [n, a], value of each sensitive attribute, -1 where unknown.
        train_mask: bool [n], pairwise disjoint with ``val_mask`` and ``test_mask``.
        sensitive_names: Name of each attribute.
        sensitive_values: Names of the values of each attribute, by number.
        sensitive_columns: For each attribute, the columns of ``x`` that hold it; empty where it is not a feature.
        feature_names: Name of each column of ``x``.
        label_names: Name of each class, by number.
        name: What the graph is called in tables and reports.
        split_recipe: How the split was made, in words a reader can repeat.
        node_ids: The user's own name of each node, or ``None`` for 0..n-1.
        encoding: How a table became ``x``, so that a new table is encoded the same way, or ``None``.
    """

    @classmethod
    def build(
        cls,
        *,
        x: Any,
        edge_index: Any,
        y: Any,
        sensitive: Any,
        sensitive_names: Sequence[str],
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        sensitive_values: Sequence[Sequence[str]] | None = None,
        sensitive_columns: Sequence[Sequence[int]] | None = None,
        feature_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        name: str = "graph",
        split_recipe: str = "",
        node_ids: Any = None,
        encoding: Mapping[str, Any] | None = None,
    ) -> FairGraph:
        """Build and check a graph from arrays or tensors; links may come directed, repeated and with loops.

        Args:
            x: [n, d] numbers.
            edge_index: [2, m] node numbers, any order.
            y: [n] class numbers, -1 for unlabelled.
            sensitive: [n] or [n, a] value numbers, -1 for unknown.
            sensitive_names: One name per attribute.
            train_mask: [n] booleans; with none of the three masks the graph can only be predicted on.
            val_mask: As ``train_mask``.
            test_mask: As ``train_mask``.
            sensitive_values: Names of the values; ``"0"``, ``"1"``, … where left out.
            sensitive_columns: Which columns of ``x`` hold each attribute. Where left out, a column that has the
                attribute's name (or ``name=value``, as one-hot encoding writes it) is taken to hold it.
            feature_names: Names of the columns of ``x``.
            label_names: Names of the classes.
            name: What the graph is called.
            split_recipe: How the split was made.
            node_ids: The user's own names of the nodes.
            encoding: What the table encoder learned.

        Raises:
            DataError: Anything that ``validate`` finds.
        """
        features = _tensor(x).to(torch.float32)
        labels = _integers(y, "y")
        table = _integers(sensitive, "sensitive")
        table = table.unsqueeze(1) if table.dim() == 1 else table
        if features.dim() != 2:
            raise DataError(f"graph {name!r}: x has shape {tuple(features.shape)}; expected [nodes, features].")
        num_nodes = features.size(0)
        edges = _integers(edge_index, "edge_index")
        _check_edge_shape(edges, num_nodes)

        columns = range(features.size(1))
        names = tuple(feature_names) if feature_names is not None else tuple(f"x{column}" for column in columns)
        attributes = tuple(sensitive_names)
        graph = cls(
            x=features,
            edge_index=canonical_edges(edges, num_nodes),
            y=labels,
            sensitive=table,
            train_mask=_mask(train_mask, num_nodes),
            val_mask=_mask(val_mask, num_nodes),
            test_mask=_mask(test_mask, num_nodes),
            sensitive_names=attributes,
            sensitive_values=_value_names(sensitive_values, table),
            sensitive_columns=(
                tuple(tuple(int(column) for column in held) for held in sensitive_columns)
                if sensitive_columns is not None
                else tuple(_columns_holding(attribute, names) for attribute in attributes)
            ),
            feature_names=names,
            label_names=_class_names(label_names, labels),
            name=name,
            split_recipe=split_recipe,
            node_ids=None if node_ids is None else np.asarray(node_ids),
            encoding=None if encoding is None else dict(encoding),
        )
        graph.validate()
        return graph

    def replace(self, **changes: Any) -> FairGraph:
        """The same people with some of the arguments of ``build`` changed; the result is checked, this graph stays.

        Example:
            >>> from fairsad import load_graph
            >>> graph = load_graph("synthetic:nodes=100,seed=1")
            >>> graph.replace(edge_index=graph.edge_index[:, :0]).num_edges
            0
        """
        kept = {name: getattr(self, name) for name in (*_TENSORS, "edge_index", *_FACTS, "node_ids")}
        return FairGraph.build(**{**kept, **changes})

    # PyG keeps no entry for None, so these two have to be asked for.

    @property
    def node_ids(self) -> NodeIds | None:
        """The user's own name of each node."""
        return self._store.get("node_ids")  # type: ignore[no-any-return]

    @property
    def encoding(self) -> dict[str, Any] | None:
        """What the table encoder learned."""
        return self._store.get("encoding")  # type: ignore[no-any-return]

    @property
    def num_classes(self) -> int:
        """How many classes there are names for."""
        return len(self.label_names)

    @property
    def sensitive_in_features(self) -> bool:
        """Whether a method sees a sensitive attribute as an input column: a declared fact of the graph."""
        return any(len(held) > 0 for held in self.sensitive_columns)

    def attribute_index(self, attribute: str | None = None) -> int:
        """Position of a sensitive attribute by name; the first one without a name."""
        if attribute is None:
            return 0
        if attribute not in self.sensitive_names:
            raise DataError(
                f"graph {self.name!r} has no sensitive attribute {attribute!r}; it has "
                f"{', '.join(self.sensitive_names)}. Choose one of these."
            )
        return int(self.sensitive_names.index(attribute))

    def groups(self, attributes: Sequence[str] | None = None) -> Groups:
        """The partition of all nodes by one attribute, or by the intersection of several (all, if not named)."""
        names = self.sensitive_names if attributes is None else tuple(attributes)
        indices = [self.attribute_index(name) for name in names]
        table = self.sensitive.cpu().numpy()
        return intersect(
            [table[:, index] for index in indices], names, [self.sensitive_values[index] for index in indices]
        )

    def mask(self, split: str) -> Tensor:
        """The mask of ``"train"``, ``"val"``, ``"test"``, or of ``"all"`` labelled nodes."""
        if split == "all":
            labelled: Tensor = self.y >= 0
            return labelled
        if split not in SPLITS:
            raise DataError(f"unknown split {split!r}; expected one of {', '.join(SPLITS)}, all.")
        mask: Tensor = self[f"{split}_mask"]
        return mask

    # -- derived forms, computed once -----------------------------------------------------------------------

    def adjacency(self) -> Adjacency:
        """A+I in compressed rows, as the kernels use it; built once and kept as long as the edges stay the same."""
        from fairsad.kernels.adjacency import Adjacency

        edges = self.edge_index
        kept = self.__dict__.get("_adjacency")
        if kept is None or kept[0] is not edges or kept[1] != edges._version:
            kept = (edges, edges._version, Adjacency.from_edge_index(edges, self.num_nodes))
            self.__dict__["_adjacency"] = kept
        adjacency: Adjacency = kept[2]
        return adjacency

    def propagated(self) -> Tensor:
        """D^{-1/2}(A+I)D^{-1/2}X, the constant first step of every one-layer GCN; computed once."""
        adjacency, x = self.adjacency(), self.x
        kept = self.__dict__.get("_propagated")
        if kept is None or kept[0] is not adjacency or kept[1] is not x or kept[2] != x._version:
            kept = (adjacency, x, x._version, adjacency.propagate(x))
            self.__dict__["_propagated"] = kept
        propagated: Tensor = kept[3]
        return propagated

    @property
    def fingerprint(self) -> str:
        """Hash of features, edges, labels and sensitive values: the same graph, the same 16 letters on any machine."""
        digest = hashlib.sha256()
        for tensor in (self.x, self.edge_index, self.y, self.sensitive):
            array = np.ascontiguousarray(tensor.cpu().numpy())
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.data)
        digest.update(json.dumps([self.feature_names, self.sensitive_names, self.label_names]).encode())
        return digest.hexdigest()[:16]

    @property
    def split_hash(self) -> str:
        """Hash of the three masks: two numbers can be compared only where it is the same."""
        digest = hashlib.sha256()
        for split in SPLITS:
            digest.update(np.packbits(self.mask(split).cpu().numpy()).data)
        return digest.hexdigest()[:16]

    # -- checks ---------------------------------------------------------------------------------------------

    def validate(self) -> FairGraph:
        """Check every promise of the class.

        Returns:
            The graph itself.

        Raises:
            DataError: All defects found, each with what was found, what was expected and what to do.
        """
        defects = [*_shape_defects(self)]
        if not defects:  # contents make sense to look at only once the shapes are right
            defects = [*_value_defects(self), *_edge_defects(self), *_mask_defects(self)]
        if defects:
            raise DataError([f"graph {self.name!r}: {defect}" for defect in defects])
        return self

    # -- one file, no pickle --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the graph as one safetensors file."""
        from safetensors.torch import save_file

        tensors = {key: self[key].cpu().contiguous() for key in _TENSORS}
        # One direction is enough, and int32 where it fits: a third of the size on disk.
        forward = self.edge_index[:, self.edge_index[0] < self.edge_index[1]].cpu()
        tensors["edges"] = forward.to(torch.int32 if self.num_nodes < 2**31 else torch.int64).contiguous()
        facts: dict[str, Any] = {key: getattr(self, key) for key in _FACTS}
        if self.node_ids is not None:
            facts["node_ids"] = _pack_ids(self.node_ids, tensors)

        with whole_file(path) as partial:
            save_file(tensors, partial, metadata={"format": FILE_FORMAT, "facts": json.dumps(facts)})
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FairGraph:
        """Read what ``save`` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != FILE_FORMAT:
                    raise DataError(
                        f"{path} is not a saved graph of this version: its format is {metadata.get('format')!r}, "
                        f"expected {FILE_FORMAT!r}. Save the graph again with FairGraph.save."
                    )
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # not a dict
        except FileNotFoundError:
            raise DataError(f"no graph file at {path}. Check the path.") from None
        except SafetensorError as error:
            raise DataError(
                f"{path} cannot be read as a saved graph ({error}). Save it again with FairGraph.save."
            ) from None

        facts = json.loads(metadata["facts"])
        forward = tensors.pop("edges").to(torch.int64)
        num_nodes = tensors["x"].size(0)
        return cls(
            edge_index=canonical_edges(forward, num_nodes),
            node_ids=_unpack_ids(facts.pop("node_ids", None), tensors),
            **{key: tensors[key] for key in _TENSORS},
            **{
                key: as_tuples(value) if key not in ("encoding", "name", "split_recipe") else value
                for key, value in facts.items()
            },
        )


# Arguments of ``build``, besides edges and node_ids.
_TENSORS = ("x", "y", "sensitive", "train_mask", "val_mask", "test_mask")
_FACTS = (
    "sensitive_names",
    "sensitive_values",
    "sensitive_columns",
    "feature_names",
    "label_names",
    "name",
    "split_recipe",
    "encoding",
)


def canonical_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Both directions of every link, sorted, without repeats and self-loops: int64 [2, m]."""
    rows, columns = (end.cpu().numpy() for end in edge_index)
    if num_nodes < 2**31:
        # One integer per directed link sorts far faster than pairs do.
        keys = np.concatenate([rows * np.int64(num_nodes) + columns, columns * np.int64(num_nodes) + rows])
        keys.sort()
        keep = np.ones(keys.size, dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=keep[1:])
        keys = keys[keep]
        sources, targets = np.divmod(keys, max(num_nodes, 1))
        apart = sources != targets
        pairs = np.stack([sources[apart], targets[apart]])
        return torch.from_numpy(pairs).to(edge_index.device)
    raise DataError(f"{num_nodes} nodes are more than node numbers allow; at most {2**31 - 1}.")


def _integers(values: Any, what: str) -> Tensor:
    tensor = _tensor(values)
    if tensor.is_floating_point():
        whole = tensor.to(torch.int64)
        if not torch.equal(whole.to(tensor.dtype), tensor):
            raise DataError(f"{what} holds numbers that are not whole; expected integers. Round or encode them first.")
        return whole
    return tensor.to(torch.int64)


def _mask(values: Any, num_nodes: int) -> Tensor:
    if values is None:
        return torch.zeros(num_nodes, dtype=torch.bool)
    return _tensor(values)


def _tensor(values: Any) -> Tensor:
    """A tensor of its own memory where the array may not be written to, such as a column of a pandas table."""
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _value_names(names: Sequence[Sequence[str]] | None, table: Tensor) -> tuple[tuple[str, ...], ...]:
    if names is not None:
        return tuple(tuple(str(value) for value in values) for values in names)
    highest = table.amax(dim=0).tolist() if table.size(0) else [1] * table.size(1)
    return tuple(tuple(str(value) for value in range(max(int(high), 1) + 1)) for high in highest)


def _class_names(names: Sequence[str] | None, labels: Tensor) -> tuple[str, ...]:
    if names is not None:
        return tuple(str(value) for value in names)
    highest = int(labels.max()) if labels.numel() else 1
    return tuple(str(value) for value in range(max(highest, 1) + 1))


def _columns_holding(attribute: str, feature_names: Sequence[str]) -> tuple[int, ...]:
    return tuple(
        column
        for column, feature in enumerate(feature_names)
        if feature == attribute or feature.startswith(f"{attribute}=")
    )


def _check_edge_shape(edges: Tensor, num_nodes: int) -> None:
    if edges.dim() != 2 or edges.size(0) != 2:
        raise DataError(
            f"edge_index has shape {tuple(edges.shape)}; expected [2, m]: a row of sources, a row of targets."
        )
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= num_nodes):
        raise DataError(
            f"edge_index names nodes {int(edges.min())} to {int(edges.max())}; expected 0 to {num_nodes - 1}, "
            "the rows of x. Number the nodes by their row."
        )


def _shape_defects(graph: FairGraph) -> list[str]:
    defects = []
    if graph.x.dim() != 2:
        return [f"x has shape {tuple(graph.x.shape)}; expected [nodes, features]."]
    num_nodes = graph.x.size(0)
    if num_nodes == 0:
        return ["there are no nodes; expected at least one row of x."]
    expected = {
        "y": ((num_nodes,), torch.int64),
        "sensitive": ((num_nodes, len(graph.sensitive_names)), torch.int64),
        "train_mask": ((num_nodes,), torch.bool),
        "val_mask": ((num_nodes,), torch.bool),
        "test_mask": ((num_nodes,), torch.bool),
    }
    for key, (shape, dtype) in expected.items():
        tensor = graph[key]
        if tuple(tensor.shape) != shape:
            defects.append(f"{key} has shape {tuple(tensor.shape)}; expected {shape}, one row per row of x.")
        elif tensor.dtype != dtype:
            defects.append(f"{key} has type {tensor.dtype}; expected {dtype}.")
    if graph.x.dtype != torch.float32:
        defects.append(f"x has type {graph.x.dtype}; expected torch.float32.")
    lengths = {
        "feature_names": (len(graph.feature_names), graph.x.size(1), "column of x"),
        "sensitive_values": (len(graph.sensitive_values), len(graph.sensitive_names), "sensitive attribute"),
        "sensitive_columns": (
            len(graph.sensitive_columns),
            len(graph.sensitive_names),
            "sensitive attribute",
        ),
    }
    if graph.node_ids is not None:
        lengths["node_ids"] = (len(graph.node_ids), num_nodes, "node")
    for key, (found, wanted, what) in lengths.items():
        if found != wanted:
            defects.append(f"{key} has {found} entries; expected {wanted}, one per {what}.")
    return defects


def _value_defects(graph: FairGraph) -> list[str]:
    defects = []
    finite = torch.isfinite(graph.x)
    if not bool(finite.all()):
        row, column = (int(index) for index in (~finite).nonzero()[0])
        defects.append(
            f"feature {graph.feature_names[column]!r} of node {row} is {graph.x[row, column].item()}, one of "
            f"{int((~finite).sum())} values that are not finite; fill or drop them first."
        )
    if int(graph.y.min()) < UNKNOWN or int(graph.y.max()) >= graph.num_classes:
        defects.append(
            f"y holds classes {int(graph.y.min())} to {int(graph.y.max())}; expected -1 (unlabelled) or 0 to "
            f"{graph.num_classes - 1}, the classes in label_names."
        )
    for index, (name, values) in enumerate(zip(graph.sensitive_names, graph.sensitive_values, strict=True)):
        column = graph.sensitive[:, index]
        if int(column.min()) < UNKNOWN or int(column.max()) >= len(values):
            defects.append(
                f"sensitive attribute {name!r} holds values {int(column.min())} to {int(column.max())}; expected -1 "
                f"(unknown) or 0 to {len(values) - 1}, the values in sensitive_values."
            )
        for held in graph.sensitive_columns[index]:
            if not 0 <= held < graph.x.size(1):
                defects.append(
                    f"sensitive_columns says that column {held} of x holds {name!r}; x has {graph.x.size(1)} columns."
                )
    return defects


def _edge_defects(graph: FairGraph) -> list[str]:
    edges = graph.edge_index
    try:
        _check_edge_shape(edges, graph.x.size(0))
    except DataError as error:
        return [str(error)]
    if edges.dtype != torch.int64:
        return [f"edge_index has type {edges.dtype}; expected torch.int64."]
    cure = "build the graph with FairGraph.build, which does this."
    source, target = edges
    if bool((source == target).any()):
        return [f"{int((source == target).sum())} edges are self-loops; expected none, a method adds its own; {cure}"]
    keys = source * graph.x.size(0) + target
    if keys.numel() and not bool((keys[1:] > keys[:-1]).all()):
        return [f"edge_index is not sorted by (row, column) without repeats; {cure}"]
    if not torch.equal(torch.sort(target * graph.x.size(0) + source).values, keys):
        return [f"edge_index has links in one direction only; expected both directions of every link; {cure}"]
    return []


def _mask_defects(graph: FairGraph) -> list[str]:
    defects = []
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = int((graph.mask(first) & graph.mask(second)).sum())
        if shared:
            defects.append(f"{shared} nodes are both in {first}_mask and {second}_mask; expected disjoint masks.")
    for split in SPLITS:
        unlabelled = int((graph.mask(split) & (graph.y < 0)).sum())
        if unlabelled:
            defects.append(
                f"{unlabelled} nodes of {split}_mask are unlabelled (y = -1); expected labels there. "
                "Take them out of the mask."
            )
    return defects


def _pack_ids(ids: NodeIds, tensors: dict[str, Tensor]) -> str:
    """Put node ids into tensors: numbers as they are, anything else as UTF-8 text with offsets."""
    if np.issubdtype(ids.dtype, np.integer):
        tensors["node_ids"] = torch.from_numpy(ids.astype(np.int64))
        return "integer"
    encoded = [str(value).encode() for value in ids]
    tensors["node_ids"] = torch.from_numpy(np.frombuffer(b"".join(encoded), dtype=np.uint8).copy())
    tensors["node_id_ends"] = torch.from_numpy(np.cumsum([len(text) for text in encoded], dtype=np.int64))
    return "text"


def _unpack_ids(kind: str | None, tensors: dict[str, Tensor]) -> NodeIds | None:
    if kind is None:
        return None
    if kind == "integer":
        return tensors["node_ids"].numpy()
    text = tensors["node_ids"].numpy().tobytes()
    ends = tensors["node_id_ends"].tolist()
    return np.array([text[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)], dtype=object)
