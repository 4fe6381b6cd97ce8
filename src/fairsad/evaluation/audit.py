"""The evaluation for a table of predictions from anywhere: strings or numbers, with missing values.

How a column is read is stated, not guessed in silence: the notes of the evaluation say which class counts as positive
and why, and what became of the missing values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fairsad.errors import DataError
from fairsad.evaluation.evaluate import Evaluation, evaluate_predictions
from fairsad.groups import UNKNOWN, Groups

if TYPE_CHECKING:
    import pandas as pd

Missing = Literal["drop", "group", "error"]
# What a cell means once 1, 1.0, True and "1" are the same.
Cell = str | int | float

UNKNOWN_GROUP = "unknown"
MAX_CLASSES = 50
MAX_VALUES = 100
MAX_GROUPS = 10_000
# Pairs of values whose meaning is settled, negative first; compared without regard to case.
KNOWN_PAIRS: tuple[tuple[Cell, Cell], ...] = (
    (0, 1),
    (-1, 1),
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("negative", "positive"),
    ("bad", "good"),
)


def audit(
    frame: pd.DataFrame,
    *,
    label: str,
    prediction: str,
    sensitive: str | Sequence[str],
    score: str | None = None,
    positive: Any = None,
    missing: Missing = "drop",
    intersection: bool = True,
    intervals: bool = True,
    level: float = 0.95,
    num_draws: int = 10_000,
    seed: int = 0,
) -> Evaluation:
    """Evaluate a table of predictions from anywhere.

    Values may be strings, numbers or booleans; ``1``, ``1.0``, ``True`` and ``"1"`` are the same value, and empty text
    is a missing one. Rows without label or prediction are left out and counted, and rows without score are left out of
    the metrics on scores.

    Args:
        frame: One row per person.
        label: Column with what was true.
        prediction: Column with what was decided, in the same values as the label.
        sensitive: One or more columns whose values are the groups.
        score: Column with the score behind the decision; higher means more likely positive.
        positive: Value of the positive class. Without it: the settled one of a known pair (1 of 0 and 1, yes of no and
            yes, ...); of more than two classes none, and each class is taken against the rest.
        missing: What becomes of a row without a sensitive value. ``"drop"``: it is left out where that attribute
            counts, and the coverage is reported; ``"group"``: it is in a group of its own, ``unknown``; ``"error"``.
        intersection: Whether several columns are also combined into one partition.
        intervals: Whether to make intervals.
        level: Confidence level.
        num_draws: Bootstrap draws, where there is no formula.
        seed: Seed of the draws.

    Returns:
        The evaluation; its notes say how the columns were read.

    Raises:
        DataError: If a column is missing or its values cannot be read as described.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"paid": ["yes", "no"] * 50, "guess": "yes", "sex": ["f", "f", "m", "m"] * 25})
        >>> evaluation = audit(frame, label="paid", prediction="guess", sensitive="sex")
        >>> evaluation.positive, evaluation.overall["accuracy"].value.value
        ('yes', 0.5)
        >>> evaluation.findings[0].code
        'NEARLY_CONSTANT'
    """
    columns = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    if missing not in ("drop", "group", "error"):
        raise DataError(f"missing is '{missing}'; expected 'drop', 'group' or 'error'. Pass one of them.")
    _check_columns(frame, [label, prediction, *([score] if score is not None else []), *columns])
    label_cells, label_codes = _read(frame[label])
    prediction_cells, prediction_codes = _read(frame[prediction])
    cells = _classes(label, label_cells, prediction, prediction_cells)
    positive_code, rule = _positive(cells, positive, f"{label} and {prediction}")
    notes = [rule] if rule else []
    groups: dict[str, Groups] = {}
    for name in columns:
        groups[name], note = _groups(name, *_read(frame[name]), missing)
        notes += [note] if note else []
    if intersection and math.prod(map(len, groups.values())) > MAX_GROUPS:
        raise DataError(
            f"{' × '.join(columns)} has {math.prod(map(len, groups.values()))} combinations; expected at most "
            f"{MAX_GROUPS}. Pass intersection=False, fewer columns, or coarser values."
        )
    return evaluate_predictions(
        _recode(label_codes, label_cells, cells),
        _recode(prediction_codes, prediction_cells, cells),
        groups,
        None if score is None else _scores(frame[score]),
        class_names=[show(cell) for cell in cells],
        positive=positive_code,
        intersection=intersection,
        intervals=intervals,
        level=level,
        num_draws=num_draws,
        seed=seed,
        notes=notes,
    )


def _check_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    known = list(map(str, frame.columns))
    for name in names:
        if list(frame.columns).count(name) != 1:
            many = name in known
            raise DataError(
                f"there {'is more than one' if many else 'is no'} column '{name}'; columns are: {', '.join(known)}. "
                f"{'Rename one of them' if many else 'Pass one of these names, or add the column'}."
            )
    if len(frame) == 0:
        raise DataError("the table has no rows; expected at least one. Check the file and how it was read.")


def canonical(value: Any) -> Cell | None:
    """The meaning of a cell: numbers and text of numbers are one number, empty text is missing (None).

    Example:
        >>> canonical("1.0"), canonical(True), canonical(" yes "), canonical("")
        (1, 1, 'yes', None)
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            number = float(text)
        except ValueError:
            return text or None
        # "nan" and "inf" are text that float() happens to read, and "007" is a code and not a number.
        if not math.isfinite(number) or (text.lstrip("+-")[:1] == "0" and text.lstrip("+-")[1:2].isdigit()):
            return text
        value = number
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        return int(value) if number.is_integer() else number
    return str(value)


def show(cell: Cell) -> str:
    """A cell's name in tables."""
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _read(series: pd.Series[Any]) -> tuple[list[Cell], npt.NDArray[np.int64]]:
    """The distinct meanings in a column in order, numbers first, and the code of each row; -1 where missing."""
    import pandas as pd  # only where there is a table

    codes, values = pd.factorize(series)
    meanings = [canonical(value) for value in values]
    cells = sorted({cell for cell in meanings if cell is not None}, key=_order)
    position = {cell: code for code, cell in enumerate(cells)}
    recoded = np.array([UNKNOWN if cell is None else position[cell] for cell in meanings] + [UNKNOWN], dtype=np.int64)
    return cells, recoded[codes]  # the code -1 of a missing value picks the last entry, which is UNKNOWN


def _order(cell: Cell) -> tuple[bool, float, str]:
    return (True, 0.0, cell) if isinstance(cell, str) else (False, float(cell), "")


def _recode(codes: npt.NDArray[np.int64], cells: Sequence[Cell], classes: Sequence[Cell]) -> npt.NDArray[np.int64]:
    position = {cell: code for code, cell in enumerate(classes)}
    return np.array([position[cell] for cell in cells] + [UNKNOWN], dtype=np.int64)[codes]


def _classes(label: str, label_cells: list[Cell], prediction: str, prediction_cells: list[Cell]) -> list[Cell]:
    """The classes that both columns speak of, with the absent one of a known pair."""
    for name, cells in ((label, label_cells), (prediction, prediction_cells)):
        if not cells:
            raise DataError(f"column '{name}' has no value at all; expected classes. Check the file.")
        if len(cells) > MAX_CLASSES:
            numbers = not any(isinstance(cell, str) for cell in cells)
            raise DataError(
                f"column '{name}' has {len(cells)} distinct values, such as {_listed(cells)}; expected classes, at "
                f"most {MAX_CLASSES}. "
                + (
                    "If they are scores, pass that column as score and a column of decisions as prediction."
                    if numbers
                    else "Pass the column that holds the decision."
                )
            )
    only_label = [cell for cell in label_cells if cell not in prediction_cells]
    only_prediction = [cell for cell in prediction_cells if cell not in label_cells]
    if only_label and only_prediction:
        raise DataError(
            f"the values of '{label}' ({_listed(label_cells)}) and of '{prediction}' ({_listed(prediction_cells)}) do "
            "not agree; expected the same values with the same meaning. Recode one of the columns."
        )
    cells = sorted({*label_cells, *prediction_cells}, key=_order)
    if len(cells) == 1:
        pair = _known_pair(cells)
        if pair is not None:  # nobody has the other class, but it is known what it would be
            other = next(cell for cell in pair if cell != _folded(cells[0]))
            return sorted([cells[0], other], key=lambda cell: pair.index(_folded(cell)))
        raise DataError(
            f"'{label}' and '{prediction}' hold the single value {_listed(cells)}; expected at least two classes. "
            "There is nothing to compare."
        )
    return cells


def _known_pair(cells: Sequence[Cell]) -> tuple[Cell, Cell] | None:
    """The settled pair that these values belong to."""
    folded = {_folded(cell) for cell in cells}
    return next((pair for pair in KNOWN_PAIRS if folded <= set(pair)), None)


def _folded(cell: Cell) -> Cell:
    return cell.casefold() if isinstance(cell, str) else cell


def _positive(cells: Sequence[Cell], positive: Any, where: str) -> tuple[int | None, str]:
    """Code of the positive class, and by which rule."""
    if positive is not None:
        wanted = canonical(positive)
        if wanted not in cells:
            raise DataError(
                f"positive is {positive!r}, which does not occur in {where}; expected one of: {_listed(cells)}. Pass "
                "one of them."
            )
        code = [cell == wanted for cell in cells].index(True)
        return code, f"Positive class: {show(cells[code])}, as asked for."
    if set(cells) == {-1, 0, 1}:
        raise DataError(
            f"{where} hold -1, 0 and 1, where -1 may be a third class or stand for unknown; expected one meaning. "
            "Leave unknown cells empty, or write the three classes as words."
        )
    if len(cells) > 2:
        return None, "More than two classes and no positive one: each is taken against the rest, and their mean."
    pair = _known_pair(cells)
    if pair is None:
        raise DataError(
            f"{where} hold {_listed(cells)}, which does not tell which is the positive class; expected to know the "
            f"favourable or the searched-for one. Pass positive={cells[1]!r} (--positive {show(cells[1])}) or "
            f"positive={cells[0]!r}."
        )
    code = next(code for code, cell in enumerate(cells) if _folded(cell) == pair[1])
    return code, f"Positive class: {show(cells[code])} (of {_listed(cells)}), by its name."


def _groups(name: str, cells: list[Cell], codes: npt.NDArray[np.int64], missing: Missing) -> tuple[Groups, str]:
    """The groups of a sensitive column, and what became of missing values."""
    number = int((codes < 0).sum())
    if not cells:
        raise DataError(f"column '{name}' has no value at all; expected groups. Leave it out or check the file.")
    if len(cells) > MAX_VALUES:
        raise DataError(
            f"column '{name}' has {len(cells)} distinct values, such as {_listed(cells)}; expected groups, at most "
            f"{MAX_VALUES}. Bin the values first, for instance ages into decades."
        )
    names = [f"{name}={show(cell)}" for cell in cells]
    if not number:
        return Groups(codes, tuple(names)), ""
    if missing == "error":
        raise DataError(
            f"column '{name}' is missing in {number} of {len(codes)} rows; expected a value in every row with "
            "missing='error'. Fill them, or pass missing='drop' or missing='group'."
        )
    if missing == "drop":
        share = 100 * (1 - number / len(codes))
        return Groups(
            codes, tuple(names)
        ), f"{name} is missing in {number} rows, which are left out (known: {share:.1f} %)."
    if f"{name}={UNKNOWN_GROUP}" in names:
        raise DataError(
            f"column '{name}' has both missing values and a group called '{UNKNOWN_GROUP}'; expected missing='group' "
            "to name the missing ones so. Rename that group."
        )
    filled = np.where(codes < 0, len(names), codes)
    note = f"{name} is missing in {number} rows, which are the group {name}={UNKNOWN_GROUP}."
    return Groups(filled, (*names, f"{name}={UNKNOWN_GROUP}")), note


def _scores(series: pd.Series[Any]) -> npt.NDArray[np.float64]:
    import pandas as pd

    try:
        numbers = np.asarray(pd.to_numeric(series, errors="coerce"), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"column '{series.name}' is not a column of scores ({error}); expected numbers. Pass another column."
        ) from error
    words = np.isnan(numbers) & series.notna().to_numpy()
    if words.any():
        raise DataError(
            f"column '{series.name}' is not a column of scores: {int(words.sum())} of its {len(numbers)} values are no "
            f"numbers, such as {series[words].iloc[0]!r}; expected numbers. Correct them, or pass another column."
        )
    return numbers


def _listed(cells: Sequence[Cell]) -> str:
    shown = ", ".join(repr(cell) for cell in cells[:6])
    return shown + (", ..." if len(cells) > 6 else "")
