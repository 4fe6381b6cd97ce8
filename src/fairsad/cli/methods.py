"""``fairsad methods``: which methods there are, and what they can be set to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import console, print_json, print_line, print_tables

if TYPE_CHECKING:
    from fairsad.evaluation.tables import Table


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to see its settings.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the head of the documentation page on methods.")
    ] = False,
) -> None:
    """List the methods, or the settings of one: defaults, where a search looks, values published for benchmarks.

    Example: `fairsad methods fairsad`
    """
    from dataclasses import asdict

    from fairsad.methods import page
    from fairsad.methods.registry import method_names

    if as_markdown:
        print(page.markdown(), end="")
    elif name is None and as_json:
        print_json({known: asdict(card) for known, card in page.cards(method_names()).items()})
    elif name is None:
        print_tables(page.method_tables(method_names()))
        print_line("\n'fairsad methods NAME' shows the settings of one.", style="dim")
    elif as_json:
        print_json(_described(name))
    else:
        _show(name)


def _described(name: str) -> dict[str, Any]:
    from dataclasses import asdict

    from fairsad.methods.parameters import parameters_of
    from fairsad.methods.registry import all_published_settings, make_method

    method = make_method(name)
    settings = {
        setting: {"default": getattr(method, setting), **asdict(allowed)}
        for setting, allowed in parameters_of(type(method)).items()
    }
    published = all_published_settings(method.card.name)
    return {"card": asdict(method.card), "settings": settings, "published": published}


def _show(name: str) -> None:
    from fairsad.methods import page
    from fairsad.methods.registry import method_class

    card = method_class(name).card
    print_line(f"{card.title}, {card.paper}", style="bold")
    for table in page.method_tables([name]):
        for heading, cell in zip(table.columns[1:], table.rows[0][1:], strict=True):
            if heading not in ("method", "paper"):
                print_line(f"{heading}: {cell}")
    _print_settings(page.settings_table(name))
    if published := page.published_table(name):
        print_tables([published])


def _print_settings(settings: Table) -> None:
    """Each with its default and where a search looks, and below it what it means."""
    from rich.padding import Padding
    from rich.text import Text

    from fairsad.evaluation.tables import UNDEFINED

    print_line(f"\n{settings.title}", style="bold")
    for name, default, search, meaning in settings.rows:
        print_line(f"{name} = {default}" + (f"    search: {search}" if search != UNDEFINED else ""))
        console.print(Padding(Text(meaning, style="dim"), (0, 0, 0, 4)))
