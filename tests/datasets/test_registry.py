"""Tests of ``fairsad.datasets`` itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from fairsad import datasets
from fairsad.datasets.german import CARD, German
from fairsad.errors import DataError

OUTSIDE = German(replace(CARD, name="outside"))
NOT_A_DATASET = "something else"


@pytest.fixture
def plugged_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entries = [
        EntryPoint("outside", f"{__name__}:OUTSIDE", "fairsad.datasets"),
        EntryPoint("broken", f"{__name__}:NOT_A_DATASET", "fairsad.datasets"),
        EntryPoint("german", f"{__name__}:OUTSIDE", "fairsad.datasets"),
    ]
    monkeypatch.setattr(datasets, "entry_points", lambda group: entries if group == "fairsad.datasets" else [])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    datasets._plugged_in.cache_clear()
    yield
    datasets._plugged_in.cache_clear()


def test_the_five_benchmarks_of_the_paper_and_nba() -> None:
    assert set(datasets.names()) >= {"german", "bail", "credit", "pokec-z", "pokec-n", "nba"}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"no dataset 'germany'; expected one of bail, credit, german"):
        datasets.load("germany")


@pytest.mark.usefixtures("plugged_in")
def test_another_package_can_offer_a_dataset() -> None:
    assert "outside" in datasets.names()
    assert datasets.get("outside") is OUTSIDE
    assert datasets.load("outside", split_seed=4).name == "outside"


@pytest.mark.usefixtures("plugged_in")
def test_a_name_that_is_taken_stays_with_its_owner(caplog: pytest.LogCaptureFixture) -> None:
    assert datasets.names().count("german") == 1
    assert datasets.get("german").card == CARD
    assert "a name that is taken" in caplog.text


@pytest.mark.usefixtures("plugged_in")
def test_an_entry_point_that_is_no_dataset_is_named() -> None:
    with pytest.raises(DataError, match=r"entry point broken = .* names a str; expected a fairsad.datasets.Dataset"):
        datasets.get("broken")


def test_listing_is_quick_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from fairsad import datasets; from fairsad.cli import datasets as command; "
        "[datasets.get(name).card for name in datasets.names()]; "
        "print(sorted({'torch', 'pandas', 'requests', 'sklearn'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
