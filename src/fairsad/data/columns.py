"""Tables as they are found: CSV and Parquet files, and columns understood as numbers, words or dates."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fairsad.errors import DataError
from fairsad.groups import UNKNOWN

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
UNSEEN = -2

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([T ].*)?")
_CODE = r"^[+-]?0[0-9]"  # 007 is a name that happens to be made of digits


@dataclass(frozen=True)
class Table:
    """A table, where it came from, and how its rows are counted in messages.

    Attributes:
        data: A ``pyarrow.Table``; everything read from CSV is still text.
        source: The file's name.
        first_row: Number of the first row: 2 in a CSV file, whose header a spreadsheet shows as row 1; else 0.
        decimal: What stands before the fraction of a number that is still text.
    """

    data: Any
    source: str
    first_row: int = 0
    decimal: str = "."

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def names(self) -> list[str]:
        """The column names."""
        return list(self.data.column_names)

    def row(self, index: int | np.integer[Any]) -> str:
        """What a message calls a row."""
        return f"row {int(index) + self.first_row}"

    def rows(self, marked: BoolArray) -> str:
        """What a message calls the rows marked: the first of them, and how many more there are."""
        others = int(marked.sum()) - 1
        more = f" and {others} more row{'s' * (others > 1)}" if others else ""
        return self.row(np.argmax(marked)) + more

    def require(self, columns: Sequence[str], purpose: str) -> None:
        """Refuse a table without the columns named.

        Raises:
            DataError: The columns that are missing, and those there are.
        """
        require_columns(self.names, columns, self.source, purpose)

    def column(self, name: str) -> Column:
        """One column, understood."""
        return _understand(self, name)


def require_columns(names: Sequence[str], wanted: Sequence[str], source: str, purpose: str) -> None:
    """As :meth:`Table.require`, before the table has been read."""
    absent = [name for name in wanted if name not in names]
    if absent:
        raise DataError(
            f"{source} has no column {', '.join(map(repr, absent))}, named as {purpose}; "
            f"its columns are {', '.join(names)}. Correct the name."
        )


# -- reading ------------------------------------------------------------------------------------------------

Choose = Callable[[list[str]], Sequence[str]]


def read_table(path: Path, *, separator: str = ",", decimal: str = ".", choose: Choose = list) -> Table:
    """Read a ``.csv`` or ``.parquet`` file.

    Args:
        path: The file.
        separator: What stands between the values of a CSV file.
        decimal: What stands before the fraction of a number in a CSV file.
        choose: Is given all column names and says which columns to read.

    Raises:
        DataError: The file is missing, of another kind, empty or malformed, or the separator is no character.
    """
    if len(separator) != 1:
        raise DataError(f"separator = {separator!r}; expected one character, such as ';' or a tab.")
    if not path.is_file():
        raise DataError(f"no table at {path}; file names in a card are relative to the card. Check the path.")
    try:
        if path.suffix.lower() == ".csv":
            return _read_csv(path, separator, decimal, choose)
        if path.suffix.lower() == ".parquet":
            return _read_parquet(path, choose)
    except (pa.ArrowException, csv.Error, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path.name} cannot be read: {reason}. Save it again as UTF-8 CSV or Parquet.") from None
    raise DataError(f"{path.name} ends in {path.suffix!r}; expected a table as .csv or .parquet.")


def as_table(frame: Any, source: str) -> Table:
    """A pandas frame (or a ``pyarrow.Table``) as a :class:`Table`."""
    if isinstance(frame, pa.Table):
        return Table(frame, source)
    try:
        return Table(pa.Table.from_pandas(frame, preserve_index=False), source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise DataError(
            f"{source}: a column mixes kinds of values ({reason}). Make it all numbers or all text."
        ) from None


def _read_csv(path: Path, separator: str, decimal: str, choose: Choose) -> Table:
    from pyarrow import csv as arrow_csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file, delimiter=separator), [])
    names = [name.strip() for name in header]
    if not any(names):
        raise DataError(f"{path.name} is empty; expected a header line with column names, then rows.")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"{path.name} has two columns named {repeated!r}; rename one of them.")
    likely = next((mark for mark in ";\t|," if mark in names[0]), None) if len(names) == 1 else None
    if likely is not None:
        mark = likely.replace("\t", "\\t")
        raise DataError(
            f"{path.name} has one column, {names[0]!r}; its values seem to be separated by '{mark}'. "
            f'Name it as the separator (in a graph card: separator = "{mark}", for an audit: --separator "{mark}").'
        )
    chosen = choose(names)
    data = arrow_csv.read_csv(
        path,
        # One thread, so that a malformed row is reported with its number.
        read_options=arrow_csv.ReadOptions(use_threads=False),
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=[header[names.index(name)] for name in chosen],
            column_types=dict.fromkeys(header, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    return Table(data.rename_columns(list(chosen)), path.name, first_row=2, decimal=decimal)


def _read_parquet(path: Path, choose: Choose) -> Table:
    from pyarrow import parquet

    chosen = choose(list(parquet.read_schema(path).names))
    return Table(parquet.read_table(path, columns=list(chosen)), path.name)


# -- columns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One column of a table, understood.

    Attributes:
        table: Where it stands.
        name: Its name.
        kind: ``"number"``, ``"word"``, ``"date"``, or the name of a type that is none of these.
        missing: Which rows have no value.
        numbers: The values as numbers, NaN where missing; only of a ``"number"`` column.
        text: The values as text; not of a ``"number"`` column.
        boolean: Whether the numbers 0 and 1 stand for false and true.
    """

    table: Table
    name: str
    kind: str
    missing: BoolArray
    numbers: FloatArray | None = None
    text: Any = None
    boolean: bool = False

    def __str__(self) -> str:
        return f"{self.table.source}: column {self.name!r}"

    @cached_property
    def words(self) -> tuple[IntArray, tuple[str, ...]]:
        """Number of each row's value in the sorted list of distinct values (-1 where missing), and that list."""
        codes = np.full(len(self.missing), UNKNOWN, dtype=np.int64)
        if self.numbers is not None:
            distinct, codes[~self.missing] = np.unique(self.numbers[~self.missing], return_inverse=True)
            names = ("false", "true") if self.boolean else None
            return codes, tuple(names[int(value)] if names else _spell(value) for value in distinct)
        coded = self.text.dictionary_encode()
        spelled = [_canonical(word) for word in coded.dictionary.to_pylist()]
        values = sorted(set(spelled), key=_natural_order)
        position = {value: index for index, value in enumerate(values)}
        renumber = np.array([position[word] for word in spelled], dtype=np.int64)
        codes[~self.missing] = renumber[coded.indices.drop_null().to_numpy()]
        return codes, tuple(values)

    def codes_in(self, values: Sequence[str]) -> IntArray:
        """Number of each row's value in ``values``; -1 where it is missing, -2 where it is none of them."""
        codes, own = self.words
        position = {value: index for index, value in enumerate(values)}
        renumber = np.array([*(position.get(value, UNSEEN) for value in own), UNKNOWN], dtype=np.int64)
        return renumber[codes]

    def first(self, rows: BoolArray) -> str:
        """What a message calls the first of the rows marked."""
        return self.table.row(np.argmax(rows))

    def rows(self, marked: BoolArray) -> str:
        """What a message calls the rows marked: the first of them, and how many more there are."""
        return self.table.rows(marked)


def _understand(table: Table, name: str) -> Column:
    chunks = table.data.column(name)
    array = pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.array([], type=chunks.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _understand_text(table, name, array)
    missing = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    if pa.types.is_temporal(kind):
        return Column(table, name, "date", missing, text=array.cast(pa.string()))
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        numbers = array.cast(pa.int8()).cast(pa.float64())
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = array.cast(pa.float64())
    else:
        return Column(table, name, str(kind), missing, text=pa.array([None] * len(array), pa.string()))
    values = np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
    return Column(table, name, "number", np.isnan(values), values, boolean=pa.types.is_boolean(kind))


def _understand_text(table: Table, name: str, array: Any) -> Column:
    text = pc.utf8_trim_whitespace(array.cast(pa.string()))
    text = pc.if_else(pc.is_in(text, value_set=pa.array(MISSING_WORDS)), pa.scalar(None, pa.string()), text)
    missing = np.asarray(text.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    try:
        numbers = (text if table.decimal == "." else pc.replace_substring(text, table.decimal, ".")).cast(pa.float64())
    except pa.ArrowInvalid:
        distinct = text.unique().drop_null().to_pylist()
        if {word.lower() for word in distinct} <= {"true", "false"}:
            truth = pc.equal(pc.utf8_lower(text), "true").cast(pa.int8()).cast(pa.float64())
            return Column(table, name, "number", missing, truth.to_numpy(zero_copy_only=False), boolean=True)
        dates = all(_DATE.fullmatch(word) for word in distinct)
        return Column(table, name, "date" if dates else "word", missing, text=text)
    if pc.any(pc.match_substring_regex(text, _CODE)).as_py():
        return Column(table, name, "word", missing, text=text)
    return Column(table, name, "number", missing, np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64))


def is_number(word: str) -> bool:
    """Whether a word is written as a number, and not as a code such as 007."""
    return _NUMBER.fullmatch(word) is not None and re.match(_CODE, word) is None


def _canonical(word: str) -> str:
    """One spelling per value, so that ``1`` and ``1.0``, ``True`` and ``true`` are the same in every table."""
    if is_number(word):
        return _spell(float(word))
    return word.lower() if word.lower() in ("true", "false") else word


def _spell(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() else repr(float(number))


def _natural_order(word: str) -> tuple[bool, float, str]:
    return (False, float(word), "") if is_number(word) else (True, math.inf, word)
