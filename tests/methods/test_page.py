from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.methods import page
from fairsad.methods.parameters import Search
from fairsad.methods.registry import built_in_names, method_class

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_documentation_starts_with_what_the_cards_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.startswith(page.markdown()), (
        f"the head of docs/methods.md is out of date; put the output of '{page.COMMAND}' in its place"
    )


def test_every_method_is_in_every_table() -> None:
    names = built_in_names()
    tables = page.method_tables(names)
    assert [[row[0] for row in table.rows] for table in tables] == [names] * len(tables)
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    origin, support, cost = (dict(zip(names, table.rows, strict=True)) for table in tables)
    assert origin["fairsad-code"][1:] == ("FairSAD", "in-processing", "Zhu et al., WWW 2024")
    assert support["threshold"][1:] == ("any", "two", "yes", "nobody", "yes")
    assert support["fairsad"][1:] == ("any", "any", "yes", "training nodes", "no")
    assert cost["gcn"][1] == method_class("gcn").card.cost


def test_a_terminal_of_80_columns_is_wide_enough_for_each_table() -> None:
    for table in page.method_tables(built_in_names()):
        assert sum(max(map(len, column)) + 2 for column in zip(table.columns, *table.rows, strict=True)) <= 82


def test_settings_with_default_search_and_meaning() -> None:
    rows = {row[0]: row[1:] for row in page.settings_table("fairsad-code").rows}
    assert rows["alpha"] == ("0.1", "0.001 to 10, log", "Weight α of the disentanglement losses, Eq. (9).")
    assert rows["num_channels"][:2] == ("4", "2, 4, 8")
    assert rows["distance_ratio"][0] == "per_column"
    assert rows["patience"][:2] == ("none", "–")


def test_published_settings_of_each_benchmark() -> None:
    table = page.published_table("fairsad")
    assert table is not None
    assert table.columns == ("setting", "german", "bail", "credit", "pokec-z", "pokec-n")
    assert table.rows[0] == ("alpha", "0.1", "0.001", "0.5", "0.001", "0.05")
    assert page.published_table("constant") is None


@pytest.mark.parametrize(
    ("value", "shown"), [(True, "true"), (None, "none"), (1e-5, "1e-05"), (3, "3"), (0.5, "0.5"), ("last", "last")]
)
def test_a_value_is_shown_as_it_is_given(value: object, shown: str) -> None:
    assert page.show_value(value) == shown


def test_a_search_says_where_it_looks() -> None:
    assert page.show_search(Search(0.1, 10.0, log=True)) == "0.1 to 10, log"
    assert page.show_search(Search(0.0, 1.0)) == "0 to 1"
    assert page.show_search(Search(choices=(True, None, 2))) == "true, none, 2"
