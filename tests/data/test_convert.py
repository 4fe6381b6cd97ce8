from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from fairsad import DataError, FairGraph, from_networkx, from_pyg, from_scipy
from fairsad.data.card import SplitRule

NODES = 16


def network(kind: type[nx.Graph] = nx.Graph) -> nx.Graph:
    graph = kind()
    for i in reversed(range(NODES)):
        graph.add_node(
            f"n{i}", repaid=["no", "yes"][i % 2], sex="ffmm"[i % 4], age=20 + i, job=["cook", "nurse"][i // 8]
        )
    graph.add_edges_from((f"n{i}", f"n{(i + 1) % NODES}") for i in range(NODES))
    return graph


def arrays() -> dict[str, Any]:
    chance = np.random.default_rng(0)
    ring = np.arange(NODES)
    return {
        "x": chance.standard_normal((NODES, 3)).astype(np.float32),
        "edge_index": np.stack([ring, (ring + 1) % NODES]),
        "y": ring % 2,
        "sensitive": np.where(ring == 3, -1, ring // 2 % 2),
    }


def data(**more: Any) -> Data:
    given = arrays()
    return Data(**{key: torch.from_numpy(given[key]) for key in ("x", "edge_index", "y")}, **more)


# -- NetworkX -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_networkx_nodes_keep_their_order_and_names(kind: type[nx.Graph]) -> None:
    graph = from_networkx(network(kind), label="repaid", sensitive="sex")
    assert graph.node_ids.tolist() == [f"n{i}" for i in reversed(range(NODES))]
    assert graph.y.tolist() == [i % 2 for i in reversed(range(NODES))]
    assert graph.sensitive[:, 0].tolist() == [i // 2 % 2 for i in reversed(range(NODES))]
    assert graph.feature_names == ("age", "job=cook", "job=nurse")
    names = graph.node_ids[graph.edge_index.numpy()]
    assert {frozenset(edge) for edge in names.T} == {frozenset((f"n{i}", f"n{(i + 1) % NODES}")) for i in range(NODES)}
    assert int(graph.train_mask.sum()) == 8


def test_networkx_features_may_be_chosen_and_roles_added() -> None:
    graph = from_networkx(
        network(),
        label="repaid",
        sensitive=["sex", "job"],
        features=["age"],
        sensitive_in_features=True,
        positive="no",
        split=SplitRule(train=0.25),
    )
    assert graph.sensitive_names == ("sex", "job")
    assert set(graph.feature_names) == {"age", "sex", "job"}
    assert graph.label_names == ("yes", "no")
    assert int(graph.train_mask.sum()) == 4


def test_networkx_names_that_are_numbers_stay_numbers() -> None:
    graph = nx.relabel_nodes(network(), {f"n{i}": i * 10 for i in range(NODES)})
    assert from_networkx(graph, label="repaid", sensitive="sex").node_ids.dtype == np.int64
    mixed = nx.relabel_nodes(graph, {0: ("a", 1)})
    assert from_networkx(mixed, label="repaid", sensitive="sex").node_ids[-1] == "('a', 1)"


def test_networkx_new_people_are_encoded_as_the_old_ones_were() -> None:
    old = from_networkx(network(), label="repaid", sensitive="sex")
    new = nx.Graph()
    new.add_nodes_from([("a", {"age": 25, "job": "pilot"}), ("b", {"age": 20, "job": "cook"})])
    graph = from_networkx(new, label="repaid", sensitive="sex", encoding=old.encoding)
    assert graph.feature_names == old.feature_names
    assert graph.x[0, 1:].tolist() == [0, 0]
    assert (graph.y == -1).all()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"features": ["height"]}, "no node has the attribute 'height', named as a feature; there are repaid, sex"),
        ({}, {"label": "rich"}, "node attributes has no column 'rich', named as label"),
        ({"age": None}, {}, "node attributes: column 'age' has no value in row 14"),
        ({"age": [1, 2]}, {}, "node attribute 'age' mixes kinds of values"),
        ({"age": "old"}, {}, "node attribute 'age' mixes kinds of values"),
        ({"repaid": None}, {"split": SplitRule(column="job")}, "column 'job' says 'nurse' in row 0"),
    ],
)
def test_networkx_attributes_that_cannot_be_meant_so(
    change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    graph = network()
    graph.nodes["n1"].update(change)
    with pytest.raises(DataError, match=message):
        from_networkx(graph, **{"label": "repaid", "sensitive": "sex", **options})


def test_networkx_without_nodes() -> None:
    with pytest.raises(DataError, match="the NetworkX graph has no nodes"):
        from_networkx(nx.Graph(), label="y", sensitive="s")


# -- PyG ----------------------------------------------------------------------------------------------------


def test_pyg_data_with_masks_keeps_them() -> None:
    train, test = torch.arange(NODES) < 4, torch.arange(NODES) >= 10
    graph = from_pyg(data(train_mask=train, test_mask=test), sensitive=arrays()["sensitive"], sensitive_names=["sex"])
    assert torch.equal(graph.train_mask, train)
    assert torch.equal(graph.test_mask, test)
    assert not graph.val_mask.any()
    assert graph.split_recipe == "masks as given"
    assert graph.sensitive[3].item() == -1
    assert graph.num_edges == 2 * NODES
    assert torch.equal(graph.x, torch.from_numpy(arrays()["x"]))


def test_pyg_data_without_masks_is_split() -> None:
    graph = from_pyg(data(sens=torch.from_numpy(arrays()["sensitive"])), sensitive="sens", split=SplitRule(seed=3))
    assert int(graph.train_mask.sum()) == 8
    assert "seed 3" in graph.split_recipe


def test_pyg_labels_of_other_shapes_and_types() -> None:
    flat = from_pyg(data(), sensitive=arrays()["sensitive"])
    for y in (flat.y[:, None], flat.y.float(), flat.y.bool()):
        given = data()
        given.y = y
        assert torch.equal(from_pyg(given, sensitive=arrays()["sensitive"]).y, flat.y)


def test_pyg_facts_that_data_does_not_record() -> None:
    graph = from_pyg(
        data(),
        sensitive=arrays()["sensitive"],
        sensitive_names=["sex"],
        sensitive_values=[["f", "m"]],
        sensitive_columns=[[2]],
        label_names=["no", "yes"],
        name="mine",
    )
    assert graph.sensitive_columns == ((2,),)
    assert (graph.name, graph.label_names) == ("mine", ("no", "yes"))
    assert not from_pyg(data(), sensitive=arrays()["sensitive"]).sensitive_in_features


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"y": None}, {}, "the PyG data has no 'y'; it has edge_index, x"),
        ({}, {"sensitive": "sex"}, "the PyG data has no 'sex'"),
        (
            {"train_mask": torch.ones(NODES, 3, dtype=torch.bool)},
            {},
            r"train_mask has shape \(16, 3\); expected one mask",
        ),
        ({"train_mask": torch.arange(NODES) < 4}, {"split": SplitRule()}, "both masks and a split rule are given"),
        ({}, {"split": SplitRule(column="fold")}, "split column 'fold' has no table to stand in"),
        ({"y": torch.rand(NODES)}, {}, r"y has shape \(16,\) and type float32; expected one class number per node"),
        ({"y": torch.zeros(NODES, 2)}, {}, r"y has shape \(16, 2\)"),
    ],
)
def test_pyg_data_that_is_not_enough(change: dict[str, Any], options: dict[str, Any], message: str) -> None:
    given = data()
    for key, value in change.items():
        given[key] = value
    with pytest.raises(DataError, match=message):
        from_pyg(given, **{"sensitive": arrays()["sensitive"], **options})


# -- SciPy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [sp.coo_array, sp.csr_array, sp.csc_matrix, sp.lil_matrix])
def test_scipy_matrices_of_any_form_are_the_same_graph(form: Any) -> None:
    given = arrays()
    source, target = given["edge_index"]
    adjacency = form(sp.coo_array((np.full(NODES, 0.5), (source, target)), shape=(NODES, NODES)))
    graph = from_scipy(adjacency, given["x"], given["y"], given["sensitive"])
    assert graph.fingerprint == from_pyg(data(), sensitive=given["sensitive"]).fingerprint


def test_scipy_zeros_are_no_links_and_features_may_be_sparse() -> None:
    given = arrays()
    adjacency = sp.csr_array((np.array([1.0, 0.0]), ([0, 1], [1, 2])), shape=(NODES, NODES))
    graph = from_scipy(
        adjacency,
        sp.csr_array(given["x"]),
        given["y"],
        given["sensitive"],
        train_mask=np.arange(NODES) < 4,
        node_ids=[f"n{i}" for i in range(NODES)],
    )
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert int(graph.train_mask.sum()) == 4
    assert torch.equal(graph.x, torch.from_numpy(given["x"]))
    assert graph.node_ids[1] == "n1"


def test_scipy_shapes_that_do_not_belong_together() -> None:
    given = arrays()
    with pytest.raises(DataError, match=r"adjacency matrix has shape \(3, 3\); expected \(16, 16\)"):
        from_scipy(sp.eye_array(3), given["x"], given["y"], given["sensitive"])


def test_all_three_ways_agree_with_the_graph_built_by_hand() -> None:
    given = arrays()
    by_hand = FairGraph.build(**given, sensitive_names=["sensitive"])
    assert from_pyg(data(), sensitive=given["sensitive"]).fingerprint == by_hand.fingerprint
