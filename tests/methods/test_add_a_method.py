"""The guide to adding a method: its package is put together from the page, found, tested and used."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from unittest import SkipTest

import pytest
import torch

from fairsad.cli import main
from fairsad.errors import DataError
from fairsad.methods.base import GraphFacts, Method
from fairsad.methods.registry import ENTRY_POINTS, make_method, method_names
from fairsad.testing import CHECKS
from fairsad.training.selection import Validator
from tests.graphs import toy_graph

PROJECT = Path(__file__).parents[2]
GUIDE = (PROJECT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", GUIDE, flags=re.DOTALL))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The guide's package as an installer would leave it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    information = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1\n")
    points = (f"{name} = {where}\n" for name, where in project["entry-points"][ENTRY_POINTS].items())
    (information / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{''.join(points)}")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("reweighing", "test_reweighing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_method_is_as_short_as_it_is_said_to_be() -> None:
    assert len([line for line in FILES["reweighing.py"].splitlines() if line.strip()]) <= 40


def test_every_command_knows_the_method(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(package)
    printed = []
    (commands,) = re.findall(r"<!-- run -->\n```sh\n(.*?)```", GUIDE, flags=re.DOTALL)
    for command in commands.splitlines():
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(command)[1:])
        assert stop.value.code == 0
        printed.append(capsys.readouterr().out)
    listed, described, trained, evaluated = printed
    assert "Kamiran and Calders, KAIS 2012" in listed
    assert "strength = 1    search: 0 to 1" in described
    assert "Reweighing on synthetic" in trained
    assert "Reweighing on synthetic" in evaluated
    assert Method.load(package / "runs" / "reweighing").get_params()["strength"] == 0.8


def test_its_weights_make_groups_and_classes_independent(package: Path) -> None:
    chance = torch.rand(300, generator=torch.Generator().manual_seed(0))
    sensitive = (torch.arange(300) % 2).where(chance < 0.7, torch.randint(2, (300,)))
    graph = toy_graph(300, sensitive=sensitive)
    model = make_method("reweighing", epochs=1)
    procedure = model._procedure(model._build(GraphFacts.of(graph)), graph, Validator(graph, "auc"))  # type: ignore[attr-defined]
    train = graph.mask("train")
    y, s = graph.y[train], graph.sensitive[train, 0]
    table = torch.zeros(2, 2).index_put((s, y), procedure.weights, accumulate=True) / len(y)
    torch.testing.assert_close(table, table.sum(1, keepdim=True) * table.sum(0))
    torch.testing.assert_close(table.sum(0), y.bincount() / len(y))


def test_its_own_test_passes_every_check(package: Path) -> None:
    own = import_module("test_reweighing")
    skipped = set()
    for check in CHECKS:
        try:
            own.test_reweighing_keeps_its_promises(check)
        except SkipTest:
            skipped.add(check.__name__)
    assert skipped == {"check_prepares_a_whole_graph", "check_published_settings_are_allowed"}


def test_a_package_that_cannot_be_imported_is_named(package: Path) -> None:
    (package / "reweighing.py").write_text("import nothing_of_that_name")
    assert "reweighing" in method_names()
    with pytest.raises(DataError, match=r"the method 'reweighing' of reweighing cannot be imported .* uninstall"):
        make_method("reweighing")
