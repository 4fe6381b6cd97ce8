"""Graphs that one method makes for others to train on, kept in a file with the story of how they were made."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairsad.errors import DataError, ProtocolError
from fairsad.files import whole_file
from fairsad.graph import FairGraph
from fairsad.methods.base import Method, Preparation
from fairsad.methods.registry import method_class, method_names

GRAPH_FILE, STORY_FILE = "prepared.safetensors", "prepared.json"


@dataclass(frozen=True)
class PreparedGraph:
    """A graph that a method made.

    Attributes:
        graph: The graph, whose name says by which method it was prepared.
        path: Where it is saved.
        story: Method, settings, and what the graph was before; for the protocol of what is trained on it.
    """

    graph: FairGraph
    path: Path
    story: dict[str, Any]


def require_preparation(name: str) -> None:
    """Refuse a method that makes no graphs.

    Raises:
        DataError: The method only predicts; the message names those that can prepare.
    """
    if issubclass(method_class(name), Preparation):
        return
    able = [known for known in method_names() if issubclass(method_class(known), Preparation)]
    raise DataError(
        f"{method_class(name).card.title} does not prepare a graph for other methods; expected one of "
        f"{', '.join(able) or '(no method here does)'}."
    )


def prepare_graph(
    method: Method, graph: FairGraph, source: str, folder: Path, *, resume: bool = False, progress: bool | None = None
) -> PreparedGraph:
    """Make a graph of another one and save it, or take up the one that was saved before.

    Args:
        method: What prepares; it has to be a ``Preparation``.
        graph: What to start from.
        source: Where that came from, as ``load_graph`` takes it.
        folder: Where the graph and its story go.
        resume: Use the graph in ``folder``, if there is one; its story has to be the same.
        progress: Show a bar; by default on a terminal only.

    Raises:
        ProtocolError: The graph in ``folder`` was made in another way than it would be now.
    """
    if not isinstance(method, Preparation):
        raise DataError(f"{method.card.title} does not prepare a graph for other methods.")
    story = {
        "method": method.card.name,
        "settings": method.get_params(deep=False),
        "source": source,
        "graph": graph.name,
        "fingerprint": graph.fingerprint,
        "split_hash": graph.split_hash,
    }
    path, story_path = folder / GRAPH_FILE, folder / STORY_FILE
    if resume and path.is_file() and story_path.is_file():
        kept = json.loads(story_path.read_text(encoding="utf-8"))
        _require_same_story(story, kept, folder)
        return PreparedGraph(FairGraph.load(path), path, kept)
    started = time.monotonic()
    prepared = method.prepare(graph, progress=progress)
    if prepared.name == graph.name:
        prepared.name = f"{graph.name}, prepared by {method.card.title}"
    story |= {"prepared_fingerprint": prepared.fingerprint, "seconds": round(time.monotonic() - started, 3)}
    prepared.save(path)
    with whole_file(story_path) as partial:
        partial.write_text(json.dumps(story, indent=2, ensure_ascii=False), encoding="utf-8")
    return PreparedGraph(prepared, path, story)


def _require_same_story(wanted: dict[str, Any], kept: dict[str, Any], folder: Path) -> None:
    told, found = ({**each, **each["settings"]} for each in (wanted, kept))
    for name, value in told.items():
        if name not in ("settings", "device") and found.get(name) != value:
            raise ProtocolError(
                f"the prepared graph in {folder} was made in another way: its {name} is {found.get(name)!r}, this "
                f"run's is {value!r}. Use the same settings, or train anew without --resume."
            )
