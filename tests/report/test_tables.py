from __future__ import annotations

import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fairsad.experiments.store import Result, Store
from fairsad.report.digest import Digest
from fairsad.report.tables import (
    metric_title,
    show_limits,
    show_mean,
    show_memory,
    show_published,
    study_tables,
    to_latex,
    to_markdown,
    write_tables,
)
from tests.studies import made_up, made_up_sweep

CELL = {
    "mean": 0.70394,
    "std": 0.0204,
    "seeds": 5,
    "rank": 1,
    "low": 0.681,
    "high": 0.7252,
    "published_mean": 0.7,
    "published_std": 0.01,
    "published_missing": "",
    "impossible": "",
    "difference": 0.00394,
    "difference_low": -0.01,
    "difference_high": 0.02,
    "within_two_std": True,
}


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    store = Store(tmp_path_factory.mktemp("made-up"))
    made_up(store)
    return Digest.of(store, num_draws=100)


def test_cells() -> None:
    assert show_mean(CELL) == "70.39 ± 2.04"
    assert show_mean(CELL, marked=True) == "70.39 ± 2.04 *"
    assert show_mean(CELL | {"seeds": 1, "rank": pd.NA}, marked=True) == "70.39"
    assert show_mean(CELL, limits=True) == "70.39 ± 2.04 [68.1, 72.5]"
    assert show_mean(None) == show_mean(CELL | {"mean": math.nan}) == show_limits(None) == "–"
    assert show_published(CELL) == "70.00 ± 1.00; +0.39 [-1.0, +2.0]"
    assert show_published(CELL | {"within_two_std": False}).endswith(" !")
    assert show_published(CELL | {"impossible": "because"}) == "70.00 ± 1.00 ?"
    assert show_published(CELL | {"published_missing": "OOM"}) == "OOM"
    assert show_memory(612.3) == "612 MB"
    assert show_memory(2048) == "2.0 GB"
    assert metric_title("demographic_parity_gap") == "ΔDP"
    assert metric_title("race:equal_opportunity_gap") == "ΔEO by race"


def test_a_comparison_has_its_values_intervals_published_numbers_and_cost(digest: Digest) -> None:
    titles = [table.title for table in study_tables(digest)]
    assert titles == [
        "german: mean ± std over seeds, in per cent",
        "german: 95 % interval of the mean, over seeds and test nodes",
        "german: beside the paper",
        "german: cost",
    ]
    values = study_tables(digest)[0]
    assert values.columns == ("", "AUC", "F1", "accuracy", "ΔDP", "ΔEO")
    assert [row[0] for row in values.rows] == ["GCN", "FairSAD", "Constant"]
    cell = digest.cell("german", "FairSAD", "demographic_parity_gap")
    assert cell is not None
    assert values.rows[1][4] == f"{100 * cell['mean']:.2f} ± {100 * cell['std']:.2f} *"


def test_a_sweep_is_one_table_and_a_grid_is_one_per_metric(tmp_path: Path) -> None:
    line, grid = Store(tmp_path / "line"), Store(tmp_path / "grid")
    made_up_sweep(line, {"num_channels": (1.0, 2.0, 4.0)})
    made_up_sweep(grid, {"alpha": (0.1, 1.0), "beta": (1.0, 5.0, 9.0)})
    (table,) = study_tables(Digest.of(line, num_draws=50))
    assert table.columns[0] == "K"
    assert [row[0] for row in table.rows] == ["1", "2", "4"]
    tables = study_tables(Digest.of(grid, num_draws=50))
    assert len(tables) == 2
    assert tables[0].columns == ("α \\ β", "1", "5", "9")
    assert [row[0] for row in tables[0].rows] == ["0.1", "1"]


def test_markdown_says_everything_and_what_is_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = made_up(store)
    store.forget(study.trials[:2])
    store.write(Result(study.trials[0], "failed", "it broke"))
    text = to_markdown(Digest.of(store, num_draws=50))
    assert "## What it comes to on german" in text
    assert "- GCN on german, seed 0: it broke" in text
    assert "1 of 7 trials are still missing" in text


def test_latex_has_the_best_in_bold(digest: Digest) -> None:
    text = to_latex(digest)
    assert r"\toprule" in text
    assert r"\textbf{" in text
    assert r"\underline{" not in text, "of two rows the worse is not second best"
    second = replace(digest, frame=digest.frame.assign(rank=2))
    assert r"\underline{" in to_latex(second)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    for sign in "Δ±–":
        assert sign not in text
    for line in text.splitlines():
        if line.endswith(r"\\"):
            assert line.count(" & ") == 5


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_compiles(digest: Digest, tmp_path: Path) -> None:
    whole = r"\documentclass{article}\usepackage{booktabs}\begin{document}" + to_latex(digest) + r"\end{document}"
    (tmp_path / "t.tex").write_text(whole)
    subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True)


def test_files_of_numbers_hold_what_the_tables_show(digest: Digest, tmp_path: Path) -> None:
    written = write_tables(digest, tmp_path)
    assert all(path.is_file() for path in written)
    trials = pd.read_parquet(tmp_path / "trials.parquet")
    assert len(trials) == 7
    mean = trials.loc[trials["label"] == "GCN", "auc"].mean()
    summary = pd.read_parquet(tmp_path / "summary.parquet").set_index(["label", "metric"])
    assert summary.loc[("GCN", "auc"), "mean"] == pytest.approx(mean)
    assert len(pd.read_csv(tmp_path / "summary.csv")) == len(digest.frame)
