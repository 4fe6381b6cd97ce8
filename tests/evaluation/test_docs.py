"""The guide to the evaluation: what it shows is run, and the figures that it quotes are those that were measured."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fairsad.cli import main
from fairsad.cli.output import console
from fairsad.evaluation.rates import RATES, count_metrics
from fairsad.evaluation.scores import score_metrics

PROJECT = Path(__file__).parents[2]
GUIDE = (PROJECT / "docs" / "evaluation.md").read_text()


def test_the_worked_example_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = re.findall(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", GUIDE, flags=re.DOTALL)
    for name, text in files:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "_width", 80)
    programs = re.findall(r"<!-- run -->\n```(\w+)\n(.*?)```", GUIDE, flags=re.DOTALL)
    seen: dict[str, object] = {}
    for language, program in programs:
        if language == "python":
            exec(program, seen)
            continue
        for line in program.splitlines():
            with pytest.raises(SystemExit) as stop:
                main(shlex.split(line)[1:])
            assert stop.value.code == 0
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"<!-- output -->\n```\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert [line for block in shown for line in block.splitlines() if line not in printed] == []
    assert [name for name, _ in files] == ["loans.csv"]
    assert {language for language, _ in programs} == {"sh", "python"}
    assert shown
    assert (tmp_path / "report.md").is_file()


def test_every_metric_rate_and_finding_is_explained() -> None:
    for metric in (*count_metrics(), *score_metrics()):
        assert f"| {metric.title}" in GUIDE, metric.name
    for name in RATES:
        assert f"| {name.replace('_', ' ')} |" in GUIDE
    source = (PROJECT / "src" / "fairsad" / "evaluation" / "verdict.py").read_text()
    codes = set(re.findall(r'Finding\(\s*"(\w+)"', source))
    assert len(codes) >= 8
    assert codes == set(re.findall(r"^\| `(\w+)`", GUIDE, flags=re.MULTILINE))


def rows_of(section: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "| " in line]


def test_the_coverage_that_is_quoted_is_the_one_that_was_measured() -> None:
    measured = (PROJECT / "benchmarks" / "interval_coverage.md").read_text()
    two_groups, several, others = (rows_of(section)[2:] for section in measured.split("\n## ")[1:])
    quoted = {row[0]: row[1:] for row in rows_of(GUIDE.split("## The intervals")[1].split("\n## ")[0])}
    for column, size in enumerate(("250", "5000")):
        for name, rows, position in (
            ("gap, two groups", two_groups, 2),
            ("signed difference, two groups", two_groups, 3),
            ("gap, several groups or two rates", several, 3),
            ("*for comparison:* percentiles of a gap", two_groups, 9),
        ):
            shares = [float(row[position]) for row in rows if row[1] == size]
            assert quoted[name][column] == f"{min(shares):.1f}–{max(shares):.1f} %"
        single = {row[0].partition(" (")[0]: row[2] for row in others if row[1] == size}
        for name in ("accuracy", "balanced accuracy", "F1", "AUC of a group", "AUC gap"):
            assert quoted[name][column] == f"{single[name]} %"
    paired = [float(row[2]) for row in others if ", paired," in row[0]]
    assert f"({min(paired)} % was the lowest)" in GUIDE


def test_no_model_is_called_fair() -> None:
    assert not re.search(r"\b(is|are|as|be|more) fair\b|\bunfair|\bdebias", GUIDE, flags=re.IGNORECASE)
