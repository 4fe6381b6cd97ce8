"""Writing and reading files so that nobody ever meets half of one."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def whole_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path beside the target to write to, and move it there at the end.

    A reader sees the old file or the new one; after an error, only the old one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/deep/note.txt") as partial:
        ...         _ = partial.write_text("whole")
        ...     Path(f"{folder}/deep/note.txt").read_text()
        'whole'
    """
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{secrets.token_hex(6)}.part")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def as_tuples(value: Any) -> Any:
    """Nested lists as tuples: JSON has lists only, and names must not change by accident."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list) else value


def without_nan(content: Any) -> Any:
    """Numbers that are none as null, the one thing that every reader of JSON accepts for them.

    Example:
        >>> without_nan({"gap": float("nan"), "rates": (0.5, float("inf"))})
        {'gap': None, 'rates': [0.5, None]}
    """
    if isinstance(content, Mapping):
        return {key: without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_nan(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
