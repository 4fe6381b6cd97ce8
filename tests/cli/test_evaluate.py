from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsad.cli import main
from fairsad.evaluation.compare import compare
from fairsad.evaluation.probe import probe
from fairsad.methods.base import Method
from fairsad.methods.fairsad import FairSAD
from fairsad.methods.gcn import GCN
from fairsad.sources import load_graph

NAME = "synthetic:nodes=300,seed=2"
GRAPH = load_graph(NAME)


def fairsad(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int | str | None, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", *map(str, arguments)])
    output, errors = capsys.readouterr()
    return stop.value.code, output, errors


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 2, 10):
        FairSAD(epochs=3, seed=seed).fit(GRAPH).save(folder / f"seed-{seed}")
    return folder


def test_json_is_what_python_finds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = fairsad(capsys, runs / "seed-2", "--level", "0.9", "--seed", "4", "--split", "val", "--json")
    assert code == 0
    content = json.loads(output)
    model = FairSAD.load(runs / "seed-2")
    (run,) = content["runs"]
    expected = model.evaluate(GRAPH, "val", level=0.9, seed=4).to_dict()
    assert run["evaluation"] == json.loads(json.dumps(expected))
    assert run["probe"] == json.loads(json.dumps(probe(model, GRAPH, split="val", seed=4).to_dict()))
    assert run["protocol"]["seed"] == 2
    assert content["graph"] == {"name": NAME, "fingerprint": GRAPH.fingerprint, "split_hash": GRAPH.split_hash}
    assert (content["split"], content["notes"], content["seeds"]) == ("val", [], None)
    bare = json.loads(fairsad(capsys, runs / "seed-2", "--no-intervals", "--no-probe", "--json")[1])["runs"][0]
    assert bare["probe"] is None
    assert bare["evaluation"]["overall"]["accuracy"]["interval"] is None


def test_findings_come_first_then_metrics_gaps_groups_and_the_probe(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, _ = fairsad(capsys, runs / "seed-0")
    assert code == 0
    findings = [f.code for f in FairSAD.load(runs / "seed-0").evaluate(GRAPH).findings]
    order = [
        f"FairSAD on {NAME}, split test",
        *findings[:1],
        "\nOverall\n",
        "always 'class ",
        "\nGaps by group\n",
        "\nGroups of group\n",
        "\nProbe\n",
        "Group can be read with AUC 1.000 from the features",
        "\nWhere group can be read\n",
        "\nMask\n",
        "\nDistance correlation\n",
    ]
    places = [output.find(part) for part in order]
    assert findings
    assert -1 not in places
    assert places == sorted(places)


def test_several_seeds_have_a_mean_a_spread_and_each_its_column(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = fairsad(capsys, runs, "--json")
    assert code == 0
    content = json.loads(output)
    assert [Path(run["folder"]).name for run in content["runs"]] == ["seed-0", "seed-2", "seed-10"]
    evaluations = [FairSAD.load(runs / f"seed-{seed}").evaluate(GRAPH) for seed in (0, 2, 10)]
    expected = compare({"FairSAD": evaluations}, p_values=False).to_dict()
    assert content["seeds"] == json.loads(json.dumps(expected))

    markdown = fairsad(capsys, runs, "--markdown")[1]
    (row,) = [line for line in markdown.splitlines() if line.startswith("| AUC |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    aucs = [evaluation.overall["auc"].value.value for evaluation in evaluations]
    assert cells[1] == f"{np.mean(aucs):.3f} ± {np.std(aucs):.3f}"
    assert cells[4:] == [f"{auc:.3f}" for auc in aucs]
    low, high = json.loads(cells[2])
    assert low < np.mean(aucs) < high
    assert "seed-10: Group can be read with AUC" in markdown


def test_a_finding_of_several_seeds_is_told_once(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = fairsad(capsys, runs, "--no-probe")[1]
    every = [FairSAD.load(runs / f"seed-{seed}").evaluate(GRAPH).findings for seed in (0, 2, 10)]
    covering = sum("GAP_COVERS_ZERO" in [finding.code for finding in findings] for findings in every)
    assert covering
    assert output.count("GAP_COVERS_ZERO") == 1
    assert f"GAP_COVERS_ZERO ({covering} of 3 seeds) seed-" in output
    assert "Probe" not in output


def test_a_predictor_that_is_nearly_constant_is_called_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = FairSAD(epochs=1).fit(GRAPH)
    model.model_.classifier.bias.data += 100.0
    model.save(tmp_path)
    output = fairsad(capsys, tmp_path, "--no-probe")[1]
    assert output.splitlines()[2].startswith("NEARLY_CONSTANT 100 % of the 76 predictions are 'class 1'")


def test_what_was_lost_against_an_unconstrained_model_is_a_finding(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unconstrained = GCN(epochs=100, learning_rate=0.05).fit(GRAPH)
    unconstrained.save(tmp_path / "gcn")
    model = FairSAD.load(runs / "seed-0")
    model.model_.classifier.bias.data += 100.0  # always class 1: half of the test nodes are wrong
    model.save(tmp_path / "seed-0")
    content = json.loads(fairsad(capsys, tmp_path / "seed-0", "--reference", tmp_path / "gcn", "--json")[1])
    assert content["notes"] == [f"Held against GCN in {tmp_path / 'gcn'}."]
    (run,) = content["runs"]
    assert run["reference"] == str(tmp_path / "gcn")
    (lost,) = [finding for finding in run["evaluation"]["findings"] if finding["code"] == "UTILITY_LOST"]
    accuracies = [one.evaluate(GRAPH).overall["accuracy"].value.value for one in (model, unconstrained)]
    assert lost["evidence"]["differences"]["accuracy"]["value"] == pytest.approx(accuracies[0] - accuracies[1])
    assert accuracies[1] > accuracies[0]
    assert "UTILITY_LOST" in fairsad(capsys, tmp_path / "seed-0", "--reference", tmp_path / "gcn")[1]


def test_every_seed_is_held_against_the_reference_of_its_seed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(fairsad(capsys, runs, "--reference", runs, "--no-probe", "--json")[1])
    assert [(run["folder"], run["reference"]) for run in content["runs"]] == [
        (str(runs / f"seed-{seed}"),) * 2 for seed in (0, 2, 10)
    ]
    codes = {finding["code"] for run in content["runs"] for finding in run["evaluation"]["findings"]}
    assert not codes & {"UTILITY_LOST", "TRADED_GAP"}  # against itself nothing is lost
    for seed in (2, 10):
        FairSAD.load(runs / f"seed-{seed}").save(tmp_path / f"seed-{seed}")
    code, _, errors = fairsad(capsys, runs, "--reference", tmp_path)
    assert code == 2
    assert "has no model of seed-0, but of seed-2, seed-10; expected one model, or one of every seed" in errors


def test_results_are_written_to_a_file_as_well(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = fairsad(capsys, runs / "seed-0", "--out", tmp_path / "report.md")
    assert code == 0
    assert f"written to {tmp_path / 'report.md'}" in output
    assert fairsad(capsys, runs / "seed-0", "--markdown")[1] == (tmp_path / "report.md").read_text()
    fairsad(capsys, runs / "seed-0", "--out", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["split"] == "test"


def test_another_graph_or_another_split_is_told(runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = "synthetic:nodes=300,seed=3"
    code, output, _ = fairsad(capsys, runs / "seed-0", other, "--no-probe")
    assert code == 0
    assert f"is not the graph of training, '{NAME}' (fingerprint {GRAPH.fingerprint})." in output
    resplit = load_graph(NAME, split_seed=5)
    resplit.save(tmp_path / "resplit.safetensors")
    output = fairsad(capsys, runs, tmp_path / "resplit.safetensors", "--no-probe")[1]
    assert output.count("nodes that trained the model may be among those evaluated") == 1
    assert fairsad(capsys, runs, NAME, "--json")[0] == 0


def test_a_model_of_another_split_does_not_find_its_graph_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FairSAD(epochs=1).fit(load_graph(NAME, split_seed=5)).save(tmp_path)
    code, _, errors = fairsad(capsys, tmp_path)
    assert code == 2
    assert "is not that of training" in errors
    assert f"Name the graph to evaluate on: fairsad evaluate {tmp_path} GRAPH." in errors


def tables(folder: Path, count: int = 80, **changes: Any) -> Path:
    chance = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "repaid": ["no", "yes"] * (count // 2),
            "sex": chance.choice(["f", "m"], count),
            "income": chance.normal(size=count) + np.arange(count) % 2,
            "town": chance.choice(["A", "B", "C"], count),
        }
    ).assign(**changes)
    folder.mkdir(exist_ok=True)
    people.to_csv(folder / "people.csv", index=False)
    pd.DataFrame({"a": people["id"], "b": np.roll(people["id"], 1)}).to_csv(folder / "links.csv", index=False)
    card = folder / "people.toml"
    card.write_text('nodes = "people.csv"\nedges = "links.csv"\nid = "id"\nlabel = "repaid"\nsensitive = ["sex"]\n')
    return card


def test_a_card_is_encoded_as_the_training_table_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = tables(tmp_path / "old")
    graph = load_graph(card)
    FairSAD(epochs=2, selection="auc").fit(graph).save(tmp_path / "run")
    code, _, errors = fairsad(capsys, tmp_path / "run")
    assert code == 2
    assert "was trained on 'people', which cannot be found by this name alone" in errors
    content = json.loads(fairsad(capsys, tmp_path / "run", card, "--json")[1])
    assert content["notes"] == []
    assert content["runs"][0]["evaluation"]["rows"]["counted"] == int(graph.test_mask.sum())

    new = tables(tmp_path / "new", count=40, town="D")  # a town that nobody had in training
    content = json.loads(fairsad(capsys, tmp_path / "run", new, "--split", "all", "--json")[1])
    assert "is not the graph of training" in content["notes"][0]
    assert content["runs"][0]["evaluation"]["rows"]["counted"] == 40
    unlabelled = tables(tmp_path / "unlabelled", repaid="")
    assert "has no nodes in split 'test'" in fairsad(capsys, tmp_path / "run", unlabelled)[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none"], "holds neither a model nor seed-* folders of models"),
        (["seed-0", "--split", "tests"], "unknown split 'tests'"),
        (["seed-0", "--level", "0"], "level is 0.0; expected a share"),
        (["seed-0", "german"], "has other features than the model was trained on"),
        (["seed-0", "--json", "--markdown"], "--json and --markdown are both given"),
    ],
)
def test_what_the_user_can_put_right_is_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, output, errors = fairsad(capsys, runs / arguments[0], *arguments[1:])
    assert (code, output) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_seeds_of_different_methods_are_not_averaged(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(card=SimpleNamespace(name=f"method of {folder.name}"))

    monkeypatch.setattr(Method, "load", load)
    _, _, errors = fairsad(capsys, runs)
    assert "hold models of method of seed-0, method of seed-2, method of seed-10; expected one method" in errors
