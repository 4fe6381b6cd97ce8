from __future__ import annotations

import math
import time
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from fairsad.data.synthetic import SyntheticSpec, from_spec, generate, parse_spec
from fairsad.errors import DataError
from fairsad.graph import FairGraph


def assortativity(graph: FairGraph, values: torch.Tensor) -> float:
    network = nx.Graph(graph.edge_index.T.tolist())
    nx.set_node_attributes(network, dict(enumerate(values.tolist())), "value")
    return float(nx.attribute_assortativity_coefficient(network, "value"))


def base_rates(graph: FairGraph) -> list[float]:
    last = graph.y == graph.num_classes - 1
    group = graph.sensitive[:, 0]
    return [float(last[group == number].float().mean()) for number in group.unique().tolist()]


@pytest.mark.parametrize(
    ("groups", "classes", "bias"), [(2, 2, 0.3), (2, 2, -0.5), (3, 2, 0.4), (4, 3, 0.2), (2, 2, 0)]
)
def test_base_rates_differ_by_the_bias_to_the_node(groups: int, classes: int, bias: float) -> None:
    graph = generate(SyntheticSpec(nodes=6000, groups=groups, classes=classes, bias=bias))
    rates = base_rates(graph)
    exact = [1 / classes + bias * (number / (groups - 1) - 0.5) for number in range(groups)]
    assert rates == pytest.approx(exact, abs=groups / 6000)
    assert graph.sensitive[:, 0].bincount().tolist() == [6000 // groups] * groups
    assert graph.num_classes == classes


@pytest.mark.parametrize(
    ("homophily", "label_homophily", "groups", "classes"),
    [(0.0, 0.0, 2, 2), (0.6, 0.2, 2, 2), (0.2, 0.7, 3, 2), (0.5, 0.4, 4, 3), (1.0, 0.3, 2, 2), (0.3, 1.0, 2, 2)],
)
def test_homophily_is_the_assortativity_that_networkx_measures(
    homophily: float, label_homophily: float, groups: int, classes: int
) -> None:
    bias = 0.0 if label_homophily == 0 else 0.3
    graph = generate(
        SyntheticSpec(
            nodes=20_000,
            groups=groups,
            classes=classes,
            bias=bias,
            homophily=homophily,
            label_homophily=label_homophily,
            seed=5,
        )
    )
    # 100,000 links: the standard error of a share is at most 0.0016, of an assortativity about twice that
    assert assortativity(graph, graph.sensitive[:, 0]) == pytest.approx(homophily, abs=0.012)
    assert assortativity(graph, graph.y) == pytest.approx(label_homophily, abs=0.012)


def test_label_homophily_follows_from_the_rest_where_it_is_left_out() -> None:
    usual = generate(SyntheticSpec(nodes=20_000))
    assert assortativity(usual, usual.y) == pytest.approx(0.3, abs=0.012)
    strong = generate(SyntheticSpec(nodes=20_000, bias=0.9, homophily=0.9))
    # between groups the class shares differ by 0.9 of the most they can, so labels inherit 0.9 · 0.9² of homophily
    assert assortativity(strong, strong.y) == pytest.approx(0.9 * 0.81, abs=0.012)
    with pytest.raises(
        DataError, match=r"label_homophily = 0\.2 is too low: bias 0\.9 and homophily 0\.9 alone make it 0\.729"
    ):
        generate(SyntheticSpec(nodes=20_000, bias=0.9, homophily=0.9, label_homophily=0.2))


def test_degree_and_edges_are_exact() -> None:
    assert generate(SyntheticSpec(nodes=1000, degree=7)).num_edges == 7000
    assert generate(SyntheticSpec(nodes=1000, edges=1234)).num_edges == 2 * 1234
    assert generate(SyntheticSpec(nodes=1000)).num_edges == 10_000
    assert generate(SyntheticSpec(nodes=100, edges=0)).num_edges == 0


def test_the_features_say_what_their_names_say() -> None:
    graph = generate(SyntheticSpec(nodes=20_000, features=33, signal=1.5, proxy=0.8, bias=0))
    x, y, group = graph.x.numpy(), graph.y.numpy(), graph.sensitive[:, 0].numpy()
    columns = {
        kind: [i for i, name in enumerate(graph.feature_names) if name.startswith(kind)]
        for kind in ("label_carrier", "group_proxy", "noise")
    }
    assert [len(held) for held in columns.values()] == [8, 8, 16]
    assert graph.sensitive_columns == ((0,),)
    assert (x[:, 0] == group).all()

    def auc(kind: str, target: Any) -> float:
        part = x[:, columns[kind]]
        return float(roc_auc_score(target, LinearDiscriminantAnalysis().fit(part, target).decision_function(part)))

    def expected(distance: float) -> float:
        return 0.5 * (1 + math.erf(distance / 2))  # Φ(distance / √2)

    assert auc("label_carrier", y) == pytest.approx(expected(1.5), abs=0.01)
    assert auc("group_proxy", group) == pytest.approx(expected(0.8), abs=0.01)
    assert auc("noise", y) == pytest.approx(0.5, abs=0.03)
    assert auc("label_carrier", group) == pytest.approx(0.5, abs=0.03)
    assert auc("group_proxy", y) == pytest.approx(0.5, abs=0.03)


def test_more_groups_have_a_column_each() -> None:
    graph = generate(SyntheticSpec(nodes=900, groups=3))
    assert graph.sensitive_columns == ((0, 1, 2),)
    assert torch.equal(graph.x[:, :3].argmax(dim=1), graph.sensitive[:, 0])
    assert graph.x.size(1) == 16


def test_the_same_settings_make_the_same_graph() -> None:
    first, again, other = (generate(SyntheticSpec(nodes=500, seed=seed)) for seed in (3, 3, 4))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.split_hash == again.split_hash != other.split_hash
    wider = generate(SyntheticSpec(nodes=500, seed=3, features=40))
    assert torch.equal(wider.edge_index, first.edge_index)
    assert torch.equal(wider.y, first.y)
    resplit = generate(SyntheticSpec(nodes=500, seed=3), split_seed=9)
    assert resplit.fingerprint == first.fingerprint
    assert resplit.split_hash != first.split_hash


def test_training_nodes_by_share_and_by_number() -> None:
    by_share = generate(SyntheticSpec(nodes=1000, train=0.2))
    assert [int(by_share.mask(part).sum()) for part in ("train", "val", "test")] == [200, 250, 550]
    by_number = generate(SyntheticSpec(nodes=1000, train=40))
    assert [int(by_number.mask(part).sum()) for part in ("train", "val", "test")] == [40, 250, 250]


def test_a_graph_of_the_size_of_pokec_z() -> None:
    start = time.perf_counter()
    graph = from_spec("nodes=67796,edges=617958,features=277,train=4000")
    assert time.perf_counter() - start < 15
    assert (graph.num_nodes, graph.num_edges // 2, graph.x.size(1)) == (67_796, 617_958, 277)
    assert int(graph.train_mask.sum()) == 4000


@settings(max_examples=30, deadline=None)
@given(
    nodes=st.integers(60, 400),
    groups=st.integers(2, 4),
    classes=st.integers(2, 3),
    homophily=st.floats(0, 1),
    label_homophily=st.floats(0.5, 1),
    seed=st.integers(0, 2**32),
)
def test_any_settings_within_the_bounds_end_in_a_valid_graph(**options: Any) -> None:
    densest = options["nodes"] / (2 * options["groups"] * options["classes"])
    graph = generate(SyntheticSpec(**options, bias=0.2, degree=int(densest)))
    assert graph.validate() is graph
    assert graph.num_edges == 2 * round(options["nodes"] * int(densest) / 2)


def test_a_spec_is_read_and_named() -> None:
    spec = parse_spec("nodes=500, bias=0.25,groups=3,train=60,edges=1000")
    assert spec == SyntheticSpec(nodes=500, bias=0.25, groups=3, train=60, edges=1000)
    assert parse_spec("") == SyntheticSpec()
    assert spec.name == "synthetic:nodes=500,edges=1000,bias=0.25,groups=3,train=60"
    assert parse_spec(spec.name.removeprefix("synthetic:")) == spec
    assert generate(spec).name == spec.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node=500", "unknown entry 'node' in synthetic; did you mean 'nodes'"),
        ("nodes", "synthetic setting 'nodes' is not understood; expected name=number"),
        ("nodes=many", "synthetic nodes = 'many' is not a whole number; expected one, such as nodes=1"),
        ("nodes=10.5", "synthetic nodes = '10.5' is not a whole number"),
        ("bias=big", "synthetic bias = 'big' is not a number"),
        ("nodes=5,nodes=6", "synthetic nodes is given twice"),
        ("nodes=1", "synthetic nodes = 1; expected a whole number, at least 2"),
        ("groups=1", "synthetic groups = 1; expected a whole number, at least 2"),
        ("seed=-1", "synthetic seed = -1; expected a whole number, at least 0"),
        ("bias=1.2", r"synthetic bias = 1\.2; expected a number, at least -1 and at most 1"),
        ("bias=nan", "synthetic bias = nan; expected a number"),
        ("classes=4,bias=0.6", r"bias = 0\.6; expected a number, at least -0\.5 and at most 0\.5"),
        ("bias=1", "synthetic bias = 1 leaves nobody of class 1 in group 0 of 500 nodes"),
        ("homophily=-0.1", r"homophily = -0\.1; expected a number, at least 0 and at most 1"),
        ("label_homophily=2", r"label_homophily = 2\.0; expected a number, at least 0 and at most 1"),
        ("signal=inf", "synthetic signal = inf; expected a number, at least 0"),
        ("features=3", "synthetic features = 3; expected a whole number, at least 4: 1 for the group"),
        ("features=5,groups=3", "features = 5; expected a whole number, at least 6: 3 for the group"),
        ("degree=10,edges=100", "degree and edges are both given; expected one"),
        ("degree=-1", "degree = -1.0; expected a number, at least 0"),
        ("edges=-1", "edges = -1; expected a whole number"),
        ("nodes=20", r"20 nodes and 10 neighbours each is too dense; .* nodes / \(2 · groups · classes\) = 2\.5"),
        ("train=0", "train = 0.0; expected a share below 0.75"),
        ("train=0.8", "train = 0.8; expected a share below 0.75"),
        ("train=10.5", "train = 10.5; expected a share below 0.75"),
        ("nodes=100,train=51,degree=2", r"train = 51\.0; expected a number, at least 0 and at most 50"),
    ],
)
def test_settings_that_make_no_graph(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_spec(text)


@pytest.mark.slow
def test_a_million_nodes_in_seconds() -> None:
    start = time.perf_counter()
    graph = from_spec("nodes=1000000")
    assert time.perf_counter() - start < 30
    assert graph.num_edges == 10_000_000
    assert np.ptp(base_rates(graph)) == pytest.approx(0.3, abs=1e-5)
