from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsad.cli import main
from fairsad.methods.fairsad import FairSAD
from fairsad.sources import load_graph

CARD = 'nodes = "{people}.csv"\nedges = "links.csv"\nid = "id"\nlabel = "repaid"\nsensitive = ["sex"]\n'


def fairsad(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    chance = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(80)],
            "repaid": ["no", "yes"] * 40,
            "sex": chance.choice(["f", "m"], 80),
            "income": chance.normal(size=80) + np.arange(80) % 2,
            "town": chance.choice(["A", "B", "C"], 80),
        }
    )
    people.to_csv(tmp_path / "people.csv", index=False)
    # the new people have neither label nor sensitive value, and a town nobody had in training
    people.assign(town="D").drop(columns=["repaid", "sex"]).to_csv(tmp_path / "new.csv", index=False)
    pd.DataFrame({"a": people["id"], "b": np.roll(people["id"], 1)}).to_csv(tmp_path / "links.csv", index=False)
    for name in ("people", "new"):
        (tmp_path / f"{name}.toml").write_text(CARD.format(people=name))
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_new_people_are_predicted_from_their_own_table(tables: Path, ending: str) -> None:
    assert (
        fairsad("train", tables / "people.toml", "--epochs", 5, "--set", "selection=auc", "--out", tables / "run") == 0
    )
    out = tables / f"predictions.{ending}"
    assert fairsad("predict", tables / "run", tables / "new.toml", "--out", out) == 0
    frame = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    assert list(frame.columns) == ["id", "prediction", "probability_no", "probability_yes"]
    assert frame["id"].tolist() == [f"p{i}" for i in range(80)]
    assert set(frame["prediction"]) <= {"no", "yes"}
    np.testing.assert_array_equal(frame["prediction"] == "yes", frame["probability_yes"] > 0.5)


def test_predictions_are_those_of_the_model(tables: Path) -> None:
    fairsad("train", tables / "people.toml", "--epochs", 5, "--set", "selection=auc", "--out", tables / "run")
    fairsad("predict", tables / "run", tables / "people.toml", "--out", tables / "p.csv")
    graph = load_graph(tables / "people.toml")
    expected = FairSAD.load(tables / "run").predict_proba(graph)[:, 1]
    np.testing.assert_allclose(pd.read_csv(tables / "p.csv")["probability_yes"], expected, rtol=1e-6)


def test_a_card_s_model_is_evaluated_without_naming_the_card_again(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        fairsad("train", tables / "people.toml", "--epochs", 5, "--set", "selection=auc", "--out", tables / "run") == 0
    )
    assert fairsad("evaluate", tables / "run", "--json") == 0
    assert load_graph(tables / "people.toml").fingerprint in capsys.readouterr().out
    (tables / "people.toml").unlink()
    assert fairsad("evaluate", tables / "run") == 2
    assert "cannot be found by this name alone" in capsys.readouterr().err


def test_what_the_user_can_put_right(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fairsad("predict", tables, tables / "new.toml", "--out", tables / "p.csv") == 2
    assert "is not the folder of a saved model" in capsys.readouterr().err
    assert fairsad("predict", tables, tables / "new.toml", "--out", tables / "p.xlsx") == 2
    assert "has the ending '.xlsx'; expected .csv or .parquet" in capsys.readouterr().err
    assert not (tables / "p.csv").exists()
