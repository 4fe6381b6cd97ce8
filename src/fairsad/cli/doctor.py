"""``fairsad doctor``: what is installed, what runs where, and where files go."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from fairsad.cli.output import console, print_json

# `optuna>=3.6; extra == "tune"`, as the package's own metadata spell a requirement.
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)[^;]*(?:;.*extra == ['\"](?P<extra>[\w-]+)['\"])?")
_FOR_DEVELOPERS = ("dev",)


def doctor(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions, device, kernels, folders and extras: what to send along with a question.

    Example: fairsad doctor --json
    """
    findings = examine()
    if json:
        print_json(findings)
        return
    for title, section in findings.items():
        console.print(title, style="bold")
        width = max(map(len, section))
        for name, value in section.items():
            line = f"  {name:{width}}  {_SPELLING[title](value)}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)


def examine() -> dict[str, dict[str, Any]]:
    """Everything the command shows, as plain data."""
    return {
        "versions": _versions(),
        "device": _device(),
        "kernels": _kernels(),
        "folders": _folders(),
        "extras": _extras(),
    }


def _versions() -> dict[str, str | None]:
    required = [name for name, extra in _requirements() if extra is None]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "fairsad": metadata.version("fairsad"),
        **{name: _version(name) for name in required},
    }


def _device() -> dict[str, Any]:
    import torch

    return {
        "cpu": f"{platform.machine()} with {torch.backends.cpu.get_cpu_capability()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "mps": torch.backends.mps.is_available(),
    }


def _kernels() -> dict[str, Any]:
    import torch

    from fairsad.kernels import describe_backend

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return {device: describe_backend(device) for device, present in there.items() if present} | {
        "compiled": _compiled_loops()
    }


def _compiled_loops() -> dict[str, Any]:
    """Where the compiled loops are kept, and how many there are by now; they are compiled when first used."""
    import numba

    from fairsad.kernels import compiled

    try:
        # Numba picks the folder by where the source stands; wrapping a function compiles nothing yet.
        folder = numba.njit(cache=True)(compiled.compile_loop).stats.cache_path
    except RuntimeError:  # no place to write to
        folder = None
    return {"folder": folder, "loops": len(list(Path(folder).glob("*.nbi"))) if folder else 0}


def _folders() -> dict[str, Any]:
    from fairsad.data.download import cache_folder, data_folders, is_offline

    return {
        "data": [_folder(path) for path in data_folders()],
        "cache": [_folder(cache_folder())],
        "offline": is_offline(),
    }


def _folder(path: Path) -> dict[str, Any]:
    made_in = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return {"path": str(path), "exists": path.is_dir(), "writable": os.access(made_in, os.W_OK)}


def _extras() -> dict[str, dict[str, Any]]:
    packages: dict[str, dict[str, str | None]] = {}
    for name, extra in _requirements():
        if extra is not None and extra not in _FOR_DEVELOPERS:
            packages.setdefault(extra, {})[name] = _version(name)
    return {
        extra: {
            "present": None not in versions.values(),
            "versions": versions,
            "install": f'pip install "fairsad[{extra}]"',
        }
        for extra, versions in packages.items()
    }


def _requirements() -> list[tuple[str, str | None]]:
    """The packages that this one asks for, each with the extra that asks for it."""
    matches = (_REQUIREMENT.match(line) for line in metadata.requires("fairsad") or [])
    return [(match["name"], match["extra"]) for match in matches if match]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# -- in words -----------------------------------------------------------------------------------------------


def _spell_plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _spell_version(version: str | None) -> str:
    return version or "not installed"


def _spell_kernels(value: str | Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return value
    if value["folder"] is None:
        return "nowhere to keep them; set NUMBA_CACHE_DIR to a folder, or they are compiled in every process"
    return f"{value['loops']} loops kept in {value['folder']}"


def _spell_folders(value: bool | list[Mapping[str, Any]]) -> str:
    if isinstance(value, bool):
        return _spell_plain(value)
    return ", ".join(
        f"{folder['path']} ({'there' if folder['exists'] else 'not there yet'}, "
        f"{'writable' if folder['writable'] else 'read-only'})"
        for folder in value
    )


def _spell_extra(extra: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {_spell_version(version)}" for name, version in extra["versions"].items())
    return packages if extra["present"] else f"{packages}; to add: {extra['install']}"


_SPELLING: dict[str, Any] = {
    "versions": _spell_version,
    "device": _spell_plain,
    "kernels": _spell_kernels,
    "folders": _spell_folders,
    "extras": _spell_extra,
}
