"""Set-up shared by all tests: where the published files are, and a network that stays out of reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PUBLISHED = PROJECT.parent / "shared" / "data"


def pytest_configure() -> None:
    if "FAIRSAD_DATA" not in os.environ and PUBLISHED.is_dir():
        os.environ["FAIRSAD_DATA"] = str(PUBLISHED)
    # Rebuilt graphs are kept between test runs, apart from the user's own.
    os.environ.setdefault("FAIRSAD_CACHE", str(PROJECT / ".pytest_cache" / "fairsad"))
    os.environ["FAIRSAD_OFFLINE"] = "1"
    # Workers share the cores: threads of one that wait for those of another cost several times what they save.
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def published() -> Path:
    """The folder of benchmark files as their authors published them."""
    folder = Path(os.environ.get("FAIRSAD_DATA", ""))
    if not (folder / "bail" / "bail.csv").is_file():
        pytest.skip("the published benchmark files are not here; set FAIRSAD_DATA to their folder")
    return folder
