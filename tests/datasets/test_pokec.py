from __future__ import annotations

from pathlib import Path

import pytest

from fairsad import datasets
from fairsad.datasets.pokec import DATASETS, POKEC_N, POKEC_Z
from fairsad.errors import DownloadError
from tests.datasets.checks import write_small_pokec


def test_both_samples_are_known_by_name() -> None:
    assert [datasets.get(name).card for name in ("pokec-z", "pokec-n")] == [POKEC_Z, POKEC_N]
    assert [dataset.train_cap for dataset in DATASETS] == [4000, 3500]
    assert {dataset.sensitive_position for dataset in DATASETS} == {3}


@pytest.mark.parametrize(("card", "entries"), [(POKEC_Z, 1_303_712), (POKEC_N, 1_100_663)])
def test_the_sizes_are_those_of_the_published_matrices(card: datasets.Card, entries: int) -> None:
    assert 2 * card.counts.edges + card.counts.nodes == entries  # what others count in A + I
    assert card.paper is not None
    assert (card.counts.nodes, card.counts.features) == (card.paper.nodes, card.paper.features)


@pytest.mark.parametrize("card", [POKEC_Z, POKEC_N])
def test_files_are_checked_by_blob_id_and_have_addresses_of_two_owners(card: datasets.Card) -> None:
    for file in card.files:
        assert file.git_blob is not None
        assert len(file.git_blob) == 40
        assert len({url.split("/")[3 if "raw." in url else 4] for url in file.urls}) == 2
        assert ("jsdelivr" in "".join(file.urls)) == (file.size < 20_000_000)


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSAD_DATA", str(tmp_path))
    monkeypatch.setenv("FAIRSAD_CACHE", str(tmp_path / "cache"))
    write_small_pokec(tmp_path)
    with pytest.raises(DownloadError, match="expected git blob id c50552a998e224f9ee214fff80c249fb5cf40bf9"):
        datasets.load("pokec-z")
