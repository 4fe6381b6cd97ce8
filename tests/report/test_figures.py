from __future__ import annotations

from pathlib import Path

import pytest

from fairsad.experiments.store import Store
from fairsad.experiments.tune import Candidate
from fairsad.report.digest import Digest
from fairsad.report.figures import scatter_points, write_figures, write_front
from tests.studies import made_up, made_up_sweep


def is_drawn(paths: list[Path]) -> bool:
    pdf, png = paths
    return (
        pdf.read_bytes().startswith(b"%PDF") and png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 5000
    )


def test_a_comparison_a_sweep_and_a_grid_are_drawn(tmp_path: Path) -> None:
    stores = [Store(tmp_path / name) for name in ("comparison", "sweep", "grid")]
    made_up(stores[0])
    made_up_sweep(stores[1], {"num_channels": (1.0, 2.0, 16.0)})
    made_up_sweep(stores[2], {"alpha": (0.1, 1.0), "beta": (1.0, 5.0)})
    for store in stores:
        assert is_drawn(write_figures(Digest.of(store, num_draws=50), tmp_path / "figures"))


def test_points_are_the_means_in_per_cent(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made_up(store)
    digest = Digest.of(store, num_draws=50)
    points = {point["label"]: point for point in scatter_points(digest, "german")}
    cell = digest.cell("german", "GCN", "auc")
    assert cell is not None
    assert points["GCN"]["utility"] == pytest.approx(100 * cell["mean"])
    assert points["GCN"]["gap_low"] <= points["GCN"]["gap"] <= points["GCN"]["gap_high"]


def test_the_same_numbers_make_the_same_file(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made_up(store)
    digest = Digest.of(store, num_draws=50)
    first, second = (write_figures(digest, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_the_front_of_a_search_is_drawn(tmp_path: Path) -> None:
    tried = [
        Candidate(0, {"alpha": 0.1}, 0.8, 0.10, 0.6, True),
        Candidate(1, {"alpha": 1.0}, 0.7, 0.05, 0.7, True),
        Candidate(2, {"alpha": 9.0}, 0.5, 0.00, 0.99, True),
    ]
    assert is_drawn(write_front(tried, tried[1], "auc", "demographic_parity_gap", tmp_path))
