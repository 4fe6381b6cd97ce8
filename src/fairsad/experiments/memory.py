"""The largest memory of this process since a moment, where the system tells it."""

from __future__ import annotations

import math
import re
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def reset_peak() -> None:
    """Begin to measure anew; without effect where the system does not offer it."""
    if _CLEAR.exists():
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")


def peak_mb() -> float:
    """Largest resident memory in MiB since ``reset_peak``; NaN where the system does not tell."""
    if not _CLEAR.exists():
        return math.nan
    found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text(encoding="ascii"))
    return int(found.group(1)) / 1024 if found else math.nan
