"""``fairsad reproduce``: the paper's tables and figures, ours beside its."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairsad.cli.output import console, print_json, print_line
from fairsad.cli.studies import PAGE_FILE, AsJson, Jobs, Quiet, RayAddress, RetryFailed, run_study, split_names

# In place of a study's name.
EVERY_STUDY = "all"


def reproduce(
    study: Annotated[
        str | None,
        typer.Argument(
            help="comparison, ablation, micro-macro, sensitivity, channels, layers, tradeoff; or all.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for the results; by default results/STUDY, and results with a folder per study for all.",
            show_default=False,
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(
            "--datasets", help="Graphs, with commas between them; by default german,bail,credit.", show_default=False
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each row, with seeds 0 to N-1.")] = 5,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", min=1, help="Epochs of every method, for a first look.", show_default=False),
    ] = None,
    jobs: Jobs = 1,
    ray: RayAddress = None,
    retry_failed: RetryFailed = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run a study of the paper again, with intervals and the published numbers beside ours; alone, list the studies.

    What is finished is never computed again: after a kill, the same command goes on.

    Example: `fairsad reproduce comparison --datasets german,bail --jobs 2`; every study, and one page of all:
    `fairsad reproduce all --jobs 2`
    """
    if study is None:
        _list(as_json)
        return
    from fairsad.errors import DataError
    from fairsad.experiments.studies import NAMES, study_card
    from fairsad.report.page import write_page

    every = study == EVERY_STUDY
    if every and as_json:
        raise DataError("--json prints one study; name it, or read summary.csv in the folder of each.")
    overrides: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    folder = out or (Path("results") if every else Path("results") / study)
    # all are planned before the first is run, so that what is wrong is told at once
    planned = [
        (
            study_card(name).plan(split_names(datasets), seeds=seeds, overrides=overrides),
            folder / name if every else folder,
        )
        for name in (NAMES if every else (study,))
    ]
    digests = [
        run_study(each, where, jobs=jobs, ray=ray, retry_failed=retry_failed, quiet=quiet, as_json=as_json)
        for each, where in planned
    ]
    if every:
        print_line(f"All studies on one page: {write_page(digests, folder / PAGE_FILE)}")


def _list(as_json: bool) -> None:
    from rich.table import Table

    from fairsad.experiments.studies import NAMES, study_card

    cards = [study_card(name) for name in NAMES]
    if as_json:
        print_json(
            {card.name: {"title": card.title, "question": card.question, "rows": len(card.rows)} for card in cards}
        )
        return
    table = Table()
    for title in ("study", "question", "rows", "graphs"):
        table.add_column(title, no_wrap=title == "study", justify="right" if title == "rows" else "left")
    for card in cards:
        table.add_row(card.name, card.question, str(len(card.rows)), ", ".join(card.graphs))
    console.print(table)
