from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest


def fairsad(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "fairsad", *arguments], capture_output=True, text=True, check=False)


def test_version() -> None:
    result = fairsad("--version")
    assert result.returncode == 0
    assert result.stdout == f"fairsad {version('fairsad')}\n"


def test_every_command_explains_itself_with_an_example() -> None:
    from fairsad.cli.app import app

    assert "describe" in fairsad("--help").stdout
    for command in app.registered_commands:
        assert command.name is not None
        text = fairsad(command.name, "--help")
        assert text.returncode == 0
        assert f"fairsad {command.name}" in text.stdout, f"no example in the help of {command.name}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "germany"],
        ["describe", "german:seed=x"],
        ["describe", "missing.toml"],
        ["describe"],
        ["no-such-command"],
        ["describe", "german", "--no-such-option"],
    ],
    ids=" ".join,
)
def test_what_the_user_can_put_right_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    result = fairsad(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("fairsad: error: ")
    assert result.stderr.count("\n") == 1


def test_without_a_command_there_is_help_and_no_empty_error() -> None:
    result = fairsad()
    assert result.returncode == 2
    assert "describe" in result.stdout
    assert result.stderr == ""


def test_a_wrong_command_line_names_the_help_of_its_command() -> None:
    assert fairsad("datasets", "fetch").stderr == (
        "fairsad: error: Missing argument 'NAME'. See 'fairsad datasets fetch --help'.\n"
    )


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "rows.csv").write_text("y,p,g\n1,0,a\n0,0,b\n")
    columns = ["--label", "y", "--prediction", "p", "--sensitive", "g"]
    result = fairsad("audit", str(tmp_path / "rows.csv"), *columns, "--out", str(tmp_path / "file" / "report.md"))
    assert result.returncode == 2
    assert result.stderr.startswith(f"fairsad: error: {tmp_path / 'file'}: ")
    assert "expected a place that can be read and written" in result.stderr
    assert result.stderr.count("\n") == 1


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for arguments in (["--debug", "describe", "germany"], ["describe", "germany", "--debug"]):
        result = fairsad(*arguments)
        assert result.returncode != 0
        assert "Traceback" in result.stderr
        assert "DataError" in result.stderr


def test_asking_for_help_is_quick_because_torch_stays_out() -> None:
    code = "import sys, fairsad.cli.app; print('torch' in sys.modules, 'numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False False\n"


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f"{sys.executable} -m fairsad describe german --json | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=Path.home())
    assert result.returncode == 0
    assert "Traceback" not in result.stderr
