"""What the commands print through."""

from __future__ import annotations

import json
import math
from typing import Any

from rich.console import Console

console = Console()


def print_json(content: Any) -> None:
    """Print JSON that every reader accepts: what is not a number becomes null."""
    print(json.dumps(_without_nan(content), indent=2, ensure_ascii=False, allow_nan=False))


def _without_nan(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
