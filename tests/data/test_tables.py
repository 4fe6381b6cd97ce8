from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fairsad import DataError, FairGraph, load_card
from fairsad.data.card import ColumnRoles, Similarity
from fairsad.data.similarity import similarity_edges
from fairsad.data.tables import from_frames

PEOPLE = 24
CARD = 'nodes = "people.csv"\nedges = "links.csv"\nid = "id"\nlabel = "repaid"\nsensitive = ["sex"]\n'


def people() -> pd.DataFrame:
    number = np.arange(PEOPLE)
    return pd.DataFrame(
        {
            "id": [f"{i:03d}" for i in number[::-1]],
            "repaid": np.where(number % 3 == 0, "no", "yes"),
            "sex": np.where(number % 2 == 0, "f", "m"),
            "income": number * 100.0,
            "job": np.array(["cook", "nurse", "clerk"])[number // 8],
        }
    )


def links() -> pd.DataFrame:
    return pd.DataFrame(
        {"a": [f"{i:03d}" for i in range(PEOPLE)], "b": [f"{(i + 1) % PEOPLE:03d}" for i in range(PEOPLE)]}
    )


def write(folder: Path, nodes: pd.DataFrame | None = None, edges: pd.DataFrame | None = None, card: str = CARD) -> Path:
    (people() if nodes is None else nodes).to_csv(folder / "people.csv", index=False)
    (links() if edges is None else edges).to_csv(folder / "links.csv", index=False)
    path = folder / "bank.toml"
    path.write_text(card)
    return path


def test_a_card_becomes_a_graph(tmp_path: Path) -> None:
    graph = load_card(write(tmp_path))
    assert graph.name == "bank"
    assert graph.label_names == ("no", "yes")
    assert graph.y.tolist() == [int(i % 3 != 0) for i in range(PEOPLE)]
    assert graph.sensitive[:, 0].tolist() == [i % 2 for i in range(PEOPLE)]
    assert graph.sensitive_values == (("f", "m"),)
    assert graph.sensitive_in_features is False
    assert graph.feature_names == ("income", "job=clerk", "job=cook", "job=nurse")
    assert graph.node_ids.tolist() == [f"{i:03d}" for i in range(PEOPLE)][::-1]
    # ids run backwards, so person i stands in row 23 - i
    linked = {(PEOPLE - 1 - i, PEOPLE - 1 - (i + 1) % PEOPLE) for i in range(PEOPLE)}
    assert {tuple(edge) for edge in graph.edge_index.T.tolist()} == linked | {(b, a) for a, b in linked}
    assert [int(graph.mask(split).sum()) for split in ("train", "val", "test")] == [12, 6, 6]
    assert "seed 20" in graph.split_recipe


def test_features_are_learnt_on_the_training_nodes_alone(tmp_path: Path) -> None:
    graph = load_card(write(tmp_path))
    income = people()["income"].to_numpy()
    low, high = (float(edge(income[graph.train_mask.numpy()])) for edge in (np.min, np.max))
    assert graph.x[:, 0].numpy() == pytest.approx(2 * (income - low) / (high - low) - 1)
    changed = people()
    changed.loc[~graph.train_mask.numpy(), "income"] *= 1000
    again = load_card(write(tmp_path, changed))
    assert again.encoding == graph.encoding
    assert torch.equal(again.x[graph.train_mask], graph.x[graph.train_mask])


@pytest.mark.parametrize("node_suffix", ["csv", "parquet"])
@pytest.mark.parametrize("edge_suffix", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["text", "integer"])
def test_csv_and_parquet_with_either_kind_of_id_are_the_same_graph(
    tmp_path: Path, node_suffix: str, edge_suffix: str, kind: str
) -> None:
    nodes, edges = people(), links()
    if kind == "integer":
        nodes["id"], edges = nodes["id"].astype(int), edges.astype(int)
    card = CARD.replace("people.csv", f"people.{node_suffix}").replace("links.csv", f"links.{edge_suffix}")
    path = write(tmp_path, nodes, edges, card)
    nodes.to_parquet(tmp_path / "people.parquet")
    edges.to_parquet(tmp_path / "links.parquet")
    graph = load_card(path)
    assert graph.fingerprint == load_card(write(tmp_path)).fingerprint
    assert graph.node_ids.tolist() == nodes["id"].tolist()


def test_frames_become_the_same_graph_as_files(tmp_path: Path) -> None:
    roles = ColumnRoles(id="id", label="repaid", sensitive=("sex",))
    graph = from_frames(people(), links().assign(weight=1.5), roles=roles)
    assert graph.fingerprint == load_card(write(tmp_path)).fingerprint


def test_a_saved_graph_keeps_its_encoding_and_ids(tmp_path: Path) -> None:
    graph = load_card(write(tmp_path))
    again = FairGraph.load(graph.save(tmp_path / "graph.safetensors"))
    assert again.encoding == graph.encoding
    assert again.node_ids.tolist() == graph.node_ids.tolist()


def test_new_people_are_encoded_as_the_old_ones_were_without_label_and_group(tmp_path: Path) -> None:
    old = load_card(write(tmp_path))
    new = people().iloc[::-1].drop(columns=["repaid", "sex"]).assign(hobby="chess")
    encoding = json.loads(json.dumps(old.encoding))
    bare = 'nodes = "people.csv"\nedges = "links.csv"\nid = "id"\n'
    for card in (CARD, bare):
        graph = load_card(write(tmp_path, new, card=card), encoding=encoding)
        assert torch.equal(graph.x, old.x.flip(0))
        assert (graph.y == -1).all()
        assert (graph.sensitive == -1).all()
        assert not (graph.train_mask | graph.val_mask | graph.test_mask).any()
        assert graph.label_names == old.label_names
        assert graph.sensitive_values == old.sensitive_values
        assert graph.encoding == old.encoding


def test_new_people_with_labels_keep_the_numbers_of_the_old_ones(tmp_path: Path) -> None:
    old = load_card(write(tmp_path))
    only = people()[people()["repaid"] == "yes"].assign(sex="m")
    ring = links().iloc[:0]
    graph = load_card(write(tmp_path, only, ring), encoding=old.encoding)
    assert graph.y.unique().tolist() == [1]
    assert graph.sensitive.unique().tolist() == [1]
    assert graph.num_edges == 0
    odd = people().replace({"repaid": {"no": "maybe"}})
    with pytest.raises(
        DataError, match=r"column 'repaid' has the label 'maybe' in row 2, .*expected no, yes, or nothing"
    ):
        load_card(write(tmp_path, odd), encoding=old.encoding)


def test_a_sensitive_attribute_the_model_takes_as_a_feature_must_be_there(tmp_path: Path) -> None:
    old = load_card(write(tmp_path, card=CARD + "sensitive_in_features = true\n"))
    assert old.sensitive_columns == ((old.feature_names.index("sex"),),)
    assert old.x[:, old.sensitive_columns[0][0]].tolist() == [i % 2 for i in range(PEOPLE)]
    with pytest.raises(DataError, match=r"people\.csv has no column 'sex', named as a feature of the model"):
        load_card(write(tmp_path, people().drop(columns="sex")), encoding=old.encoding)


def test_a_new_attribute_has_no_place_in_an_old_encoding(tmp_path: Path) -> None:
    old = load_card(write(tmp_path))
    card = CARD.replace('["sex"]', '["sex", "job"]')
    with pytest.raises(DataError, match="sensitive attribute 'job' is not among those of the training data, sex"):
        load_card(write(tmp_path, card=card), encoding=old.encoding)


def test_missing_labels_and_groups_are_unknown(tmp_path: Path) -> None:
    frame = people()
    frame.loc[[0, 1], "repaid"] = None
    frame.loc[[2, 3], "sex"] = None
    graph = load_card(write(tmp_path, frame))
    assert graph.y[:3].tolist() == [-1, -1, 1]
    assert graph.sensitive[1:5, 0].tolist() == [1, -1, -1, 0]
    assert not (graph.train_mask | graph.val_mask | graph.test_mask)[:2].any()


def test_several_attributes_bins_and_a_positive_label(tmp_path: Path) -> None:
    card = CARD.replace('["sex"]', '["sex", "income"]') + 'positive = "no"\n[bins]\nincome = [1000]\n'
    graph = load_card(write(tmp_path, card=card))
    assert graph.label_names == ("yes", "no")
    assert graph.sensitive_values[1] == ("under 1000", "1000 and over")
    assert graph.sensitive[:, 1].tolist() == [int(i >= 10) for i in range(PEOPLE)]
    assert graph.feature_names == ("job=clerk", "job=cook", "job=nurse")
    inside = load_card(write(tmp_path, card=card.replace("positive", "sensitive_in_features = true\npositive")))
    assert [inside.feature_names[column] for (column,) in inside.sensitive_columns] == ["sex", "income"]


def test_a_column_may_say_which_nodes_train(tmp_path: Path) -> None:
    frame = people().assign(fold=["train"] * 10 + ["val"] * 5 + ["test"] * 5 + [None] * 4)
    card = CARD + '[split]\ncolumn = "fold"\n'
    graph = load_card(write(tmp_path, frame, card=card))
    assert [int(graph.mask(split).sum()) for split in ("train", "val", "test")] == [10, 5, 5]
    assert graph.split_recipe == "column 'fold' of people.csv"
    assert "fold" not in graph.feature_names
    with pytest.raises(
        DataError, match=r"split_seed = 3 asks for another split, but column 'fold' of people\.csv fixes"
    ):
        load_card(tmp_path / "bank.toml", split_seed=3)


def test_another_split_by_the_same_recipe(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert load_card(path, split_seed=20).split_hash == load_card(path).split_hash
    assert load_card(path, split_seed=21).split_hash != load_card(path).split_hash


def test_links_by_similarity_of_the_encoded_features(tmp_path: Path) -> None:
    card = CARD.replace('edges = "links.csv"\n', "") + "[similarity]\nthreshold = 0.9\n"
    graph = load_card(write(tmp_path, card=card))
    expected = similarity_edges(graph.x.numpy(), 0.9)
    assert graph.num_edges > 0
    assert {tuple(edge) for edge in expected.T.tolist()} <= {tuple(edge) for edge in graph.edge_index.T.tolist()}
    some = load_card(write(tmp_path, card=card + 'columns = ["job"]\n'))
    job = people()["job"].to_numpy()
    source, target = some.edge_index.numpy()
    assert some.num_edges == 3 * 8 * 7
    assert (job[source] == job[target]).all()
    with pytest.raises(
        DataError, match=r"similarity columns names 'sex', which is not a feature of people\.csv; .*income, job"
    ):
        load_card(write(tmp_path, card=card + 'columns = ["sex"]\n'))


def test_no_id_is_needed_where_nothing_refers_to_it() -> None:
    roles = ColumnRoles(label="repaid", sensitive=("sex",), drop=("id",), similarity=Similarity(0.8))
    assert from_frames(people(), roles=roles).node_ids is None


def test_frames_need_one_source_of_links() -> None:
    roles = ColumnRoles(id="id", label="repaid", sensitive=("sex",))
    with pytest.raises(DataError, match=r"neither an edge frame and roles\.similarity"):
        from_frames(people(), roles=roles)
    with pytest.raises(DataError, match=r"both an edge frame and roles\.similarity"):
        from_frames(people(), links(), roles=ColumnRoles(id="id", similarity=Similarity(0.8)))
    with pytest.raises(DataError, match="edges refer to ids, and no id column is named"):
        from_frames(people(), links(), roles=ColumnRoles(label="repaid", sensitive=("sex",)))


def with_value(column: str, row: int, value: object) -> pd.DataFrame:
    frame = people().astype({column: object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("nodes", "edges", "card", "message"),
    [
        (with_value("id", 5, "000"), None, "", r"people\.csv: column 'id' has a repeated id, .* in row 7 and row 25"),
        (with_value("id", 5, None), None, "", r"people\.csv: column 'id' has no id in row 7"),
        (None, links().replace("003", "x"), "", r"links\.csv: column 'a' names an id that .*, 'x' in row 5"),
        (None, links().assign(b=None), "", r"links\.csv: column 'b' has no id in row 2 and 23 more rows"),
        (None, links()[["a"]], "", r"links\.csv has one column, 'a'; expected two, the ids"),
        (None, None, 'edge_columns = ["a", "c"]', r"links\.csv has no column 'c', .*; its columns are a, b"),
        (people().drop(columns="id"), None, "", r"people\.csv has no column 'id', named as id; its columns are repaid"),
        (people().drop(columns="sex"), None, "", r"people\.csv has no column 'sex', named as sensitive"),
        (people().drop(columns="repaid"), None, "", r"people\.csv has no column 'repaid', named as label"),
        (None, None, 'drop = ["name"]', r"people\.csv has no column 'name', named as drop"),
        (None, None, 'categorical = ["name"]', r"people\.csv has no column 'name', named as categorical"),
        (with_value("income", 3, None), None, "", r"people\.csv: column 'income' has no value in row 5"),
        (with_value("income", 3, "inf"), None, "", r"people\.csv: column 'income' is infinite in row 5"),
        (with_value("income", 3, "many"), None, "", r"people\.csv: column 'income' holds numbers, but 'many' in row 5"),
        (people().assign(repaid="no"), None, "", r"column 'repaid', named as label, has only the value 'no'"),
        (people().assign(sex="f"), None, "", r"people\.csv: column 'sex', named as sensitive, has only the value 'f'"),
        (people().assign(born="2001-02-03"), None, "", r"people\.csv: column 'born' holds dates"),
        (people().iloc[:0], None, "", r"people\.csv has a header but no rows"),
        (people()[["id", "repaid", "sex"]], None, "", r"people\.csv has no column left to be a feature"),
        (None, None, "[split]\ntrain = 0.8\nval = 0.2", r"people\.csv: split fractions .* leave nothing"),
        (None, None, "[split]\nval = 0.001", r"people\.csv: the validation part of the split is empty"),
        (None, None, '[split]\ntrain = "half"', r"people\.csv: split fraction train = 'half'; expected a number"),
        (None, None, '[split]\ncolumn = "fold"', r"people\.csv has no column 'fold', named as split column"),
        (people().assign(fold="train"), None, '[split]\ncolumn = "fold"', r"column 'fold' puts no row into 'val'"),
        (people().assign(fold="training"), None, '[split]\ncolumn = "fold"', r"column 'fold' says 'training' in row 2"),
        (
            with_value("repaid", 4, None).assign(fold=["train", "val", "test"] * 8),
            None,
            '[split]\ncolumn = "fold"',
            r"people\.csv: column 'fold' puts row 6 into a part of the split, without a label",
        ),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_meant_so(
    tmp_path: Path, nodes: pd.DataFrame | None, edges: pd.DataFrame | None, card: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load_card(write(tmp_path, nodes, edges, CARD + card))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "role"), [('label = "repaid"\n', "label"), ('sensitive = ["sex"]\n', "sensitive attribute")]
)
def test_a_graph_to_learn_from_needs_label_and_attribute(tmp_path: Path, line: str, role: str) -> None:
    with pytest.raises(DataError, match=rf"no {role} is named for people\.csv; .* its columns are id, repaid"):
        load_card(write(tmp_path, card=CARD.replace(line, "")))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "links.csv").unlink()
    with pytest.raises(DataError, match=r"no table at .*links\.csv"):
        load_card(path)
    (tmp_path / "people.csv").unlink()
    with pytest.raises(DataError, match=r"no table at .*people\.csv; file names in a card are relative to the card"):
        load_card(path)


def test_a_hundred_thousand_people_with_a_million_links_load_in_seconds(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    number = 100_000
    nodes = pd.DataFrame({f"v{i}": chance.standard_normal(number) for i in range(4)})
    nodes = nodes.assign(
        id=[f"p{i}" for i in range(number)], repaid=chance.integers(0, 2, number), sex=chance.choice(["f", "m"], number)
    )
    ids = nodes["id"].to_numpy()
    edges = pd.DataFrame({"a": chance.choice(ids, 1_000_000), "b": chance.choice(ids, 1_000_000)})
    path = write(tmp_path, nodes.head(1), edges.head(1), CARD.replace(".csv", ".parquet"))
    nodes.to_parquet(tmp_path / "people.parquet")
    edges.to_parquet(tmp_path / "links.parquet")
    start = time.perf_counter()
    graph = load_card(path)
    assert time.perf_counter() - start < 10
    assert graph.num_nodes == number


def test_the_example_of_the_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text()
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", guide, flags=re.DOTALL))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    seen: dict[str, object] = {}
    programs = re.findall(r"<!-- run -->\n```python\n(.*?)```", guide, flags=re.DOTALL)
    for program in programs:
        exec(program, seen)
    assert {"people.csv", "links.csv", "bank.toml", "new_people.csv", "new_links.csv", "new.toml"} <= set(files)
    assert len(programs) >= 2
