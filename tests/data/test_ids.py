from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from fairsad.data.columns import Table, as_table
from fairsad.data.ids import check_unique, number_nodes, read_ids
from fairsad.errors import DataError


def table(*values: object, first_row: int = 2) -> Table:
    return Table(pa.table({"id": pa.array(values)}), "people.csv", first_row)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["12", "-3", "0"], [12, -3, 0]),
        (["007", "8"], ["007", "8"]),
        (["1.0", "2"], ["1.0", "2"]),
        ([" a ", "NA"], ["a", "NA"]),
        ([5, 6], [5, 6]),
        ([5.0, 6.0], [5, 6]),
        (["99999999999999999999", "1"], ["99999999999999999999", "1"]),
    ],
)
def test_ids_stay_what_they_are(values: list[object], expected: list[object]) -> None:
    assert read_ids(table(*values), "id").to_pylist() == expected


def test_ids_of_a_pandas_category() -> None:
    frame = pd.DataFrame({"id": pd.Categorical(["b", "a"])})
    assert read_ids(as_table(frame, "frame"), "id").to_pylist() == ["b", "a"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None, " "], r"people\.csv: column 'id' has no id in row 3 and 1 more row\."),
        ([1.0, None], r"column 'id' has no id in row 3\."),
        ([1.5, 2.0], "column 'id' holds double values; expected whole numbers or text"),
        ([[1], [2]], "column 'id' holds list.* values; expected whole numbers or text"),
    ],
)
def test_ids_that_are_none(values: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_ids(table(*values), "id")


def test_repeated_ids_are_named_with_their_rows() -> None:
    people = table("a", "b", "a", "b", "a")
    message = r"people\.csv: column 'id' has 3 repeated ids, first 'a' in row 2 and row 4"
    with pytest.raises(DataError, match=message):
        check_unique(read_ids(people, "id"), people, "id")
    one = table("a", "b", "b")
    with pytest.raises(DataError, match="column 'id' has a repeated id, 'b' in row 3 and row 4"):
        check_unique(read_ids(one, "id"), one, "id")
    check_unique(read_ids(table("a", "b"), "id"), table("a", "b"), "id")


def test_numbering_by_row() -> None:
    edges = table("b", "a", "b")
    assert number_nodes(read_ids(edges, "id"), edges, "id", pa.array(["a", "b"]), "people.csv").tolist() == [1, 0, 1]


def test_numbers_and_text_meet_as_text() -> None:
    edges = table("7", "12")
    assert number_nodes(read_ids(edges, "id"), edges, "id", pa.array(["12", "7", "x"]), "people.csv").tolist() == [1, 0]
    # 007 is not 7
    odd = table("007", "12")
    with pytest.raises(DataError, match="names an id that people.csv does not have, '007' in row 2"):
        number_nodes(read_ids(odd, "id"), odd, "id", pa.array([12, 7]), "people.csv")


def test_unknown_ids_are_counted_and_the_first_is_named() -> None:
    edges = Table(pa.table({"to": [1, 9, 8, 9]}), "links.csv", 2)
    message = r"links\.csv: column 'to' names 3 ids that people\.csv does not have, first 9 in row 3"
    with pytest.raises(DataError, match=message):
        number_nodes(read_ids(edges, "to"), edges, "to", pa.array([1, 2]), "people.csv")
