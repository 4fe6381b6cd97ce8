from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairsad.data.similarity import similarity_edges
from fairsad.datasets import derived
from fairsad.datasets.derived import rebuilt_edges

FEATURES = np.random.default_rng(0).normal(size=(30, 3))
EXPECTED = similarity_edges(FEATURES, 0.8)


class Counter:
    """Counts how often a graph is really rebuilt."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *arguments: object, **settings: object) -> object:
        self.calls += 1
        return similarity_edges(*arguments, **settings)  # type: ignore[arg-type]


@pytest.fixture
def rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter:
    monkeypatch.setenv("FAIRSAD_CACHE", str(tmp_path / "cache"))
    counter = Counter()
    monkeypatch.setattr(derived, "similarity_edges", counter)
    return counter


@pytest.fixture
def kept(tmp_path: Path, rebuilds: Counter) -> Path:
    """The file of a graph that was rebuilt once."""
    np.testing.assert_array_equal(rebuild(), EXPECTED)
    (path,) = (tmp_path / "cache" / "derived").iterdir()
    return path


def rebuild(threshold: float = 0.8, source: str = "ab" * 32) -> object:
    return rebuilt_edges("toy", FEATURES, threshold, source_sha256=source)


def test_a_graph_is_rebuilt_once(rebuilds: Counter, kept: Path) -> None:
    edges = rebuild()
    np.testing.assert_array_equal(edges, EXPECTED)
    assert getattr(edges, "dtype", None) == np.int64
    assert rebuilds.calls == 1
    assert kept.name.startswith("toy-edges-")


def test_another_source_threshold_or_recipe_is_another_graph(
    rebuilds: Counter, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild(source="cd" * 32)
    rebuild(threshold=0.7)
    monkeypatch.setattr(derived, "RECIPE_VERSION", derived.RECIPE_VERSION + 1)
    rebuild()
    assert rebuilds.calls == 4
    assert len(list(kept.parent.iterdir())) == 4


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        flip_last_byte,
        lambda path: path.write_bytes(path.read_bytes()[:-8]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a tensor file at all"),
    ],
    ids=["one bit", "cut short", "empty", "something else"],
)
def test_a_damaged_file_is_rebuilt(
    damage: object, rebuilds: Counter, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(damage)
    damage(kept)
    np.testing.assert_array_equal(rebuild(), EXPECTED)
    assert rebuilds.calls == 2
    assert str(kept) in caplog.text
    assert "rebuilt" in caplog.text
    np.testing.assert_array_equal(rebuild(), EXPECTED)
    assert rebuilds.calls == 2  # the damage is repaired


def test_a_file_of_other_data_under_this_name_is_rebuilt(rebuilds: Counter, kept: Path) -> None:
    rebuild(threshold=0.5)
    other = next(path for path in kept.parent.iterdir() if path != kept)
    other.replace(kept)
    np.testing.assert_array_equal(rebuild(), EXPECTED)
    assert rebuilds.calls == 3


def test_where_nothing_can_be_kept_it_still_works_and_says_so(
    rebuilds: Counter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").touch()  # a file where the folder should be
    np.testing.assert_array_equal(rebuild(), EXPECTED)
    np.testing.assert_array_equal(rebuild(), EXPECTED)
    assert rebuilds.calls == 2
    assert "could not be kept" in caplog.text
