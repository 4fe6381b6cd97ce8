from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairsad.cli import main
from fairsad.data.summary import summarise
from fairsad.data.synthetic import from_spec


def fairsad(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    output, errors = capsys.readouterr()
    return ended.value.code, output, errors


def test_the_tables_show_what_was_counted(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = fairsad(capsys, "describe", "synthetic:nodes=1000,groups=3,bias=0.4")
    assert code == 0
    text = " ".join(output.split())
    assert "1,000 nodes, 5,000 links, 16 features" in text
    assert "group 0 334 33.4%" in text
    assert "base rate gap: 40.0%" in text
    assert "group is among the features, as group=group 0, group=group 1, group=group 2" in text
    assert "by links within by chance adjusted" in text


def test_json_is_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    _, output, _ = fairsad(capsys, "describe", "synthetic:nodes=200,seed=2", "--json")
    assert json.loads(output) == json.loads(json.dumps(summarise(from_spec("nodes=200,seed=2")).to_dict()))


CARD = 'nodes = "people.csv"\nedges = "links.csv"\nid = "id"\nlabel = "repaid"\nsensitive = ["sex"]\n'


def write(folder: Path, card: str = CARD, nodes: str | None = None, links: str = "a,b\n1,2\n") -> str:
    rows = [f"{i},{'yes' if i % 3 else ''},{'[b]' if i % 2 else 'm'},{i}" for i in range(30)]
    rows = [row.replace(",,", ",no,", 1) if i % 6 else row for i, row in enumerate(rows)]
    (folder / "people.csv").write_text(nodes or "id,repaid,sex,age\n" + "\n".join(rows) + "\n")
    (folder / "links.csv").write_text(links)
    (folder / "bank.toml").write_text(card)
    return str(folder / "bank.toml")


def test_a_card_with_unknowns_and_names_that_look_like_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, _ = fairsad(capsys, "describe", write(tmp_path))
    assert code == 0
    assert "unlabelled" in output
    assert "[b]" in output
    assert "sex is not among the features" in output
    assert "28 nodes without any" in output


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"card": CARD + "lable = 1\n"}, "bank.toml: unknown entry 'lable'"),
        ({"card": 'nodes = "people.csv"\n[similarity]\nthreshold = "x"\n'}, "threshold = 'x' is not a number"),
        (
            {"nodes": "id,repaid,sex,age\n1,a,f,1\n1,b,m,2\n2,b,m,2\n"},
            "people.csv: column 'id' has a repeated id, 1 in row 2 and row 3",
        ),
        ({"nodes": "id,sex\n1,f\n2,m\n"}, "people.csv has no column 'repaid'"),
        ({"links": "a,b\n1,99\n"}, "links.csv: column 'b' names an id that people.csv does not have, 99 in row 2"),
    ],
)
def test_what_is_wrong_with_a_card_or_a_table_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: dict[str, str], message: str
) -> None:
    code, output, errors = fairsad(capsys, "describe", write(tmp_path, **parts))
    assert code == 2
    assert output == ""
    assert message in errors
    assert errors.count("\n") == 1
