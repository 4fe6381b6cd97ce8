"""Settings of a method as a small TOML file: what ``tune`` writes, and ``train --config`` and ``compare`` read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairsad.errors import DataError
from fairsad.files import whole_file


def write_settings(path: Path, method: str, settings: Mapping[str, Any], comment: str = "") -> None:
    """Write ``method = ...`` and a table of settings.

    Args:
        path: The file.
        method: Name of the method in the registry.
        settings: Values that TOML has: numbers, texts, true and false. None stands for the default and is left out.
        comment: Where the settings come from.
    """
    lines = [f"# {line}" for line in comment.splitlines()]
    lines += [f'method = "{method}"', "", "[settings]"]
    lines += [f"{name} = {_value(value)}" for name, value in settings.items() if value is not None]
    with whole_file(path) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_settings(path: Path) -> tuple[str, dict[str, Any]]:
    """The method and its settings.

    Raises:
        DataError: The file is not there, is not TOML, or has another form.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {path}. 'fairsad tune' writes one.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is not TOML ({error}). Put it right, or let 'fairsad tune' write it.") from None
    method, settings = content.get("method"), content.get("settings", {})
    if not isinstance(method, str) or not isinstance(settings, dict):
        raise DataError(f'{path} has no method; expected a line such as method = "fairsad" and a table [settings].')
    return method, settings


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
