from __future__ import annotations

import time
from pathlib import Path

import pytest

from fairsad.datasets import load
from tests.datasets.checks import links_of, published_links, split_counts


@pytest.mark.usefixtures("published")
def test_counts_of_the_split() -> None:
    counts = split_counts(load("credit"))
    assert counts["train"] == ([5422, 578], [2759, 241])
    assert sum(counts["val"][0]) == 7500
    assert counts["test"] == ([6811, 689], [5338, 503])


def test_the_links_are_the_published_ones(published: Path) -> None:
    assert links_of(load("credit")) == published_links(published / "credit" / "credit_edges.txt")


def test_columns_are_scaled_but_the_sensitive_one(published: Path) -> None:
    import pandas as pd

    nodes = pd.read_csv(published / "credit" / "credit.csv")
    graph = load("credit")
    assert list(graph.feature_names) == [c for c in nodes.columns if c not in ("NoDefaultNextMonth", "Single")]
    assert graph.sensitive_columns == ((1,),)
    assert graph.x[:, 1].tolist() == graph.sensitive[:, 0].tolist() == nodes["Age"].tolist()
    assert graph.y.tolist() == nodes["NoDefaultNextMonth"].tolist()
    others = [column for column in range(13) if column != 1]
    assert graph.x[:, others].min(dim=0).values.eq(-1).all()
    assert graph.x[:, others].max(dim=0).values.eq(1).all()


@pytest.mark.usefixtures("published")
def test_the_kept_graph_loads_within_a_second() -> None:
    seconds = []
    for _ in range(4):  # the first may have to rebuild it
        start = time.perf_counter()
        load("credit")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1
