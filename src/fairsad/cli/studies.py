"""What ``compare`` and ``reproduce`` share: run a study with live progress, then write and show what came of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import print_json, print_line, print_points, print_tables

if TYPE_CHECKING:
    from fairsad.experiments.backends import Backend
    from fairsad.experiments.runner import Listener, Tally
    from fairsad.experiments.store import Result, Store, Study
    from fairsad.report.digest import Digest

PAGE_FILE = "report.html"

# Options of every command that runs a study.
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Runs at the same time, each in a process of its own.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray", help="Run on the Ray cluster at this address; 'auto' finds or starts one.", show_default=False
    ),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Try trials again that failed before.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


def split_names(text: str | None) -> list[str]:
    """Names with commas between them; a comma inside ``synthetic:nodes=100,seed=1`` does not end a name."""
    names: list[str] = []
    for part in (text or "").split(","):
        if names and "=" in part and ":" not in part and ":" in names[-1]:
            names[-1] += f",{part}"
        elif part.strip():
            names.append(part.strip())
    return names


def run_study(
    study: Study,
    out: Path,
    *,
    jobs: int,
    ray: str | None,
    retry_failed: bool,
    quiet: bool,
    as_json: bool,
) -> Digest:
    """Run what is missing, write tables, figures and the page, and show the tables.

    Returns:
        What came of it.
    """
    from fairsad.experiments.runner import run
    from fairsad.experiments.store import Store
    from fairsad.report.digest import Digest
    from fairsad.training.loop import Interrupted

    store = Store(out)
    with _progress(study, quiet) as listener:
        try:
            tally = run(store, study, _backend(jobs, ray), retry_failed=retry_failed, listener=listener)
        except KeyboardInterrupt:
            there = len(study.trials) - len(store.missing())
            raise Interrupted(
                f"stopped; {there} of {len(study.trials)} trials are kept. The same command goes on from there."
            ) from None
    digest = Digest.of(store)
    written = write_report(digest, out)
    if as_json:
        print_json(content(digest))
    else:
        show(digest)
        _print_end(tally, store, written)
    return digest


def write_report(digest: Digest, folder: Path) -> list[Path]:
    """Tables, figures and the page, into the folder of the study."""
    from fairsad.report.figures import write_figures
    from fairsad.report.page import write_page
    from fairsad.report.tables import write_tables

    return [
        *write_tables(digest, folder),
        *write_figures(digest, folder / "figures"),
        write_page([digest], folder / PAGE_FILE),
    ]


def content(digest: Digest) -> dict[str, Any]:
    """A study as JSON."""
    return {
        "study": digest.study.name,
        "title": digest.study.title,
        "rows": digest.frame.to_dict(orient="records"),
        "conclusions": {graph: digest.conclusions(graph) for graph in digest.graphs},
        "findings": [vars(finding) for finding in digest.findings],
        "failed": {str(result.trial): result.error for result in digest.failures},
        "missing": digest.missing,
    }


def show(digest: Digest) -> None:
    """Print tables, and what they come to."""
    from fairsad.report.tables import shown_tables

    print_line(digest.study.title, style="bold")
    if digest.study.note:
        print_line(digest.study.note, style="dim")
    print_tables(shown_tables(digest))
    if digest.published is not None and digest.published.statements:
        print_line("\nWhat the paper says", style="bold")
        print_points(digest.published.statements)
    for graph in digest.graphs:
        if told := digest.conclusions(graph):
            print_line(f"\nWhat it comes to on {graph}", style="bold")
            print_points(told)


def _print_end(tally: Tally, store: Store, written: list[Path]) -> None:
    for result in store.results():
        if not result.done:
            print_line(f"failed: {result.trial}: {result.error}", style="red")
    if tally.failed:
        print_line(f"{tally.failed} of {tally.wanted} trials failed; --retry-failed tries them again.", style="red")
    print_line(f"\nAll tables, figures and results are in {store.folder}. Open in a browser: {written[-1]}")


def _backend(jobs: int, ray: str | None) -> Backend:
    from fairsad.experiments.backends import Processes, Ray

    if ray is not None:
        return Ray(None if ray in ("", "auto") else ray)
    return Processes(jobs)


# -- progress -----------------------------------------------------------------------------------------------


@contextmanager
def _progress(study: Study, quiet: bool) -> Iterator[Listener]:
    """A live line on a terminal; elsewhere one line per ended trial; nothing if quiet."""
    if quiet:
        yield lambda tally, result: None
    elif sys.stderr.isatty():
        with _live(study) as listener:
            yield listener
    else:
        yield _print_ended


def _print_ended(tally: Tally, result: Result | None) -> None:
    if result is not None:
        ended = f"{tally.done + tally.failed}/{tally.wanted}"
        how = f"{result.seconds:.1f} s" if result.done else f"failed: {result.error}"
        left = f", about {_duration(tally.seconds_left)} left" if tally.seconds_left else ""
        print(f"[{ended}] {result.trial}: {how}{left}", file=sys.stderr, flush=True)


@contextmanager
def _live(study: Study) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(study.name, total=len(study.trials), now="")

        def listen(tally: Tally, result: Result | None) -> None:
            parts = [f"{len(tally.running)} running"] if tally.running else []
            parts += [f"{tally.failed} failed"] if tally.failed else []
            parts += [f"about {_duration(tally.seconds_left)} left"] if tally.seconds_left else []
            parts += [str(tally.running[-1])] if tally.running else []
            bar.update(task, completed=tally.done + tally.failed, now=" · ".join(parts))
            if result is not None and not result.done:
                bar.console.print(f"failed: {result.trial}: {result.error}", style="red", markup=False)

        yield listen


def _duration(seconds: float | None) -> str:
    """``40 s``, ``12 min`` or ``3.5 h``."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
