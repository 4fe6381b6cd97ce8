from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from fairsad.datasets.social import SocialNetwork
from fairsad.errors import DataError
from tests.datasets.checks import SmallPokec, links_of, undirected, write_small_pokec


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallPokec:
    monkeypatch.setenv("FAIRSAD_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("FAIRSAD_CACHE", str(tmp_path / "cache"))
    return write_small_pokec(tmp_path / "own")


def test_minus_one_stays_unlabelled_and_above_one_becomes_one(small: SmallPokec) -> None:
    graph = small.dataset.load()
    meaning = {"-1": -1, "0": 0, "1": 1, "2": 1, "3": 1, "4": 1}
    assert graph.y.tolist() == [meaning[user["I_am_working_in_field"]] for user in small.users]


def test_features_are_the_columns_as_they_are(small: SmallPokec) -> None:
    graph = small.dataset.load()
    names = [name for name in small.users[0] if name not in ("user_id", "I_am_working_in_field")]
    assert list(graph.feature_names) == names
    assert graph.x.tolist() == [[float(user[name]) for name in names] for user in small.users]
    assert graph.sensitive_columns == ((3,),)
    assert graph.sensitive[:, 0].tolist() == [int(user["region"]) for user in small.users]


def test_links_are_between_the_rows_of_the_ids(small: SmallPokec, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="fairsad"):
        graph = small.dataset.load()
    row = {int(user["user_id"]): number for number, user in enumerate(small.users)}
    assert links_of(graph) == undirected((row[i], row[j]) for i, j in small.pairs if i in row and j in row)
    assert "2 of 202 links name an unknown user and are dropped" in caplog.text
    assert graph.node_ids.tolist() == list(row)


def test_the_split_is_of_the_labelled_nodes_together(small: SmallPokec) -> None:
    graph = small.dataset.load()
    labelled = int((graph.y >= 0).sum())
    assert labelled == 50
    assert [int(graph.mask(part).sum()) for part in ("train", "val", "test")] == [12, 12, 13]
    other = small.dataset.load(split_seed=21)
    assert [int(other.mask(part).sum()) for part in ("train", "val", "test")] == [12, 12, 13]
    assert other.split_hash != graph.split_hash
    assert other.fingerprint == graph.fingerprint


def test_the_test_part_is_only_where_the_sensitive_value_is_known(small: SmallPokec, tmp_path: Path) -> None:
    path = tmp_path / "own" / "pokec" / "region_job.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    for row in rows[1::2]:
        row[4] = "-1"
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    files = {file.path: tmp_path / "own" / file.path for file in small.dataset.card.files}
    table = small.dataset.read(files)
    split = small.dataset.split(table, 20)
    known = table.sensitive >= 0
    assert not (split.test_mask & ~known).any()
    assert (split.val_mask & ~known).any()
    assert 0 < split.test_mask.sum() < 13


def test_scaling_is_off_unless_asked_for_and_spares_the_sensitive_column(small: SmallPokec) -> None:
    assert small.dataset.load().x.max() > 1
    scaled = small.dataset.load(scale=True)
    assert scaled.x.min() == -1
    assert scaled.x.max() == 1
    assert set(scaled.x[:, 3].tolist()) == {0.0, 1.0}


def test_counts_that_are_not_the_published_ones_are_named(small: SmallPokec) -> None:
    card = replace(small.dataset.card, counts=replace(small.dataset.card.counts, nodes=61, groups=(1, 2)))
    with pytest.raises(DataError, match=r"pokec-z graph is not the published one \(nodes: 60, expected 61; groups: "):
        SocialNetwork(card, train_cap=12, sensitive_position=3).load()


def test_a_sensitive_column_in_another_place_is_named(small: SmallPokec) -> None:
    with pytest.raises(DataError, match=r"'region' is column 3 of the features, expected 5"):
        SocialNetwork(small.dataset.card, train_cap=12, sensitive_position=5).load()
