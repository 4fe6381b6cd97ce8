from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.transforms import ToUndirected

from fairsad.errors import DataError
from fairsad.graph import FairGraph, canonical_edges
from tests.graphs import toy_graph


def small(**changes: Any) -> FairGraph:
    settings: dict[str, Any] = {
        "x": [[0.0, 1.0], [1.0, 0.5], [0.0, -1.0], [1.0, 2.0], [0.0, 0.0]],
        "edge_index": [[0, 1, 3, 3], [1, 2, 0, 3]],
        "y": [0, 1, 1, -1, 0],
        "sensitive": [[0, 2], [1, 0], [0, -1], [1, 1], [0, 1]],
        "sensitive_names": ["gender", "age"],
        "sensitive_values": [["f", "m"], ["old", "mid", "young"]],
        "feature_names": ["gender", "income"],
        "train_mask": [True, True, False, False, False],
        "val_mask": [False, False, True, False, False],
        "test_mask": [False, False, False, False, True],
        "name": "small",
    }
    return FairGraph.build(**(settings | changes))


def test_build_brings_links_into_their_canonical_form() -> None:
    graph = small()
    # the loop at 3 is gone, every link has both directions, rows are sorted
    assert graph.edge_index.tolist() == [[0, 0, 1, 1, 2, 3], [1, 3, 0, 2, 1, 0]]
    assert graph.edge_index.dtype == torch.int64
    assert graph.x.dtype == torch.float32
    assert graph.num_nodes == 5
    assert graph.num_classes == 2


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    )
)
def test_canonical_edges_equal_a_set_of_pairs(case: tuple[int, list[tuple[int, int]]]) -> None:
    num_nodes, pairs = case
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    expected = sorted({pair for a, b in pairs if a != b for pair in ((a, b), (b, a))})
    assert list(zip(*canonical_edges(edges, num_nodes).tolist(), strict=True)) == expected


def test_sensitive_columns_are_found_by_name_and_declared() -> None:
    assert small().sensitive_columns == ((0,), ())
    assert small().sensitive_in_features
    assert not small(feature_names=["a", "b"]).sensitive_in_features
    assert small(feature_names=["age=old", "age=mid"]).sensitive_columns == ((), (0, 1))
    assert small(sensitive_columns=[[], [1]]).sensitive_columns == ((), (1,))


def test_arrays_that_may_not_be_written_to_are_copied() -> None:
    labels = np.array([0, 1, 1, -1, 0])
    labels.flags.writeable = False
    graph = small(y=labels)
    graph.y[0] = 1
    assert labels[0] == 0


def test_groups_of_one_attribute_and_of_the_intersection() -> None:
    graph = small()
    assert graph.groups(["gender"]).codes.tolist() == [0, 1, 0, 1, 0]
    both = graph.groups()
    assert [both.names[code] if code >= 0 else None for code in both.codes] == [
        "gender=f & age=young",
        "gender=m & age=old",
        None,
        "gender=m & age=mid",
        "gender=f & age=mid",
    ]
    with pytest.raises(DataError, match="no sensitive attribute 'race'; it has gender, age"):
        graph.groups(["race"])


def test_masks_by_name() -> None:
    graph = small()
    assert graph.mask("val").tolist() == [False, False, True, False, False]
    assert graph.mask("all").tolist() == [True, True, True, False, True]
    with pytest.raises(DataError, match="unknown split 'dev'"):
        graph.mask("dev")


def test_the_fingerprint_is_of_the_contents_and_not_of_the_edge_order() -> None:
    graph = small()
    assert small(edge_index=[[3, 2, 0, 1, 0], [0, 1, 3, 0, 1]]).fingerprint == graph.fingerprint
    assert small(name="another").fingerprint == graph.fingerprint
    assert small(y=[0, 1, 0, -1, 0]).fingerprint != graph.fingerprint
    assert small(edge_index=[[0, 1], [1, 2]]).fingerprint != graph.fingerprint
    assert small(sensitive=[[0, 2], [1, 0], [0, 0], [1, 1], [0, 1]]).fingerprint != graph.fingerprint
    assert len(graph.fingerprint) == 16


def test_the_split_hash_sees_which_mask_a_node_is_in() -> None:
    graph = small()
    swapped = small(val_mask=graph.test_mask, test_mask=graph.val_mask)
    assert swapped.split_hash != graph.split_hash
    assert swapped.fingerprint == graph.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": [[0.0, 1.0]] * 4 + [[float("nan"), 1.0]]}, r"feature 'gender' of node 4 is nan, one of 1 values"),
        ({"y": [0, 1, 1, -1]}, r"y has shape \(4,\); expected \(5,\)"),
        ({"y": [0, 1, 2, -1, 0], "label_names": ["no", "yes"]}, r"y holds classes -1 to 2; expected -1 .* or 0 to 1"),
        ({"y": [0.5, 1, 1, 0, 0]}, "y holds numbers that are not whole"),
        ({"sensitive": [[0, 3], [1, 0], [0, 0], [1, 1], [0, 1]]}, "'age' holds values 0 to 3; expected -1"),
        ({"sensitive_names": ["gender"]}, r"sensitive has shape \(5, 2\); expected \(5, 1\)"),
        ({"feature_names": ["a"]}, "feature_names has 1 entries; expected 2, one per column of x"),
        ({"train_mask": [True] * 5}, "1 nodes are both in train_mask and val_mask"),
        ({"test_mask": [False, False, False, True, False]}, "1 nodes of test_mask are unlabelled"),
        ({"edge_index": [[0], [7]]}, "edge_index names nodes 0 to 7; expected 0 to 4"),
        ({"edge_index": [0, 1]}, r"edge_index has shape \(2,\); expected \[2, m\]"),
        ({"train_mask": [1, 0, 0, 0, 0]}, r"train_mask has type torch.int64; expected torch.bool"),
        ({"node_ids": ["a"]}, "node_ids has 1 entries; expected 5, one per node"),
        ({"sensitive_columns": [[9], []]}, "column 9 of x holds 'gender'; x has 2 columns"),
        ({"x": [1.0, 2.0]}, r"x has shape \(2,\); expected \[nodes, features\]"),
        (
            {
                "x": np.zeros((0, 2)),
                "y": [],
                "sensitive": np.zeros((0, 2)),
                "edge_index": np.zeros((2, 0)),
                "train_mask": None,
                "val_mask": None,
                "test_mask": None,
            },
            "there are no nodes",
        ),
    ],
)
def test_defects_are_told_with_what_was_found_and_expected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        small(**changes)


def test_all_defects_are_told_at_once() -> None:
    with pytest.raises(DataError) as caught:
        small(y=[0, 1], feature_names=["a"])
    assert len(caught.value.defects) == 2


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        ([[0, 1, 1], [1, 0, 1]], "1 edges are self-loops"),
        ([[0, 1], [1, 2]], "one direction only"),
        ([[1, 0], [0, 1]], "not sorted"),
        ([[0, 0, 1, 1], [1, 1, 0, 0]], "not sorted by .* without repeats"),
    ],
)
def test_edges_changed_by_hand_are_found_out(edge_index: list[list[int]], message: str) -> None:
    graph = small()
    graph.edge_index = torch.tensor(edge_index)
    with pytest.raises(DataError, match=message):
        graph.validate()


def dense_propagation(graph: FairGraph) -> np.ndarray:
    adjacency = np.eye(graph.num_nodes)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1.0
    scale = 1 / np.sqrt(adjacency.sum(axis=1))
    return scale[:, None] * adjacency * scale[None, :] @ graph.x.double().numpy()


def test_propagation_is_the_dense_one_and_computed_once() -> None:
    graph = small()
    np.testing.assert_allclose(graph.propagated().numpy(), dense_propagation(graph), rtol=1e-6)
    assert graph.propagated() is graph.propagated()
    assert graph.adjacency() is graph.adjacency()


def test_derived_forms_follow_a_change_of_the_graph() -> None:
    graph = small()
    first_adjacency, first = graph.adjacency(), graph.propagated()
    graph.x[0, 0] = 5.0
    assert graph.adjacency() is first_adjacency
    assert not torch.equal(graph.propagated(), first)
    other = copy.copy(graph)
    other.edge_index = canonical_edges(torch.tensor([[0], [4]]), 5)
    assert other.adjacency().num_entries == 7
    assert graph.adjacency() is first_adjacency
    np.testing.assert_allclose(other.propagated().numpy(), dense_propagation(other), rtol=1e-6)


def test_pyg_transforms_keep_it_a_fair_graph() -> None:
    changed = ToUndirected()(small())
    assert isinstance(changed, FairGraph)
    changed.validate()
    assert small().subgraph(torch.tensor([True, True, True, False, False])).num_nodes == 3


@pytest.mark.parametrize("ids", [None, [10, 20, 30, 40, 50], ["a", "b", "ünï", "", "e"]])
def test_a_saved_graph_loads_the_same(tmp_path: Path, ids: list[Any] | None) -> None:
    graph = small(node_ids=ids, encoding={"columns": ["a"], "scale": [1.0, 2.5]}, split_recipe="by hand")
    path = graph.save(tmp_path / "deep" / "graph.safetensors")
    loaded = FairGraph.load(path)
    assert loaded.validate() is loaded
    assert loaded.fingerprint == graph.fingerprint
    assert loaded.split_hash == graph.split_hash
    for key in (
        "sensitive_names",
        "sensitive_values",
        "sensitive_columns",
        "feature_names",
        "label_names",
        "name",
        "split_recipe",
        "encoding",
    ):
        assert getattr(loaded, key) == getattr(graph, key), key
    assert (loaded.node_ids is None) if ids is None else (loaded.node_ids.tolist() == ids)
    assert [file.name for file in path.parent.iterdir()] == ["graph.safetensors"]


def test_a_file_that_is_not_a_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no graph file at"):
        FairGraph.load(tmp_path / "missing.safetensors")
    (tmp_path / "text.safetensors").write_text("not tensors at all")
    with pytest.raises(DataError, match="cannot be read as a saved graph"):
        FairGraph.load(tmp_path / "text.safetensors")
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="its format is None, expected 'fairsad-graph-1'"):
        FairGraph.load(tmp_path / "model.safetensors")


def test_replacing_changes_what_is_named_and_keeps_everything_else() -> None:
    graph = toy_graph(node_ids=[f"p{number}" for number in range(60)], encoding={"kept": 1}, split_recipe="thirds")
    before = graph.fingerprint
    other = graph.replace(x=graph.x + 1, edge_index=graph.edge_index[:, :0], sensitive_columns=[[]])
    assert graph.fingerprint == before
    assert torch.equal(other.x, graph.x + 1)
    assert other.num_edges == 0
    assert not other.sensitive_in_features
    for name in ("y", "sensitive", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(other[name], graph[name])
    for name in ("sensitive_names", "sensitive_values", "feature_names", "label_names", "name", "split_recipe"):
        assert getattr(other, name) == getattr(graph, name)
    assert list(other.node_ids) == list(graph.node_ids)
    assert other.encoding == {"kept": 1}
    assert graph.replace().fingerprint == before
    with pytest.raises(DataError, match="feature_names has 5 entries; expected 2"):
        graph.replace(x=graph.x[:, :2])
