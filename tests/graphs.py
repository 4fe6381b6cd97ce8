"""Small graphs that several tests share."""

from __future__ import annotations

from fairsad.testing.graphs import toy_graph

__all__ = ["toy_graph"]
