"""Fair node classification on graphs.

The public names; each is imported when it is first used, so that ``import fairsad`` stays quick.

Example:
    >>> import fairsad
    >>> graph = fairsad.load_graph("german")
    >>> model = fairsad.FairSAD(epochs=2).fit(graph)
    >>> model.predict(graph).shape
    (1000,)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairsad.data.convert import from_networkx, from_pyg, from_scipy
    from fairsad.data.tables import load_card
    from fairsad.errors import DataError, DownloadError, FairsadError, NotFittedError, ProtocolError
    from fairsad.evaluation.audit import audit
    from fairsad.evaluation.compare import compare
    from fairsad.evaluation.evaluate import evaluate_predictions
    from fairsad.evaluation.probe import probe
    from fairsad.graph import FairGraph
    from fairsad.methods.base import Method
    from fairsad.methods.fairsad import FairSAD
    from fairsad.methods.registry import make_method
    from fairsad.sources import load_graph

_HOMES = {
    "DataError": "fairsad.errors",
    "DownloadError": "fairsad.errors",
    "FairGraph": "fairsad.graph",
    "FairSAD": "fairsad.methods.fairsad",
    "FairsadError": "fairsad.errors",
    "Method": "fairsad.methods.base",
    "NotFittedError": "fairsad.errors",
    "ProtocolError": "fairsad.errors",
    "audit": "fairsad.evaluation.audit",
    "compare": "fairsad.evaluation.compare",
    "evaluate_predictions": "fairsad.evaluation.evaluate",
    "from_networkx": "fairsad.data.convert",
    "from_pyg": "fairsad.data.convert",
    "from_scipy": "fairsad.data.convert",
    "load_card": "fairsad.data.tables",
    "load_graph": "fairsad.sources",
    "make_method": "fairsad.methods.registry",
    "probe": "fairsad.evaluation.probe",
}

__all__ = [
    "DataError",
    "DownloadError",
    "FairGraph",
    "FairSAD",
    "FairsadError",
    "Method",
    "NotFittedError",
    "ProtocolError",
    "audit",
    "compare",
    "evaluate_predictions",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "load_card",
    "load_graph",
    "make_method",
    "probe",
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
