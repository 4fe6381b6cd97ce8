from __future__ import annotations

import hashlib
import time
from importlib.resources import files
from pathlib import Path

import pytest

from fairsad.datasets import load
from fairsad.datasets.german import CARD, published_table
from tests.datasets.checks import links_of, published_links, split_counts


def test_it_needs_nothing_but_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSAD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FAIRSAD_CACHE", str(tmp_path / "cache"))
    graph = load("german", offline=True)
    assert (graph.num_nodes, graph.x.size(1), graph.edge_index.size(1)) == (1000, 27, 2 * 21742)
    assert list(tmp_path.iterdir()) == []


def test_the_recoded_table_is_the_published_one_cell_for_cell(published: Path) -> None:
    import pandas as pd

    expected = pd.read_csv(published / "german" / "german.csv")
    table = published_table()
    assert list(table.columns) == list(expected.columns)
    for column in expected.columns:
        assert table[column].tolist() == expected[column].tolist(), column


def test_the_links_are_the_published_ones(published: Path) -> None:
    assert links_of(load("german")) == published_links(published / "german" / "german_edges.txt")


def test_labels_groups_and_features_mean_what_the_card_says() -> None:
    graph, table = load("german"), published_table()
    assert graph.y.tolist() == [1 if good == 1 else 0 for good in table["GoodCustomer"]]
    assert graph.sensitive[:, 0].tolist() == [int(gender == "Female") for gender in table["Gender"]]
    assert graph.sensitive_columns == ((0,),)
    assert graph.feature_names[0] == "Gender"
    assert graph.x[:, 0].tolist() == graph.sensitive[:, 0].tolist()
    assert not {"GoodCustomer", "PurposeOfLoan", "OtherLoansAtStore"} & set(graph.feature_names)
    assert graph.x[:, graph.feature_names.index("LoanAmount")].max() == 18424  # unscaled


def test_counts_of_the_split() -> None:
    counts = split_counts(load("german"))
    assert counts["train"] == ([71, 29], [40, 10])
    assert sum(counts["val"][0]) == 250
    assert counts["test"] == ([156, 94], [119, 56])


def test_further_splits_are_by_the_same_recipe() -> None:
    published, other = load("german"), load("german", split_seed=3)
    for part in ("train", "val", "test"):
        assert other.mask(part).sum() == published.mask(part).sum()
        assert not other.mask(part).equal(published.mask(part))
        assert int(other.y[other.mask(part)].sum()) == int(published.y[published.mask(part)].sum())
    assert "seed 3" in other.split_recipe
    assert other.fingerprint == published.fingerprint


def test_scaling_can_be_asked_for() -> None:
    graph = load("german", scale=True)
    assert graph.x[:, 1:].min(dim=0).values.eq(-1).all()
    assert graph.x[:, 1:].max(dim=0).values.eq(1).all()
    assert graph.x[:, 0].tolist() == graph.sensitive[:, 0].tolist()


def test_it_loads_in_a_moment() -> None:
    seconds = []
    for _ in range(5):
        start = time.thread_time()  # what other processes do meanwhile does not count
        load("german")
        seconds.append(time.thread_time() - start)
    assert min(seconds) < 0.3


def test_the_file_is_as_published_and_attributed() -> None:
    folder = files("fairsad.datasets") / "german_data"
    sha256 = hashlib.sha256((folder / "german.data").read_bytes()).hexdigest()
    attribution = (folder / "ATTRIBUTION.md").read_text()
    for part in (sha256, "Hofmann", "10.24432/C5NC77", "CC BY 4.0"):
        assert part in attribution
    assert "CC BY 4.0" in CARD.licence
    assert "10.24432/C5NC77" in CARD.source
