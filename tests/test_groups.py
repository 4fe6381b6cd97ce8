from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairsad.groups import UNKNOWN, intersect


def test_one_attribute_is_its_own_partition() -> None:
    groups = intersect([np.array([1, 0, -1, 1])], ["sex"], [["f", "m"]])
    assert groups.codes.tolist() == [1, 0, UNKNOWN, 1]
    assert groups.names == ("sex=f", "sex=m")


def test_some_rows_keep_the_numbers_of_the_groups() -> None:
    groups = intersect([np.array([1, 0, -1])], ["sex"], [["f", "m"]])
    assert groups.select(np.array([True, False, True])).codes.tolist() == [1, UNKNOWN]
    assert groups.select(np.array([2, 1])).codes.tolist() == [UNKNOWN, 0]
    assert groups.select(np.array([0])).names == groups.names


def test_combinations_nobody_has_keep_their_number() -> None:
    groups = intersect([np.array([0, 1]), np.array([0, 2])], ["a", "b"], [["x", "y"], ["p", "q", "r"]])
    assert len(groups) == 6
    assert groups.codes.tolist() == [0, 5]
    assert groups.names[5] == "a=y & b=r"


@given(
    st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 2), st.integers(-1, 3)), min_size=1, max_size=40),
)
def test_the_name_of_a_group_spells_the_values_of_its_members(rows: list[tuple[int, int, int]]) -> None:
    values = [["0", "1"], ["0", "1", "2"], ["0", "1", "2", "3"]]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    groups = intersect(columns, ["a", "b", "c"], values)
    for row, code in zip(rows, groups.codes, strict=True):
        if min(row) < 0:
            assert code == UNKNOWN
        else:
            assert groups.names[code] == f"a={row[0]} & b={row[1]} & c={row[2]}"
