from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.datasets import load
from tests.datasets.checks import links_of, published_links, split_counts


@pytest.mark.usefixtures("published")
def test_counts_of_the_split() -> None:
    counts = split_counts(load("bail"))
    assert counts["train"] == ([46, 54], [20, 30])
    assert sum(counts["val"][0]) == 4719
    assert counts["test"] == ([2303, 2416], [930, 846])


def test_the_links_are_the_published_ones(published: Path) -> None:
    assert links_of(load("bail")) == published_links(published / "bail" / "bail_edges.txt")


def test_columns_are_scaled_but_the_sensitive_one(published: Path) -> None:
    import pandas as pd

    nodes = pd.read_csv(published / "bail" / "bail.csv")
    graph = load("bail")
    assert list(graph.feature_names) == [column for column in nodes.columns if column != "RECID"]
    assert graph.sensitive_columns == ((0,),)
    assert graph.x[:, 0].tolist() == graph.sensitive[:, 0].tolist() == nodes["WHITE"].tolist()
    assert graph.y.tolist() == nodes["RECID"].tolist()
    age = nodes["AGE"]
    expected = (2 * (age - age.min()) / (age.max() - age.min()) - 1).tolist()
    assert graph.x[:, graph.feature_names.index("AGE")].tolist() == pytest.approx(expected, abs=1e-6)
    assert graph.x.abs().max() == 1
    assert load("bail", scale=False).x[:, graph.feature_names.index("AGE")].tolist() == age.tolist()


def test_what_the_card_says_of_single_columns_is_so(published: Path) -> None:
    import pandas as pd

    nodes = pd.read_csv(published / "bail" / "bail.csv")
    returned, recidivist = nodes["TIME"] > 0, nodes["RECID"] == 1
    assert (int((returned & recidivist).sum()), int(recidivist.sum())) == (7081, 7104)
    assert (int((returned & ~recidivist).sum()), int((~recidivist).sum())) == (91, 11772)
    assert round(100 * (returned == recidivist).mean(), 1) == 99.4
    assert int((nodes["PRIORS"] == -9).sum()) == 1347
    assert sorted([int((nodes["FOLLOW"] < 60).sum()), int((nodes["FOLLOW"] >= 60).sum())]) == [9327, 9549]
