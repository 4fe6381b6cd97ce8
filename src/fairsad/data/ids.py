"""Node ids: whole numbers or text, kept as they are written, and looked up all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairsad.data.columns import IntArray, Table
from fairsad.errors import DataError

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"  # 007 stays text


def read_ids(table: Table, name: str) -> Any:
    """The ids in a column as a ``pyarrow`` array: integers where all are written as such, else the text as it is.

    Raises:
        DataError: A row without an id, or ids that are neither whole numbers nor text.
    """
    column = table.data.column(name)
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    empty = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.utf8_trim_whitespace(array.cast(pa.string()))
        empty = empty | np.asarray(pc.fill_null(pc.equal(array, ""), True).to_numpy(zero_copy_only=False))
    if empty.any():
        raise DataError(
            f"{table.source}: column {name!r} has no id in {table.rows(empty)}. Give every row an id, or remove it."
        )
    if pa.types.is_string(array.type):
        whole = pc.all(pc.match_substring_regex(array, _WHOLE)).as_py()
        return array.cast(pa.int64()) if whole else array
    try:
        return array.cast(pa.int64())  # refuses 1.5, takes 1.0: pandas turns whole numbers into such
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"{table.source}: column {name!r} holds {array.type} values; expected whole numbers or text as ids."
        ) from None


def check_unique(ids: Any, table: Table, name: str) -> None:
    """Refuse ids that occur more than once.

    Raises:
        DataError: How many, and the first with its rows.
    """
    first_use = pc.index_in(ids, value_set=ids).to_numpy()
    repeats = np.flatnonzero(first_use != np.arange(len(first_use)))
    if repeats.size:
        again = int(repeats[0])
        what = f"{repeats.size} repeated ids, first" if repeats.size > 1 else "a repeated id,"
        raise DataError(
            f"{table.source}: column {name!r} has {what} {ids[again].as_py()!r} in {table.row(first_use[again])} and "
            f"{table.row(again)}. Every node needs an id of its own; remove the repeated rows."
        )


def number_nodes(ids: Any, table: Table, name: str, node_ids: Any, node_source: str) -> IntArray:
    """Positions in ``node_ids`` of the nodes that a column of an edge table names.

    Raises:
        DataError: Ids that no node has: how many, and the first with its row.
    """
    if ids.type != node_ids.type:
        ids, node_ids = ids.cast(pa.string()), node_ids.cast(pa.string())
    positions = pc.index_in(ids, value_set=node_ids)
    unknown = np.asarray(positions.is_null().to_numpy(zero_copy_only=False))
    if unknown.any():
        first, number = int(np.argmax(unknown)), int(unknown.sum())
        what, which = (f"{number} ids", "first ") if number > 1 else ("an id", "")
        raise DataError(
            f"{table.source}: column {name!r} names {what} that {node_source} does not have, "
            f"{which}{ids[first].as_py()!r} in {table.row(first)}. Add these nodes or remove their edges."
        )
    return np.asarray(positions.to_numpy(), dtype=np.int64)
