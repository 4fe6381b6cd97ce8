"""From rows and graphs to trials: every setting explicit, every graph named by its contents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairsad.errors import DataError
from fairsad.experiments.execute import data_of
from fairsad.experiments.protocol import versions
from fairsad.experiments.store import Study, Trial

if TYPE_CHECKING:
    from fairsad.graph import FairGraph


@dataclass(frozen=True)
class Row:
    """A row of a table: a method with what is changed of its settings.

    Attributes:
        label: Its name in the table.
        method: Its name in the registry.
        settings: Changes of the settings published for a graph, or of the method's own.
        point: Coordinates in a sweep.
    """

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    point: Mapping[str, float] = field(default_factory=dict)


def plan(
    name: str,
    title: str,
    rows: Sequence[Row],
    graphs: Sequence[str],
    *,
    seeds: int = 5,
    published: str = "",
    note: str = "",
    utility: str = "auc",
    gap: str = "demographic_parity_gap",
    reference: str = "",
    detail: bool = True,
    overrides: Mapping[str, Any] | None = None,
) -> Study:
    """A study of rows on graphs with seeds 0 to ``seeds - 1``.

    On a benchmark a method starts from the settings published for it there. A method without a seed runs once.

    Args:
        name: Of the study.
        title: For headings.
        rows: Of its table.
        graphs: As on the command line.
        seeds: Runs of each row.
        published: Name of the published numbers that belong to it.
        note: What the reader should know.
        utility: Utility that its figure shows.
        gap: Gap that its figure shows.
        reference: Label of the row that differences are taken from.
        detail: Whether every trial keeps its whole evaluation and probe.
        overrides: Settings for every method that has them, such as ``{"epochs": 10}``.

    Raises:
        DataError: A graph cannot be loaded, or a setting is not one of a method's.
    """
    trials: dict[str, Trial] = {}
    for source in graphs:
        graph = _load(source)
        for row in rows:
            settings, seeded = settings_on(row, graph.name, overrides or {})
            for seed in range(seeds if seeded else 1):
                trial = Trial(source, row.method, row.label, seed, settings, dict(row.point), data_of(graph), detail)
                trials.setdefault(trial.key, trial)
    return Study(
        name,
        title,
        tuple(dict.fromkeys(graphs)),
        tuple(dict.fromkeys(row.label for row in rows)),
        tuple(range(seeds)),
        tuple(trials.values()),
        versions(),
        published,
        note,
        utility,
        gap,
        reference,
    )


def settings_on(row: Row, graph_name: str, overrides: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """All settings of a row on a graph but its seed, and whether it has one."""
    from fairsad.methods.parameters import check_parameters, parameters_of
    from fairsad.methods.registry import make_method, method_class, published_settings

    known = parameters_of(method_class(row.method))
    if unknown := [name for name in row.settings if name not in known]:
        raise DataError(
            f"{row.label} ({row.method}) has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}. "
            f"See 'fairsad methods {row.method}'."
        )
    shared = {name: value for name, value in overrides.items() if name in known}
    method = make_method(row.method, **(published_settings(row.method, graph_name) | shared | dict(row.settings)))
    check_parameters(method)
    settings = method.get_params(deep=False)
    return {name: value for name, value in settings.items() if name != "seed"}, "seed" in settings


def sweep(base: Row, coordinates: Mapping[str, Sequence[float]]) -> list[Row]:
    """A row at every point of a grid of settings."""
    rows = [base]
    for name, values in coordinates.items():
        rows = [
            Row(row.label, row.method, {**row.settings, name: value}, {**row.point, name: value})
            for row in rows
            for value in values
        ]
    return rows


def distinct_labels(rows: Iterable[Row]) -> None:
    """Refuse two rows with one name.

    Raises:
        DataError: Two rows have the same label.
    """
    labels = [row.label for row in rows]
    if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        raise DataError(f"{twice[0]!r} is named twice; expected every method once. Leave one out.")


def _load(source: str) -> FairGraph:
    from fairsad.sources import load_graph

    return load_graph(source)
