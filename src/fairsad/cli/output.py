"""What the commands print through."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.text import Text

from fairsad.files import without_nan

if TYPE_CHECKING:
    from fairsad.evaluation.tables import Table
    from fairsad.evaluation.verdict import Finding

console = Console()

# Style of a finding by its severity.
SEVERITY_STYLES = {"problem": "bold red", "warning": "yellow", "note": "dim"}
COLUMN_SPACE = 2


def print_json(content: Any) -> None:
    """Print JSON that every reader accepts: what is not a number becomes null."""
    print(to_json(content))


def to_json(content: Any) -> str:
    """JSON as :func:`print_json` prints it."""
    return json.dumps(without_nan(content), indent=2, ensure_ascii=False, allow_nan=False)


def print_line(text: str, style: str | None = None) -> None:
    """Print text as it is: no markup in it is obeyed, and nothing breaks it but the terminal."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_points(points: Iterable[str]) -> None:
    """Print sentences as a list, broken between words."""
    from rich.table import Table as RichTable

    grid = RichTable.grid(padding=(0, 1, 0, 0))
    for point in points:
        grid.add_row("·", Text(point))
    console.print(grid)


def print_findings(findings: Iterable[Finding]) -> None:
    """Print what there is to know before the numbers are used."""
    for finding in findings:
        text = Text(finding.code, style=SEVERITY_STYLES[finding.severity])
        console.print(text.append(f" {finding.sentence}", style="default"), soft_wrap=True)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables of text; one that is too wide for the terminal in parts, each with the first column."""
    for table in tables:
        print_line(f"\n{table.title}", style="bold")
        for columns in _parts(table):
            console.print(_rendered(table, columns))
        if table.note:
            console.print(Text(table.note, style="dim"))


def _parts(table: Table) -> Iterator[list[int]]:
    """The columns of each part, by number."""
    widths = [
        max(len(line) for cell in column for line in (cell.splitlines() or [""])) + COLUMN_SPACE
        for column in zip(table.columns, *table.rows, strict=True)
    ]
    part = [0]
    for number in range(1, len(widths)):
        wide = sum(widths[column] for column in [*part, number]) - COLUMN_SPACE
        if len(part) > 1 and wide > console.width:
            yield part
            part = [0]
        part.append(number)
    yield part


def _rendered(table: Table, columns: list[int]) -> Any:
    from rich.table import Table as RichTable

    rendered = RichTable(box=None, header_style="dim", pad_edge=False, padding=(0, COLUMN_SPACE, 0, 0))
    for column in columns:
        side: Literal["left", "right"] = "right" if column and table.numeric else "left"
        rendered.add_column(Text(table.columns[column]), justify=side, overflow="fold")
    for row in table.rows:
        rendered.add_row(*(Text(row[column]) for column in columns))
    return rendered


def check_delivery(as_json: bool, as_markdown: bool, out: Path | None) -> None:
    """Refuse what :func:`deliver` cannot do, before anything is computed.

    Raises:
        DataError: Both forms are asked for, or the file is of another kind.
    """
    from fairsad.errors import DataError

    if as_json and as_markdown:
        raise DataError("--json and --markdown are both given; expected one form. Use --out FILE for the other.")
    if out is not None and out.suffix not in (".json", ".md"):
        raise DataError(f"--out {out} has the ending {out.suffix!r}; expected .json or .md.")


def deliver(
    content: Mapping[str, Any],
    markdown: str,
    show: Callable[[], None],
    *,
    as_json: bool,
    as_markdown: bool,
    out: Path | None,
) -> None:
    """Print results in the form that was asked for, and write them to a file as well.

    Args:
        content: For JSON.
        markdown: As Markdown.
        show: Prints them for people.
        as_json: Whether to print JSON.
        as_markdown: Whether to print Markdown.
        out: File, ``.json`` or ``.md``.
    """
    if out is not None:
        from fairsad.files import whole_file

        with whole_file(out) as partial:
            partial.write_text(to_json(content) + "\n" if out.suffix == ".json" else markdown, encoding="utf-8")
    if as_json:
        print_json(content)
    elif as_markdown:
        print(markdown, end="")
    else:
        show()
        if out is not None:
            print_line(f"\nwritten to {out}")
