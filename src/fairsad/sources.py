"""One name for a graph, wherever it comes from: a benchmark, a generator, one's own tables, a saved file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairsad.errors import DataError

if TYPE_CHECKING:
    from fairsad.graph import FairGraph


def load_graph(source: str | Path, **options: Any) -> FairGraph:
    """Load a graph by name or path.

    Args:
        source: A benchmark (``"german"``, or ``"german:split_seed=3"`` for another split by the same recipe), a
            generator (``"synthetic:nodes=10000,bias=0.3"``), the path of a graph card (``.toml``), or of a graph
            saved with ``FairGraph.save`` (``.safetensors``).
        **options: Passed on to the loader, such as ``split_seed=3`` for a benchmark.

    Raises:
        DataError: Nothing is known by that name.

    Example:
        >>> from fairsad import load_graph
        >>> load_graph("synthetic:nodes=200,seed=1").num_nodes
        200
    """
    text = str(source)
    suffix = Path(text).suffix
    if suffix == ".toml":
        from fairsad.data.tables import load_card

        return load_card(text, **options)
    if suffix == ".safetensors":
        from fairsad.graph import FairGraph

        return FairGraph.load(text, **options)

    name, _, settings = text.partition(":")
    if name == "synthetic":
        from fairsad.data.synthetic import from_spec

        return from_spec(settings, **options)

    from fairsad import datasets

    if name in datasets.names():
        return datasets.load(name, **_split_seed(text, settings), **options)
    expected = (
        f"expected a benchmark ({', '.join(datasets.names())}), synthetic:nodes=N, the path of a graph card (.toml) or "
        "of a saved graph (.safetensors)."
    )
    if Path(text).is_file():
        raise DataError(f"{text} is no graph by itself; {expected} A table needs a graph card that names it.")
    near = difflib.get_close_matches(name, [*datasets.names(), "synthetic"], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "'fairsad datasets' lists the benchmarks."
    raise DataError(f"no graph is known as {text!r}; {expected} {hint}")


def _split_seed(source: str, settings: str) -> dict[str, Any]:
    if not settings:
        return {}
    key, _, value = settings.partition("=")
    if key != "split_seed" or not value.isdigit():
        raise DataError(
            f"{source!r} is not understood after the colon; expected split_seed=N, such as german:split_seed=3."
        )
    return {"split_seed": int(value)}
