from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.data.card import ColumnRoles, Similarity, SplitRule, read_card
from fairsad.errors import DataError

SMALL = 'nodes = "people.csv"\nedges = "links.csv"\nid = "id"\nlabel = "repaid"\nsensitive = ["sex"]\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "bank.toml"
    path.write_text(text)
    return path


def test_a_full_card(tmp_path: Path) -> None:
    card = read_card(
        write(
            tmp_path,
            """
            name = "my bank"
            nodes = "tables/people.parquet"
            edges = "links.csv"
            separator = ";"
            decimal = ","
            id = "id"
            label = "repaid"
            positive = true
            sensitive = ["sex", "age"]
            sensitive_in_features = true
            drop = ["name"]
            categorical = ["postcode"]
            edge_columns = ["a", "b"]
            missing = "mean"
            [bins]
            age = [25, 60]
            [split]
            train = 0.6
            val = 0.2
            seed = 7
            """,
        )
    )
    assert card.name == "my bank"
    assert card.nodes == tmp_path / "tables" / "people.parquet"
    assert card.edges == tmp_path / "links.csv"
    assert (card.separator, card.decimal) == (";", ",")
    assert card.roles == ColumnRoles(
        label="repaid",
        sensitive=("sex", "age"),
        id="id",
        positive="true",
        drop=("name",),
        categorical=("postcode",),
        bins={"age": (25, 60)},
        sensitive_in_features=True,
        missing="mean",
        edge_columns=("a", "b"),
        split=SplitRule(0.6, 0.2, 7),
    )


def test_what_may_be_left_out(tmp_path: Path) -> None:
    card = read_card(write(tmp_path, SMALL))
    assert (card.name, card.separator, card.decimal) == ("bank", ",", ".")
    assert card.roles == ColumnRoles(label="repaid", sensitive=("sex",), id="id")
    assert card.roles.split == SplitRule(train=0.5, val=0.25, seed=20)
    similar = read_card(write(tmp_path, 'nodes = "a.csv"\n[similarity]\nthreshold = 0.8\ncolumns = ["age"]\n'))
    assert similar.edges is None
    assert similar.roles.similarity == Similarity(0.8, ("age",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SMALL + "lable = 1\n", "bank.toml: unknown entry 'lable' in the card; did you mean 'label'?"),
        (SMALL + "zzzzzz = 1\n", "unknown entry 'zzzzzz' in the card; expected one of name, nodes, edges"),
        (SMALL + "[split]\ntrian = 0.5\n", r"unknown entry 'trian' in \[split\]; did you mean 'train'"),
        (SMALL + "[split]\nseed = 1.5\n", "split seed = 1.5; expected a whole number"),
        (SMALL + '[split]\ncolumn = "fold"\ntrain = 0.5\n', "column = 'fold' and also train; .* Keep one"),
        (SMALL + "split = 3\n", r"split = 3; expected a table, a line \[split\]"),
        ('nodes = "a.csv"\n', "the card says nothing about links; expected edges"),
        ('edges = "a.csv"\n', "the card has no entry nodes"),
        ('nodes = "a.csv"\nedges = "b.csv"\n', "the card has edges but no id"),
        (SMALL + "[similarity]\nthreshold = 0.8\n", r"both edges and \[similarity\]; .* Remove the other"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = "high"\n', "threshold = 'high' is not a number"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = true\n', "threshold = True is not a number"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = nan\n', "threshold = nan is not a number"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = 1.0\n', r"threshold = 1.0 is outside \(0, 1\)"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = 0\n', r"threshold = 0 is outside \(0, 1\)"),
        ('nodes = "a.csv"\n[similarity]\n', r"\[similarity\] has no threshold"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = 0.8\ncolumns = []\n', "similarity columns is empty"),
        ('nodes = "a.csv"\n[similarity]\nthreshold = 0.8\ncolums = []\n', "did you mean 'columns'"),
        (SMALL + 'drop = ["repaid"]\n', "column 'repaid' is both label and drop; a column has one role"),
        (SMALL + 'drop = ["sex"]\n', "column 'sex' is both drop and sensitive"),
        (SMALL.replace('"sex"', '"repaid"'), "column 'repaid' is both label and sensitive"),
        (SMALL.replace('"sex"', '"sex", "sex"'), "column 'sex' is named twice as sensitive"),
        (SMALL.replace('label = "repaid"', 'label = "id"'), "column 'id' is both id and label"),
        (SMALL + 'categorical = ["repaid"]\n', r"column 'repaid' is both label and a feature \(categorical\)"),
        (
            'nodes = "a.csv"\nlabel = "y"\n[similarity]\nthreshold = 0.8\ncolumns = ["y"]\n',
            r"column 'y' is both label and a feature \(similarity columns\)",
        ),
        (SMALL + '[split]\ncolumn = "repaid"\n', "column 'repaid' is both label and split column"),
        (SMALL + "[bins]\nage = [25]\n", r"bins names 'age', which is not a sensitive attribute; sensitive is \[sex\]"),
        (SMALL + "[bins]\nsex = [60, 25]\n", r"bins sex = \[60, 25\]; expected numbers in rising order"),
        (SMALL + '[bins]\nsex = ["f"]\n', r"bins sex = \['f'\]; expected numbers in rising order"),
        (SMALL + "[bins]\nsex = []\n", r"bins sex = \[\]; expected numbers"),
        (SMALL + 'edge_columns = ["a"]\n', "edge_columns = .*; expected two column names"),
        (SMALL + 'sensitive_in_features = "yes"\n', "sensitive_in_features = 'yes'; expected true or false"),
        (SMALL + 'missing = "median"\n', "missing = 'median'; expected 'error' or 'mean'"),
        (SMALL + 'separator = ";;"\n', "separator = ';;'; expected one character"),
        (SMALL + 'decimal = ","\n', "decimal = ',' with separator = ','; expected"),
        (SMALL + 'decimal = "x"\n', "decimal = 'x' with separator = ','; expected"),
        (SMALL + 'edge_columns = ["a", "a"]\n', "edge_columns names 'a' twice"),
        (SMALL + "drop = [1]\n", r"drop = \[1\]; expected a list of column names"),
        (SMALL.replace('"people.csv"', "3"), 'nodes = 3; expected a name in quotes, such as nodes = "people.csv"'),
        (SMALL.replace('label = "repaid"', 'positive = "yes"'), "positive = 'yes' has no meaning without a label"),
        ('nodes = "a.csv"\nlabel = repaid\n', r"bank.toml is not valid TOML: .*line 2.* Values need quotes"),
    ],
)
def test_a_card_that_cannot_be_meant_so(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_card(write(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("bank.toml")


def test_a_card_that_is_not_there_or_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no graph card at .*none\.toml"):
        read_card(tmp_path / "none.toml")
    (tmp_path / "image.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"image\.toml cannot be read"):
        read_card(tmp_path / "image.toml")
    with pytest.raises(DataError, match="cannot be read"):
        read_card(tmp_path)


def test_one_name_may_stand_for_a_list(tmp_path: Path) -> None:
    assert read_card(write(tmp_path, SMALL.replace('["sex"]', '"sex"'))).roles.sensitive == ("sex",)
