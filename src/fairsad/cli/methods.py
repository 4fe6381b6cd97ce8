"""``fairsad methods``: which methods there are, and what they can be set to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fairsad.cli.output import console, print_json


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to see its settings.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods, or the settings of one.

    Example: `fairsad methods fairsad`
    """
    from dataclasses import asdict

    from fairsad.methods.parameters import parameters_of
    from fairsad.methods.registry import make_method, method_names

    if name is None:
        cards = {known: asdict(make_method(known).card) for known in method_names()}
        if as_json:
            print_json(cards)
        else:
            _print_cards(cards)
        return
    method = make_method(name)
    settings = {
        setting: {"default": getattr(method, setting), "help": allowed.help}
        for setting, allowed in parameters_of(type(method)).items()
    }
    if as_json:
        print_json({"card": asdict(method.card), "settings": settings})
        return
    from rich.table import Table

    table = Table(title=f"{method.card.title} ({method.card.paper})")
    for title in ("setting", "default", "meaning"):
        table.add_column(title, no_wrap=title == "setting")
    for setting, facts in settings.items():
        table.add_row(setting, str(facts["default"]), str(facts["help"]))
    console.print(table)


def _print_cards(cards: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table()
    for title in ("name", "method", "paper", "kind", "groups", "classes", "unknown groups", "cost"):
        table.add_column(title, no_wrap=title == "name")
    for known, card in cards.items():
        table.add_row(
            known,
            card["title"],
            card["paper"],
            card["kind"],
            card["groups"],
            card["classes"],
            "yes" if card["unknown_sensitive"] else "no",
            card["cost"],
        )
    console.print(table)
