"""What this machine has."""

from __future__ import annotations

import os


def memory_bytes() -> int | None:
    """Its memory, where the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
