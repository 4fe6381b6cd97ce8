from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsad.cli import main
from fairsad.cli.output import console, print_tables
from fairsad.evaluation.audit import audit
from fairsad.evaluation.tables import Table

CHANCE = np.random.default_rng(0)
ROWS = 200
SCORE = CHANCE.random(ROWS)
TABLE = pd.DataFrame(
    {
        "paid": np.where(CHANCE.random(ROWS) < SCORE, "yes", "no"),
        "guess": np.where(SCORE > 0.5, "yes", "no"),
        "sex": CHANCE.choice(["f", "m"], ROWS),
        "age, group": CHANCE.choice(["old", "young"], ROWS),
        "score": SCORE,
        "name": [f"[b]{i}" for i in range(ROWS)],
    }
)
COLUMNS = ["--label", "paid", "--prediction", "guess"]


def fairsad(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["audit", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return stop.value.code, output, errors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    TABLE.to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.csv"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_json_is_the_evaluation_of_the_frame(file: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    code, output, _ = fairsad(
        capsys, file.with_suffix(f".{ending}"), *COLUMNS, "--sensitive", "sex", "--score", "score", "--json"
    )
    assert code == 0
    expected = audit(TABLE, label="paid", prediction="guess", sensitive="sex", score="score").to_dict()
    assert json.loads(output) == json.loads(json.dumps(expected))


def test_findings_stand_before_the_numbers_and_coverage_before_both(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = TABLE.assign(guess="yes", sex=TABLE["sex"].where(np.arange(ROWS) % 4 > 0, "NA"))
    frame.to_csv(file, index=False)
    code, output, _ = fairsad(capsys, file, *COLUMNS, "--sensitive", "sex")
    assert code == 0
    order = [
        "200 of 200 rows have label and prediction (100.0%).",
        "sex: known for 75.0% of them, 2 groups.",
        "sex is missing in 50 rows, which are left out (known: 75.0 %).",
        "NEARLY_CONSTANT 100 % of the 200 predictions are 'yes'",
        "LOW_COVERAGE",
        "\nOverall\n",
        "\nGaps by sex\n",
        "equal opportunity gap (ΔEO)",
        "\nGroups of sex\n",
    ]
    places = [output.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    assert max(map(len, output.split("\nOverall\n")[1].splitlines())) <= 120


def test_wide_tables_are_printed_in_parts_without_losing_a_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_width", 40)
    names = [f"column {i}" for i in range(9)]
    print_tables([Table("Title", ("what", *names), (("[b]row[/b]", *map(str, range(1000, 1009))),), "A note.")])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 40
    assert [word in text for word in [*names, *map(str, range(1000, 1009)), "A note."]] == [True] * 19
    assert text.count("[b]row[/b]") == text.count("what") == 3


def test_markdown_and_files(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = audit(TABLE, label="paid", prediction="guess", sensitive="sex").to_markdown()
    for out in ("report.md", "report.json"):
        code, output, _ = fairsad(
            capsys, file, *COLUMNS, "--sensitive", "sex", "--markdown", "--out", file.with_name(out)
        )
        assert (code, output) == (0, expected)
    assert file.with_name("report.md").read_text() == expected
    assert json.loads(file.with_name("report.json").read_text())["schema"] == "fairsad.evaluation/1"


def test_several_attributes_a_comma_in_a_name_and_their_intersection(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def attributes(*arguments: str) -> list[str]:
        _, output, _ = fairsad(capsys, file, *COLUMNS, *arguments, "--no-intervals", "--json")
        return list(json.loads(output)["attributes"])

    assert attributes("--sensitive", "sex, paid") == ["sex", "paid", "sex × paid"]
    both = ["--sensitive", "sex", "--sensitive", "age, group"]
    assert attributes(*both) == ["sex", "age, group", "sex × age, group"]
    assert attributes(*both, "--no-intersection") == ["sex", "age, group"]


def test_the_options_reach_the_evaluation(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def content(*arguments: str) -> dict[str, Any]:
        _, output, _ = fairsad(capsys, file, *COLUMNS, "--sensitive", "sex", *arguments, "--json")
        return json.loads(output)

    assert content("--positive", "no")["positive"] == "no"
    assert content("--level", "0.9", "--seed", "3")["settings"] | {"num_draws": 0} == {
        "intervals": True,
        "level": 0.9,
        "num_draws": 0,
        "seed": 3,
    }
    assert content("--no-intervals")["overall"]["accuracy"]["interval"] is None
    TABLE.assign(sex=TABLE["sex"].where(np.arange(ROWS) % 4 > 0)).to_csv(file, index=False, sep=";")
    grouped = content("--missing", "group", "--separator", ";")["attributes"]["sex"]["groups"]
    assert [group["name"] for group in grouped] == ["sex=f", "sex=m", "sex=unknown"]
    TABLE.to_csv(file, index=False, sep="\t")
    assert content("--separator", "\\t")["rows"]["counted"] == ROWS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--label", "payed", "--prediction", "guess", "--sensitive", "sex"],
            "has no column 'payed', named as --label",
        ),
        ([*COLUMNS, "--sensitive", "sex,race"], "has no column 'race', named as --sensitive"),
        ([*COLUMNS, "--sensitive", "sex", "--score", "risk"], "has no column 'risk', named as --score"),
        ([*COLUMNS, "--sensitive", "sex", "--score", "name"], "'name' is not a column of scores"),
        ([*COLUMNS, "--sensitive", "name"], "has 200 distinct values"),
        ([*COLUMNS, "--sensitive", " ,"], "--sensitive names no column; the columns of table.csv are paid, guess"),
        ([*COLUMNS, "--sensitive", "sex", "--separator", ";;"], "separator = ';;'; expected one character"),
        ([*COLUMNS, "--sensitive", "sex", "--positive", "1"], "positive is '1', which does not occur"),
        ([*COLUMNS, "--sensitive", "sex", "--level", "95"], "level is 95.0; expected a share"),
        ([*COLUMNS, "--sensitive", "sex", "--missing", "keep"], "missing is 'keep'; expected 'drop'"),
        ([*COLUMNS, "--sensitive", "sex", "--json", "--markdown"], "--json and --markdown are both given"),
        ([*COLUMNS, "--sensitive", "sex", "--out", "r.html"], "has the ending '.html'; expected .json or .md"),
    ],
)
def test_what_the_user_can_put_right_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, output, errors = fairsad(capsys, file, *arguments)
    assert (code, output) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_files_that_are_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no file" in fairsad(capsys, tmp_path / "none.csv", *COLUMNS, "--sensitive", "sex")[2]
    (tmp_path / "table.xlsx").write_text("")
    errors = fairsad(capsys, tmp_path / "table.xlsx", *COLUMNS, "--sensitive", "sex")[2]
    assert "ends in '.xlsx'; expected a table as .csv or .parquet" in errors


def test_an_audit_needs_no_torch(file: Path) -> None:
    code = (
        "import sys, fairsad.cli\n"
        "try:\n    fairsad.cli.main(sys.argv[1:])\n"
        "finally:\n    print(sorted({'torch', 'numba', 'sklearn', 'matplotlib'} & set(sys.modules)), file=sys.stderr)"
    )
    arguments = ["audit", str(file), *COLUMNS, "--sensitive", "sex", "--score", "score"]
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert found.stderr == "[]\n"
    assert "Gaps by sex" in found.stdout


@pytest.mark.slow
def test_a_million_rows_in_twelve_groups_take_seconds_and_less_than_a_gigabyte(tmp_path: Path) -> None:
    rows, chance = 1_000_000, np.random.default_rng(0)
    score = chance.random(rows)
    frame = pd.DataFrame(
        {
            "paid": np.where(chance.random(rows) < score, "yes", "no"),
            "guess": np.where(score > 0.5, "yes", "no"),
            "sex": chance.choice(["f", "m", "x"], rows),
            "age": chance.choice(["20s", "30s", "40s", "50s"], rows),
            "score": score,
        }
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    code = (
        "import resource, subprocess, sys, time\n"
        "start = time.perf_counter()\n"
        "subprocess.run([sys.executable, '-m', 'fairsad', *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)\n"
        "print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    arguments = ["audit", str(tmp_path / "table.csv"), *COLUMNS, "--sensitive", "sex,age", "--score", "score"]
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, found.stdout.split())
    assert seconds < 5
    assert kilobytes < 1_000_000
