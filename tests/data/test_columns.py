from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fairsad.data.columns import Table, as_table, read_table
from fairsad.errors import DataError


def csv(folder: Path, text: str | bytes, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def column_of(*values: str | None) -> Table:
    return Table(pa.table({"c": pa.array(values, pa.string())}), "people.csv", first_row=2)


def test_a_csv_file_with_a_byte_order_mark_blanks_quotes_and_other_separators(tmp_path: Path) -> None:
    table = read_table(csv(tmp_path, '\ufeffid; name ;age\n007 ;"a;b\nc"; 1.5\n\n8;"";2\n'), separator=";")
    assert table.names == ["id", "name", "age"]
    assert table.data["id"].to_pylist() == ["007 ", "8"]
    assert table.column("age").numbers is not None
    assert table.column("age").numbers.tolist() == [1.5, 2.0]  # type: ignore[union-attr]
    assert table.column("name").missing.tolist() == [False, True]
    assert table.column("name").words[1] == ("a;b\nc",)
    assert table.row(0) == "row 2"


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "whole": [1, 2],
            "holes": [1.0, None],
            "word": ["x", "y"],
            "kind": pd.Categorical(["u", "v"]),
            "truth": [True, False],
            "day": [date(2020, 1, 1), date(2021, 1, 1)],
        }
    )
    frame.to_parquet(tmp_path / "people.parquet")
    for table in (read_table(tmp_path / "people.parquet"), as_table(frame, "frame")):
        kinds = {name: table.column(name).kind for name in table.names}
        assert kinds == {
            "whole": "number",
            "holes": "number",
            "word": "word",
            "kind": "word",
            "truth": "number",
            "day": "date",
        }
        assert table.column("whole").words == (pytest.approx(np.array([0, 1])), ("1", "2"))
        assert table.column("holes").words[1] == ("1",)
        assert table.column("truth").words[1] == ("false", "true")
        assert table.row(0) == "row 0"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2.5", "3e4", None], "number"),
        (["1", "NA", "nan", "null", "N/A", ""], "number"),
        (["True", "false", "TRUE"], "number"),
        (["1", "x"], "word"),
        (["01", "1"], "word"),
        (["1_0"], "word"),
        (["٣"], "word"),
        (["2020-01-31", "2020-02-01 10:00"], "date"),
        (["31.12.2020", "1/2/2020"], "date"),
        ([None, None], "number"),
    ],
)
def test_what_text_is_understood_as(values: list[str | None], kind: str) -> None:
    assert column_of(*values).column("c").kind == kind


def test_a_value_has_one_spelling_in_every_table() -> None:
    codes, values = column_of("1.0", "1", "x", None, "True", "02", "10", "9").column("c").words
    assert values == ("1", "9", "10", "02", "true", "x")
    assert codes.tolist() == [0, 0, 5, -1, 4, 3, 2, 1]
    assert column_of("2.50", "1.0", "1").column("c").words[1] == ("1", "2.5")
    assert column_of("TRUE", "False").column("c").words[1] == ("false", "true")


def test_codes_in_another_list_of_values() -> None:
    column = column_of("b", "a", None, "z").column("c")
    assert column.codes_in(("a", "b", "c")).tolist() == [1, 0, -1, -2]
    assert str(column) == "people.csv: column 'c'"
    assert column.first(column.missing) == "row 4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"people\.csv is empty; expected a header line"),
        ("\n\n", r"people\.csv is empty; expected a header line"),
        ("a,a\n1,2\n", "has two columns named 'a'; rename one"),
        (
            "a;b\n1;2\n",
            r"has one column, 'a;b'; .* separated by ';'. "
            r'Name it as the separator .in a graph card: separator = ";", for an audit: --separator ";"..',
        ),
        ("a\tb\n1\t2\n", r"""separated by '\\t'. Name it as the separator .in a graph card: separator = "\\t", for"""),
        ("a,b\n1,2\n3,4,5\n", r"people\.csv cannot be read: .*Row #3: Expected 2 columns, got 3"),
        ("a,b\n1,2\n3\n", r"people\.csv cannot be read: .*Row #3: Expected 2 columns, got 1"),
        (b"a,b\n1,\xff\n", r"people\.csv cannot be read: .*(UTF8|utf-8)"),
        (b"a,b\n" + b"1,2\n" * 20000 + b"1,\xff\n", r"people\.csv cannot be read: .*(UTF8|utf-8)"),
        (b"a,\xff\n1,2\n", r"people\.csv cannot be read: .*utf-8"),
    ],
)
def test_a_csv_file_that_is_no_table(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_table(csv(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no table at .*none\.csv"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"people\.xlsx ends in '\.xlsx'; expected a table as \.csv or \.parquet"):
        read_table(csv(tmp_path, "a", "people.xlsx"))
    with pytest.raises(DataError, match=r"people\.parquet cannot be read"):
        read_table(csv(tmp_path, "a,b", "people.parquet"))
    with pytest.raises(DataError, match="node frame: a column mixes kinds of values .*column a"):
        as_table(pd.DataFrame({"a": ["x", 2]}), "node frame")


def test_columns_that_are_missing_are_named_with_those_there_are() -> None:
    with pytest.raises(DataError, match=r"people\.csv has no column 'race', named as sensitive; its columns are c\."):
        column_of("1").require(["c", "race"], "sensitive")


def test_decimal_commas_where_the_card_says_so(tmp_path: Path) -> None:
    path = csv(tmp_path, "a;b\n3,5;x,y\n4;z\n")
    table = read_table(path, separator=";", decimal=",")
    assert table.column("a").numbers.tolist() == [3.5, 4.0]  # type: ignore[union-attr]
    assert table.column("b").words[1] == ("x,y", "z")
    assert read_table(path, separator=";").column("a").kind == "word"


def test_only_the_columns_chosen_are_read(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b,c\n1,2,3\n")
    assert read_table(path, choose=lambda names: (names[2], names[0])).names == ["c", "a"]
