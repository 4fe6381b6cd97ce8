"""Fair node classification on graphs.

The public names; each is imported when it is first used, so that ``import fairsad`` stays quick.

Example:
    >>> import fairsad
    >>> graph = fairsad.load_graph("german")
    >>> graph.num_nodes
    1000
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairsad.data.convert import from_networkx, from_pyg, from_scipy
    from fairsad.data.tables import load_card
    from fairsad.errors import DataError, DownloadError, FairsadError, NotFittedError, ProtocolError
    from fairsad.graph import FairGraph
    from fairsad.sources import load_graph

_HOMES = {
    "DataError": "fairsad.errors",
    "DownloadError": "fairsad.errors",
    "FairGraph": "fairsad.graph",
    "FairsadError": "fairsad.errors",
    "NotFittedError": "fairsad.errors",
    "ProtocolError": "fairsad.errors",
    "from_networkx": "fairsad.data.convert",
    "from_pyg": "fairsad.data.convert",
    "from_scipy": "fairsad.data.convert",
    "load_card": "fairsad.data.tables",
    "load_graph": "fairsad.sources",
}

__all__ = [
    "DataError",
    "DownloadError",
    "FairGraph",
    "FairsadError",
    "NotFittedError",
    "ProtocolError",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "load_card",
    "load_graph",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fairsad")
    if name not in _HOMES:
        raise AttributeError(f"module 'fairsad' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
