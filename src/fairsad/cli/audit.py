"""``fairsad audit``: the evaluation for predictions from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairsad.cli.output import check_delivery, deliver, print_findings, print_line, print_tables

if TYPE_CHECKING:
    import pandas as pd

    from fairsad.evaluation.evaluate import Evaluation


def audit(
    file: Annotated[Path, typer.Argument(help="Predictions, one row per person: .csv or .parquet.")],
    label: Annotated[str, typer.Option("--label", help="Column with what was true.", show_default=False)],
    prediction: Annotated[
        str, typer.Option("--prediction", help="Column with what was decided, in the same values.", show_default=False)
    ],
    sensitive: Annotated[
        list[str],
        typer.Option(
            "--sensitive", help="Columns whose values are the groups: A,B or given repeatedly.", show_default=False
        ),
    ],
    score: Annotated[
        str | None, typer.Option("--score", help="Column with the score; higher means more likely positive.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option("--positive", help="Value of the positive class, where it is not clear.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            "--missing", help="Rows without sensitive value: 'drop' them, put them in a 'group' of their own, 'error'."
        ),
    ] = "drop",
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
    intervals: Annotated[bool, typer.Option(help="Intervals around all numbers.")] = True,
    intersection: Annotated[bool, typer.Option(help="Also the groups by all attributes together.")] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap.")] = 0,
    separator: Annotated[
        str, typer.Option("--separator", help="What stands between the values of a CSV file; \\t for a tab.")
    ] = ",",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Also write to a file: .json or .md.")] = None,
) -> None:
    """Audit a table of predictions, wherever they come from: groups, gaps, intervals, and what to know about them.

    Example: `fairsad audit loans.csv --label defaulted --prediction decision --sensitive gender,age --score risk`
    """
    check_delivery(as_json, as_markdown, out)
    from fairsad.evaluation.audit import audit as audit_frame

    frame, columns = _read(file, label, prediction, sensitive, score, separator)
    evaluation = audit_frame(
        frame,
        label=label,
        prediction=prediction,
        sensitive=columns,
        score=score,
        positive=positive,
        missing=missing,  # type: ignore[arg-type]  # checked there
        intersection=intersection,
        intervals=intervals,
        level=level,
        seed=seed,
    )
    deliver(
        evaluation.to_dict(),
        evaluation.to_markdown(),
        lambda: _show(evaluation),
        as_json=as_json,
        as_markdown=as_markdown,
        out=out,
    )


def _read(
    file: Path, label: str, prediction: str, sensitive: Sequence[str], score: str | None, separator: str
) -> tuple[pd.DataFrame, list[str]]:
    """The columns that are needed, and the names of the sensitive ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from fairsad.data.columns import MISSING_WORDS, read_table, require_columns
    from fairsad.errors import DataError

    if not file.is_file():
        raise DataError(f"there is no file {file}; expected a table of predictions. Check the path.")
    columns: list[str] = []

    def choose(names: list[str]) -> list[str]:
        # A name may have a comma in it.
        columns.extend(name for given in sensitive for name in ([given] if given in names else given.split(",")))
        columns[:] = dict.fromkeys(name if name in names else name.strip() for name in columns if name.strip())
        if not columns:
            raise DataError(f"--sensitive names no column; the columns of {file.name} are {', '.join(names)}.")
        for purpose, wanted in (("label", label), ("prediction", prediction), ("score", score)):
            require_columns(names, [wanted] if wanted is not None else [], file.name, f"--{purpose}")
        require_columns(names, columns, file.name, "--sensitive")
        return list(dict.fromkeys([label, prediction, *columns, *([score] if score is not None else [])]))

    # A tab is hard to type in a shell.
    table = read_table(file, separator="\t" if separator == "\\t" else separator, choose=choose).data
    if file.suffix.lower() == ".csv":  # in which everything is text, and NA is how many programs write nothing
        words = pa.array(MISSING_WORDS)
        for number, name in enumerate(table.column_names):
            gone = pc.is_in(table[name], value_set=words)
            table = table.set_column(number, name, pc.if_else(gone, pa.scalar(None, pa.string()), table[name]))
    return table.to_pandas(), columns


def _show(evaluation: Evaluation) -> None:
    from fairsad.evaluation.tables import evaluation_tables

    counts = evaluation.counts
    total = counts.num_rows + counts.unknown_label + counts.unknown_prediction
    print_line(f"{counts.num_rows:,} of {total:,} rows have label and prediction ({counts.coverage:.1%}).")
    for attribute in evaluation.attributes.values():
        known = f"known for {attribute.coverage:.1%} of them, {len(attribute.groups)} groups"
        print_line(f"{attribute.name}: {known}.")
    for note in evaluation.notes:
        print_line(note)
    print_line("")
    print_findings(evaluation.findings)
    print_tables(evaluation_tables(evaluation))
