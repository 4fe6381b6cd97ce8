from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from fairsad.datasets import load
from tests.datasets.checks import links_of, split_counts, undirected


@pytest.mark.usefixtures("published")
def test_counts_of_the_split() -> None:
    graph = load("nba")
    assert split_counts(graph) == {
        "train": ([76, 24], [36, 12]),
        "val": ([54, 24], [30, 12]),
        "test": ([57, 22], [30, 10]),
    }


def test_the_graph_is_what_the_files_say(published: Path) -> None:
    graph = load("nba", scale=False)
    with (published / "nba" / "nba.csv").open() as content:
        players = list(csv.DictReader(content))
    names = [name for name in players[0] if name not in ("user_id", "SALARY")]
    assert list(graph.feature_names) == names
    assert names[graph.sensitive_columns[0][0]] == "country"
    assert graph.y.tolist() == [min(int(player["SALARY"]), 1) for player in players]
    assert graph.sensitive[:, 0].tolist() == [int(player["country"]) for player in players]
    values = [[float(player[name]) for name in names] for player in players]
    np.testing.assert_array_equal(graph.x, np.array(values, dtype=np.float32))

    row = {int(player["user_id"]): number for number, player in enumerate(players)}
    assert graph.node_ids.tolist() == list(row)
    lines = (published / "nba" / "nba_relationship.txt").read_text().splitlines()
    pairs = [line.split("\t") for line in lines]
    assert links_of(graph) == undirected((row[int(i)], row[int(j)]) for i, j in pairs)


@pytest.mark.usefixtures("published")
def test_columns_are_scaled_but_the_sensitive_one() -> None:
    graph = load("nba")
    held = graph.sensitive_columns[0][0]
    others = [column for column in range(graph.x.size(1)) if column != held]
    assert graph.x[:, others].min(dim=0).values.eq(-1).all()
    assert graph.x[:, others].max(dim=0).values.eq(1).all()
    assert graph.x[:, held].tolist() == graph.sensitive[:, 0].tolist()
