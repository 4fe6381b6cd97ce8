"""Which methods there are. A new one is one file and one line here, or an entry point of another package."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fairsad.errors import DataError

if TYPE_CHECKING:
    from fairsad.methods.base import Method

ENTRY_POINTS = "fairsad.methods"

# Name on the command line: where the class is, or the constructor of a reading of it.
_BUILT_IN = {
    "fairsad": "fairsad.methods.fairsad:FairSAD",
    "fairsad-code": "fairsad.methods.fairsad:FairSAD.reference_code",
    "gcn": "fairsad.methods.gcn:GCN",
    "edits": "fairsad.methods.edits:EDITS",
    "nifty": "fairsad.methods.nifty:NIFTY",
    "fairgnn": "fairsad.methods.fairgnn:FairGNN",
    "fairvgnn": "fairsad.methods.fairvgnn:FairVGNN",
    "graphair": "fairsad.methods.graphair:Graphair",
    "constant": "fairsad.methods.constant:Constant",
    "threshold": "fairsad.methods.threshold:Threshold",
}


def built_in_names() -> list[str]:
    """The methods of this package by name."""
    return [*_BUILT_IN]


def method_names() -> list[str]:
    """All methods by name, those of other installed packages included."""
    return [*_BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINTS) if point.name not in _BUILT_IN)]


def make_method(name: str, **settings: Any) -> Method:
    """A method by its name, not fitted yet.

    Example:
        >>> make_method("fairsad", alpha=0.5).alpha
        0.5
    """
    made: Method = _constructor(name)(**settings)
    return made


def method_class(name: str) -> type[Method]:
    """The class of a method by its name, without making one.

    Raises:
        DataError: There is no method of that name.
    """
    found = _constructor(name)
    return found if isinstance(found, type) else found.__self__  # a constructor is bound to its class


def published_settings(name: str, graph_name: str) -> dict[str, Any]:
    """The settings that were published for a method on a benchmark; none for any other graph.

    Example:
        >>> published_settings("fairsad", "bail")["beta"]
        0.2
    """
    return dict(all_published_settings(method_class(name).card.name).get(graph_name, {}))


@cache
def all_published_settings(card_name: str) -> dict[str, dict[str, Any]]:
    """The settings that were published for a method, by its name on its card, for each benchmark."""
    file = files("fairsad.methods") / "settings" / f"{card_name}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _constructor(name: str) -> Any:
    if name in _BUILT_IN:
        module, _, attribute = _BUILT_IN[name].partition(":")
        return attrgetter(attribute)(import_module(module))
    points = entry_points(group=ENTRY_POINTS, name=name)
    if not points:
        raise DataError(
            f"no method is known as {name!r}; there are {', '.join(method_names())}. 'fairsad methods' lists them."
        )
    point = next(iter(points))
    try:
        return point.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        package = point.dist.name if point.dist is not None else "another package"
        raise DataError(
            f"the method {name!r} of {package} cannot be imported from {point.value!r} ({error}). "
            f"Repair or uninstall {package}."
        ) from error
