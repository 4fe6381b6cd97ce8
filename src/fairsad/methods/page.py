"""The methods in tables, from their cards: for the command line, and for the head of ``docs/methods.md``."""

from __future__ import annotations

from collections.abc import Sequence

from fairsad.evaluation.tables import UNDEFINED, Table
from fairsad.methods.base import MethodCard, Preparation
from fairsad.methods.parameters import Search, parameters_of
from fairsad.methods.registry import all_published_settings, built_in_names, make_method, method_class

COMMAND = "fairsad methods --markdown"

_READS = {
    "none": "nobody",
    "train": "training nodes",
    "not held out": "nodes not held out",
    "all": "everybody",
}


def cards(names: Sequence[str]) -> dict[str, MethodCard]:
    """The card of each method, by its name on the command line."""
    return {name: method_class(name).card for name in names}


def method_tables(names: Sequence[str]) -> tuple[Table, ...]:
    """Where each method is from and when it acts; what it takes; what it costs."""
    known = cards(names)
    origin = [(name, card.title, card.kind, card.paper) for name, card in known.items()]
    support = [
        (
            name,
            card.groups,
            card.classes,
            "yes" if card.unknown_sensitive else "no",
            _READS[card.sensitive_nodes],
            "yes" if card.sensitive_to_predict else "no",
        )
        for name, card in known.items()
    ]
    return (
        Table("Origin and kind", ("name", "method", "kind", "paper"), tuple(origin), numeric=False),
        Table(
            "What they take",
            ("name", "groups", "classes", "unknown", "trains by groups of", "predicts by group"),
            tuple(support),
            "groups: two, or any number and several attributes. unknown: whether groups of training nodes may be. "
            "Apart from these, the groups of validation nodes are read to select and to find thresholds, and every "
            "method reads a sensitive column that is among the features.",
            numeric=False,
        ),
        Table(
            "What they cost",
            ("name", "time and memory"),
            tuple((name, card.cost) for name, card in known.items()),
            numeric=False,
        ),
    )


def settings_table(name: str) -> Table:
    """The settings of a method: default, where a search looks, meaning."""
    method = make_method(name)
    rows = [
        (setting, show_value(getattr(method, setting)), show_search(allowed.search), allowed.help)
        for setting, allowed in parameters_of(type(method)).items()
    ]
    return Table("Settings", ("setting", "default", "search", "meaning"), tuple(rows), numeric=False)


def published_table(name: str) -> Table | None:
    """The settings published for each benchmark; none where there are none."""
    published = all_published_settings(method_class(name).card.name)
    settings = dict.fromkeys(setting for each in published.values() for setting in each)
    if not settings:
        return None
    rows = [
        (setting, *(show_value(each[setting]) if setting in each else UNDEFINED for each in published.values()))
        for setting in settings
    ]
    return Table("Published settings", ("setting", *published), tuple(rows), "Where nothing is given: the default.")


def show_value(value: object) -> str:
    """A setting as ``--set`` takes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def show_search(search: Search | None) -> str:
    """Where a search looks."""
    if search is None:
        return UNDEFINED
    if search.choices:
        return ", ".join(map(show_value, search.choices))
    return f"{search.low:g} to {search.high:g}{', log' if search.log else ''}"


def markdown() -> str:
    """The head of ``docs/methods.md``: all methods of the package."""
    names = built_in_names()
    makers = [f"`{name}`" for name in names if issubclass(method_class(name), Preparation)]
    tables = [table.to_markdown().replace("### ", "## ", 1) for table in method_tables(names)]
    notes = [f"Graphs for others to train on (`--prepare`) are made by {', '.join(makers)}."] if makers else []
    return "\n\n".join([_INTRODUCTION, *tables, *notes]) + "\n"


_INTRODUCTION = f"""# Methods

All through one contract: `fit`, `predict`, `predict_proba`, `embed`, `evaluate`, `save`, `load`.

```
fairsad methods                                              what there is
fairsad methods nifty                                        settings, where a search looks, published values
fairsad train german --method nifty --set sim_coeff=0.5 --out runs/german-nifty
fairsad train german --method gcn --prepare edits --out runs/german-edits
```

On a benchmark the published settings are used unless others are given. Every method passes the checks of
`fairsad.testing`; [add-a-method.md](add-a-method.md) shows how to add one, here or in a package of your own. The tables
are written by `{COMMAND}`; a test compares them with the methods."""
