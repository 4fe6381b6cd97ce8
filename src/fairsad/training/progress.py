"""A progress bar that says what matters: the loss parts, utility and gap on validation, and the time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# What of an evaluation is worth a look while waiting, where it is measured.
WATCHED = {"val_auc": "AUC", "val_acc": "accuracy", "val_dp": "ΔDP", "val_eo": "ΔEO"}


class Progress:
    """A bar on stderr; nothing at all where stderr is not a terminal.

    Args:
        title: What is being trained.
        enabled: ``None`` shows the bar on a terminal only.
    """

    def __init__(self, title: str = "training", enabled: bool | None = None) -> None:
        self.title = title
        self.enabled = sys.stderr.isatty() if enabled is None else enabled
        self._bar: Any = None
        self._task: Any = None
        self._validation = ""

    @contextmanager
    def running(self, epochs: int, start: int = 0) -> Iterator[None]:
        """Show the bar for the time of a run."""
        if not self.enabled:
            yield
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[parts]}"),
        )
        with Bar(*columns, console=Console(stderr=True), transient=True) as self._bar:
            self._task = self._bar.add_task(self.title, total=epochs, completed=start, parts="")
            yield
        self._bar = None

    def epoch(self, row: Mapping[str, float]) -> None:
        """One epoch is done."""
        if self._bar is None:
            return
        seen = [f"{title} {100 * row[key]:.1f}" for key, title in WATCHED.items() if key in row]
        self._validation = " ".join(seen) or self._validation
        parts = " ".join(
            f"{name} {value:.3g}"
            for name, value in row.items()
            if name not in ("epoch", "score", "seconds") and not name.startswith("val_")
        )
        text = f"{parts} · validation {self._validation}" if self._validation else parts
        self._bar.update(self._task, completed=row["epoch"] + 1, parts=text)
