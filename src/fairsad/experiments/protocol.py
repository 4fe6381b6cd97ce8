"""How a number came about: what travels with every result besides the protocol of the model itself."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairsad.machine import memory_bytes

# Packages whose version may change a number.
PACKAGES = (
    "fairsad",
    "torch",
    "torch_geometric",
    "numba",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "pyarrow",
)


def provenance() -> dict[str, Any]:
    """Package versions, the host in a few words, and the state of the source where it is a git checkout."""
    return {"versions": versions(), "host": host(), "source": source_state()}


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # vendored by a distribution under another name
            found[name] = "unknown"
    return found


@cache
def host() -> dict[str, Any]:
    """What the host is, without saying which one: system, processor, cores, memory."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
    }


@cache
def source_state() -> dict[str, Any] | None:
    """Commit of the package's own source, and whether it was changed since; ``None`` for an installed package."""
    folder = Path(__file__).parent
    try:
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)  # fails for an installed package
        changes = _git(folder.parent, "status", "--porcelain", ".")
        return {"commit": _git(folder, "rev-parse", "HEAD"), "changed": bool(changes)}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _memory_gb() -> float | None:
    there = memory_bytes()
    return None if there is None else round(there / 1e9, 1)
