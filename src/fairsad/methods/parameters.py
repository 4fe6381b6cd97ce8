"""Hyper-parameters that know their bounds, so that checks, the command line, search and documentation agree."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairsad.errors import DataError


@dataclass(frozen=True)
class Search:
    """Where a search looks for a value: a range, or a list of choices."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """What a hyper-parameter may be.

    Attributes:
        help: One sentence, for ``fairsad methods`` and the documentation.
        low: Least value, if any.
        high: Greatest value, if any.
        search: Where ``fairsad tune`` looks for it; left alone, if ``None``.
    """

    help: str
    low: float | None = None
    high: float | None = None
    search: Search | None = None


def parameter(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    search: Search | None = None,
) -> Any:
    """A dataclass field of a method, with what it may be."""
    return dataclasses.field(default=default, metadata={"parameter": Parameter(help, low, high, search)})


def parameters_of(method: type) -> dict[str, Parameter]:
    """All hyper-parameters of a method, by name."""
    return {
        field.name: field.metadata["parameter"] for field in dataclasses.fields(method) if "parameter" in field.metadata
    }


def check_parameters(method: Any) -> None:
    """Check every value of a method against its type, its bounds and its choices.

    Raises:
        DataError: All that is wrong, each with what was found, what was expected.
    """
    types_of = typing.get_type_hints(type(method))
    defects = []
    for name, allowed in parameters_of(type(method)).items():
        value = getattr(method, name)
        kinds = _kinds(types_of[name])
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        fits = (
            (value is None and type(None) in kinds)
            or (isinstance(value, bool) and bool in kinds)
            or (numeric and (float in kinds or (int in kinds and isinstance(value, int))))
            or (isinstance(value, str) and str in kinds)
        )
        if choices := _choices(types_of[name]):
            fits = value in choices
        elif fits and numeric:
            fits = (allowed.low is None or value >= allowed.low) and (allowed.high is None or value <= allowed.high)
        if not fits:
            defects.append(f"{name} = {value!r}; expected {_in_words(types_of[name], allowed)}. {allowed.help}")
    if defects:
        raise DataError([f"{type(method).__name__}: {defect}" for defect in defects])


def parse_parameter(method: type, name: str, text: str) -> Any:
    """The value that a text such as ``0.1`` means for this hyper-parameter.

    Raises:
        DataError: The method has no such hyper-parameter, or the text means nothing to it.
    """
    known = parameters_of(method)
    if name not in known:
        raise DataError(f"{method.__name__} has no setting {name!r}; it has {', '.join(sorted(known))}.")
    annotation = typing.get_type_hints(method)[name]
    kinds = _kinds(annotation)
    if type(None) in kinds and text.lower() == "none":
        return None
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    if str in kinds:
        return text
    raise DataError(f"{name} = {text!r}; expected {_in_words(annotation, known[name])}. {known[name].help}")


def parse_settings(method: type, texts: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """What ``name=value`` texts of the command line mean for a method.

    Raises:
        DataError: A text has no value, or its name or its value mean nothing to the method.

    Example:
        >>> from fairsad.methods.gcn import GCN
        >>> parse_settings(GCN, ["epochs=10", "backbone=gin"])
        {'epochs': 10, 'backbone': 'gin'}
    """
    chosen = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise DataError(f"{option} {text!r} has no value; expected name=value, such as {option} epochs=300.")
        chosen[name] = parse_parameter(method, name, value)
    return chosen


def _kinds(annotation: Any) -> set[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return {kind for part in typing.get_args(annotation) for kind in _kinds(part)}
    if typing.get_origin(annotation) is typing.Literal:
        return {type(value) for value in typing.get_args(annotation)}
    return {annotation}


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The only values, where the type is a ``Literal``."""
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def _in_words(annotation: Any, allowed: Parameter) -> str:
    if choices := _choices(annotation):
        return "one of " + ", ".join(repr(choice) for choice in choices)
    kinds = _kinds(annotation)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "none"}
    what = " or ".join(words[kind] for kind in (bool, int, float, str, type(None)) if kind in kinds)
    if allowed.low is not None and allowed.high is not None:
        return f"{what} from {allowed.low:g} to {allowed.high:g}"
    if allowed.low is not None:
        return f"{what}, at least {allowed.low:g}"
    return what if allowed.high is None else f"{what}, at most {allowed.high:g}"
