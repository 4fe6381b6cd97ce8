"""``fairsad report``: tables, figures and one page from the results in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairsad.cli.output import print_line

if TYPE_CHECKING:
    from fairsad.experiments.store import Store


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a study, or of several in folders of their own.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page; by default report.html in the folder.", show_default=False)
    ] = None,
    title: Annotated[str, typer.Option("--title", help="Heading of the page.", show_default=False)] = "",
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
) -> None:
    """Write the page, the tables and the figures of what 'fairsad compare' or 'fairsad reproduce' left in a folder.

    The page is one file: it works offline, on a phone and in print.

    Example: `fairsad report results/comparison`
    """
    from fairsad.cli.studies import PAGE_FILE, write_report
    from fairsad.errors import DataError
    from fairsad.evaluation.intervals import check_level
    from fairsad.experiments.store import Store
    from fairsad.report.digest import Digest
    from fairsad.report.page import write_page

    check_level(level)
    stores = [Store(folder)] if Store(folder).has_study else _inside(folder)
    if not stores:
        raise DataError(
            f"{folder} holds no study, nor do its folders; expected what 'fairsad compare' or 'fairsad reproduce' "
            "wrote. Check the path."
        )
    # a study that was begun elsewhere, or is still to be run, must not keep the others from their page
    begun = [store for store in stores if len(store.missing()) < len(store.study.trials)] or stores
    digests = [Digest.of(store, level=level) for store in begun]
    for store, digest in zip(begun, digests, strict=True):
        write_report(digest, store.folder)
    page = write_page(digests, out or folder / PAGE_FILE, title)
    for store in stores:
        if store not in begun:
            print_line(f"left out: {store.folder}, where none of {len(store.study.trials)} trials has ended.")
    print_line(f"{page} is ready; open it in a browser.")


def _inside(folder: Path) -> list[Store]:
    """Studies in the folders of a folder, in the order of the paper."""
    from fairsad.experiments.store import Store
    from fairsad.experiments.studies import NAMES

    order = {name: number for number, name in enumerate(NAMES)}
    stores = [store for path in sorted(folder.glob("*")) if (store := Store(path)).has_study]
    return sorted(stores, key=lambda store: order.get(store.study.name, len(order)))
