from __future__ import annotations

import json
import math

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsad.data.summary import homophily, summarise
from fairsad.data.synthetic import SyntheticSpec, generate
from fairsad.graph import FairGraph, canonical_edges


def small() -> FairGraph:
    #  0 - 1 - 2   3 - 4   5
    return FairGraph.build(
        x=np.eye(6),
        edge_index=[[0, 1, 3], [1, 2, 4]],
        y=[1, 1, 0, 0, -1, 1],
        sensitive=[[0, 1], [0, 1], [1, 1], [1, -1], [1, 0], [-1, 0]],
        sensitive_names=["sex", "region"],
        sensitive_values=[["f", "m"], ["east", "north", "west"]],
        feature_names=["sex", "a", "b", "c", "d", "e"],
        label_names=["no", "yes"],
        train_mask=[True, False, True, False, False, False],
        val_mask=[False, True, False, False, False, False],
        test_mask=[False, False, False, True, False, True],
        name="six",
        split_recipe="by hand",
    )


def test_every_number_of_a_small_graph_by_hand() -> None:
    summary = summarise(small())
    assert (summary.name, summary.nodes, summary.edges, summary.features) == ("six", 6, 3, 6)
    assert summary.labels == {"no": 2, "yes": 3}
    assert summary.unlabelled == 1
    assert summary.splits == {"train": 2, "val": 1, "test": 2}
    assert summary.split_recipe == "by hand"
    assert summary.fingerprint == small().fingerprint
    assert summary.split_hash == small().split_hash
    assert summary.sensitive_in_features
    degrees = summary.degrees
    assert (degrees.min, degrees.median, degrees.mean, degrees.max, degrees.isolated) == (0, 1, 1, 2, 1)
    # labels: 0-1 within, 1-2 between, 3-4 not known; ends yes yes yes no, so chance is 9/16 + 1/16
    assert summary.label_homophily.edge == pytest.approx(1 / 2)
    assert summary.label_homophily.chance == pytest.approx(10 / 16)
    assert summary.label_homophily.adjusted == pytest.approx((1 / 2 - 10 / 16) / (6 / 16))

    sex, region = summary.attributes
    assert (sex.name, sex.unknown, sex.features) == ("sex", 1, ("sex",))
    female, male = sex.groups
    assert (female.name, female.count, female.labelled, female.base_rates) == ("f", 2, 2, (0, 1))
    assert (male.name, male.count, male.labelled, male.base_rates) == ("m", 3, 2, (1, 0))
    assert female.splits == {"train": 1, "val": 1, "test": 0}
    assert sex.base_rate_gap == 1
    assert (region.name, region.unknown, region.features) == ("region", 1, ())
    assert [group.count for group in region.groups] == [2, 3, 0]
    assert all(math.isnan(rate) for rate in region.groups[2].base_rates)
    # east 1 of 1, north 2 of 3, west has nobody and no say
    assert region.base_rate_gap == pytest.approx(1 / 3)


@settings(max_examples=50, deadline=None)
@given(st.integers(4, 12), st.integers(2, 4), st.randoms(use_true_random=False))
def test_homophily_is_what_networkx_measures(nodes: int, values: int, chance: object) -> None:
    codes = np.array([chance.randrange(values) for _ in range(nodes)])  # type: ignore[attr-defined]
    pairs = [(i, j) for i in range(nodes) for j in range(i) if chance.random() < 0.5]  # type: ignore[attr-defined]
    edges = canonical_edges(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T, nodes).numpy()
    measured = homophily(edges, codes, values)
    if not pairs:
        assert math.isnan(measured.edge)
        return
    network = nx.Graph(pairs)
    nx.set_node_attributes(network, dict(enumerate(codes.tolist())), "value")
    assert measured.edge == pytest.approx(sum(codes[i] == codes[j] for i, j in pairs) / len(pairs))
    if measured.chance == 1:
        assert math.isnan(measured.adjusted)
    else:
        assert measured.adjusted == pytest.approx(nx.attribute_assortativity_coefficient(network, "value"))


def test_a_group_without_labels_makes_no_gap() -> None:
    graph = FairGraph.build(
        x=[[1.0], [2.0]], edge_index=np.empty((2, 0)), y=[1, -1], sensitive=[0, 1], sensitive_names=["s"]
    )
    summary = summarise(graph)
    assert math.isnan(summary.attributes[0].base_rate_gap)
    assert math.isnan(summary.label_homophily.edge)
    assert summary.degrees.isolated == 2


def test_as_plain_data() -> None:
    summary = summarise(generate(SyntheticSpec(nodes=300, groups=3)))
    content = json.loads(json.dumps(summary.to_dict()))
    assert content["nodes"] == 300
    assert [group["name"] for group in content["attributes"][0]["groups"]] == ["group 0", "group 1", "group 2"]
    assert content["attributes"][0]["homophily"]["adjusted"] == summary.attributes[0].homophily.adjusted
