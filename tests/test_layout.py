"""The house stays in order: a test file per module, rooms that import only to their left, a quick import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "fairsad"
MODULES = sorted(path for path in SOURCE.rglob("*.py"))

# Data flows from left to right; a module at the top level belongs to the room named here.
ROOMS = (
    ("errors", "files", "groups", "kernels"),
    ("graph",),
    ("data", "datasets", "sources"),
    ("nn", "losses"),
    ("evaluation",),  # numpy only: no model, no torch, so methods may select by its metrics
    ("training",),
    ("methods",),
    ("experiments",),
    ("report",),
    ("cli",),
)
ROOM_ORDER = {name: position for position, names in enumerate(ROOMS) for name in names}


@pytest.mark.parametrize("module", [path for path in MODULES if not path.name.startswith("__")], ids=str)
def test_every_module_has_a_test_file(module: Path) -> None:
    relative = module.relative_to(SOURCE)
    expected = Path(__file__).parent / relative.parent / f"test_{relative.name}"
    assert expected.is_file(), f"{relative} has no test file {expected.relative_to(Path(__file__).parent.parent)}"


def _imports(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.split(".")[1] for name in names if name.startswith("fairsad.")}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_rooms_import_only_from_rooms_to_their_left(module: Path) -> None:
    room = module.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room.startswith("__") or room == "testing":  # the front door opens onto every room
        return
    for imported in _imports(module) & set(ROOM_ORDER):
        assert ROOM_ORDER[imported] <= ROOM_ORDER[room], f"{room} must not import from {imported}"


def test_the_package_is_imported_within_a_fifth_of_a_second() -> None:
    code = "import time; start = time.perf_counter(); import fairsad; print(time.perf_counter() - start)"
    seconds = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    )
    assert seconds < 0.2


def test_every_public_name_can_be_imported() -> None:
    import fairsad

    for name in fairsad.__all__:
        assert getattr(fairsad, name) is not None
    assert set(fairsad.__all__) <= set(dir(fairsad))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fairsad.nothing
