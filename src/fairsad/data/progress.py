"""A progress bar for a person who waits, and nothing at all for a log file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int], None]


@contextmanager
def terminal_progress(description: str, *, in_bytes: bool = False) -> Iterator[Report]:
    """Show a bar on stderr while the block runs, if stderr is a terminal.

    Args:
        description: What is being done.
        in_bytes: Whether the numbers are bytes rather than rows.

    Yields:
        A function to call with what is done and what there is to do.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    amount: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report
