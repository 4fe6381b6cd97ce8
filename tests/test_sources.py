from __future__ import annotations

from pathlib import Path

import pytest

from fairsad import DataError, load_graph


def test_a_benchmark_by_name_and_another_split_of_it() -> None:
    graph, other = load_graph("german"), load_graph("german:split_seed=3")
    assert graph.name == "german"
    assert graph.fingerprint == other.fingerprint
    assert graph.split_hash != other.split_hash
    assert load_graph("german", split_seed=3).split_hash == other.split_hash


def test_a_generated_graph_by_its_settings() -> None:
    assert load_graph("synthetic:nodes=120,seed=4").num_nodes == 120


def test_a_saved_graph_by_its_path(tmp_path: Path) -> None:
    graph = load_graph("synthetic:nodes=120,seed=4")
    assert load_graph(graph.save(tmp_path / "graph.safetensors")).fingerprint == graph.fingerprint


def test_a_graph_card_by_its_path(tmp_path: Path) -> None:
    rows = [f"{i},{i % 2},{'mf'[i % 3 == 0]},{i / 7}" for i in range(40)]
    (tmp_path / "people.csv").write_text("id,repaid,sex,income\n" + "\n".join(rows))
    (tmp_path / "links.csv").write_text("a,b\n" + "\n".join(f"{i},{(i + 1) % 40}" for i in range(40)))
    card = tmp_path / "card.toml"
    card.write_text('nodes = "people.csv"\nedges = "links.csv"\nid = "id"\nlabel = "repaid"\nsensitive = ["sex"]\n')
    assert load_graph(card).num_nodes == 40


@pytest.mark.parametrize("source", ["germany", "german.csv", ""])
def test_an_unknown_name_is_told_what_there_is(source: str) -> None:
    with pytest.raises(DataError, match=r"no graph is known as .*bail.*german.*synthetic:nodes=N"):
        load_graph(source)


def test_a_misspelt_name_and_a_table_are_told_what_was_probably_meant(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Did you mean 'german'\?"):
        load_graph("germn")
    with pytest.raises(DataError, match=r"Did you mean 'synthetic'\?"):
        load_graph("syntetic:nodes=100")
    table = tmp_path / "people.csv"
    table.touch()
    with pytest.raises(DataError, match=r"people\.csv is no graph by itself; .* A table needs a graph card"):
        load_graph(table)


@pytest.mark.parametrize("source", ["german:seed=3", "german:split_seed=x", "german:3"])
def test_settings_that_a_benchmark_does_not_have(source: str) -> None:
    with pytest.raises(DataError, match="not understood after the colon; expected split_seed=N"):
        load_graph(source)
