"""Figures of a study in print quality, as PDF and PNG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairsad.evaluation.compare import pareto_front
from fairsad.files import whole_file
from fairsad.report.digest import Digest
from fairsad.report.palette import (
    DAGGER,
    GAP_INK,
    GAP_SHADES,
    INKS,
    UTILITY_INK,
    UTILITY_SHADES,
    Style,
    styles,
    text_on,
)
from fairsad.report.tables import coordinate_title, metric_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from fairsad.experiments.tune import Candidate

# The palette's marks in matplotlib's letters.
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "down": "v",
    "plus": "P",
    "star": "*",
    "hexagon": "h",
    "cross": "X",
}
DPI = 200
PANEL = (3.6, 3.0)  # inches; two of them fill a page's text width


def write_figures(digest: Digest, folder: Path) -> list[Path]:
    """Draw what the study is about: a scatter of a table, curves of a sweep, shades of a grid.

    Returns:
        The files, a PDF and a PNG of each figure.
    """
    with _style():
        figure = _figure(digest)
        return _save(figure, folder, digest.study.name)


def _figure(digest: Digest) -> Figure:
    if len(digest.study.coordinates) == 2:
        return _grids(digest)
    if len(digest.labels) == 1 and digest.study.coordinates:
        return _curves(digest)
    return _scatter(digest)


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(
        {
            "font.size": 8,
            "axes.titlesize": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.5,
            "legend.frameon": False,
            "legend.fontsize": 7,
            "pdf.fonttype": 42,  # text stays text
            "savefig.bbox": "tight",
        }
    ):
        yield


def _panels(columns: int, rows: int = 1, height: float = PANEL[1]) -> tuple[Figure, list[list[Axes]]]:
    """A figure of that height in all, with its panels row by row."""
    from matplotlib.figure import Figure  # without pyplot there is no global state and no window

    figure = Figure(figsize=(PANEL[0] * columns, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def _scatter(digest: Digest) -> Figure:
    """Utility against gap with the intervals of both; methods that run at several weights are joined by a line."""
    figure, (panels,) = _panels(len(digest.graphs))
    look = styles(digest.labels)
    hollow = False
    for axes, graph in zip(panels, digest.graphs, strict=True):
        points = scatter_points(digest, graph)
        hollow = hollow or any(point["hollow"] for point in points)
        for label in digest.labels:
            own = [point for point in points if point["label"] == label]
            if own:
                _draw_points(axes, own, look[label], label)
        _draw_front(axes, points)
        axes.set_title(graph)
        axes.set_xlabel(f"{metric_title(digest.study.gap)} (%, lower is better)")
        axes.set_ylabel(f"{metric_title(digest.study.utility)} (%)")
    keys = [*panels[0].get_legend_handles_labels()[0], *([_hollow_key()] if hollow else [])]
    figure.legend(handles=keys, loc="outside lower center", ncols=min(len(keys), 7))
    return figure


def scatter_points(digest: Digest, graph: str) -> list[dict[str, Any]]:
    """Where each row lies, in per cent: gap and utility with the ends of their intervals; hollow if nearly constant."""
    frame = digest.frame[digest.frame["graph"] == graph]
    points = []
    for (label, point), rows in frame.groupby(["label", "point"], sort=False):
        cells = {row["metric"]: row for _, row in rows.iterrows()}
        gap, utility = cells.get(digest.study.gap), cells.get(digest.study.utility)
        if gap is None or utility is None or math.isnan(gap["mean"]) or math.isnan(utility["mean"]):
            continue
        points.append(
            {
                "label": label,
                "point": point,
                "hollow": digest.nearly_constant(graph, str(label), str(point)),
                **{
                    f"{name}{end}": 100 * cell[key]
                    for name, cell in (("gap", gap), ("utility", utility))
                    for end, key in (("", "mean"), ("_low", "low"), ("_high", "high"))
                },
            }
        )
    return points


def _draw_points(axes: Axes, points: list[dict[str, Any]], style: Style, label: str) -> None:
    colour = style.ink.light
    x, y = [point["gap"] for point in points], [point["utility"] for point in points]
    axes.errorbar(
        x,
        y,
        xerr=_arms(points, "gap"),
        yerr=_arms(points, "utility"),
        fmt="none",
        ecolor=colour,
        elinewidth=0.7,
        alpha=0.45,
    )
    if len(points) > 1:
        axes.plot(x, y, color=colour, linewidth=0.8, alpha=0.7)
    axes.plot([], [], linestyle="none", marker=MARKERS[style.mark], markersize=5, color=colour, label=label)
    for point in points:
        _mark(axes, point["gap"], point["utility"], MARKERS[style.mark], colour, hollow=point["hollow"], size=5)


def _arms(points: list[dict[str, Any]], name: str) -> list[list[float]]:
    """Lengths of the error bars downwards and upwards; none where there is no interval."""
    below = [point[name] - point[f"{name}_low"] for point in points]
    above = [point[f"{name}_high"] - point[name] for point in points]
    return [[0.0 if math.isnan(length) else max(length, 0.0) for length in lengths] for lengths in (below, above)]


def _draw_front(axes: Axes, points: list[dict[str, Any]]) -> None:
    front = pareto_front([point["utility"] for point in points], [point["gap"] for point in points])
    best = sorted((point["gap"], point["utility"]) for point, on in zip(points, front, strict=True) if on)
    if len(best) > 1:
        axes.plot(*zip(*best, strict=True), color="#777777", linestyle=":", linewidth=1, zorder=0)


def _curves(digest: Digest) -> Figure:
    """Utility and gap of one method along a setting, with the intervals as bands: utility above, gap below."""
    (coordinate,) = digest.study.coordinates
    hollow = {graph: [point[coordinate] for point in digest.nearly_constant_points(graph)] for graph in digest.graphs}
    figure, panels = _panels(len(digest.graphs), rows=2, height=1.5 * PANEL[1])
    rows = ((digest.study.utility, INKS[UTILITY_INK].light, "o"), (digest.study.gap, INKS[GAP_INK].light, "s"))
    for row, (metric, ink, mark) in zip(panels, rows, strict=True):
        for axes, graph in zip(row, digest.graphs, strict=True):
            chosen = digest.of_metric(graph, metric).sort_values(f"at_{coordinate}")
            x, mean = chosen[f"at_{coordinate}"], 100 * chosen["mean"]
            axes.plot(x, mean, color=ink, linewidth=1)
            axes.fill_between(x, 100 * chosen["low"], 100 * chosen["high"], color=ink, alpha=0.12, linewidth=0)
            for value, height in zip(x, mean, strict=True):
                _mark(axes, value, height, mark, ink, hollow=value in hollow[graph])
            if max(x) / min(x) > 8:
                axes.set_xscale("log", base=2)
            axes.set_xticks(sorted(x), [f"{value:g}" for value in sorted(x)])
            axes.minorticks_off()
            if metric == digest.study.gap:
                axes.set_ylim(bottom=0)
                axes.set_xlabel(coordinate_title(coordinate))
            else:
                axes.set_title(graph)
            if axes is row[0]:
                axes.set_ylabel(f"{metric_title(metric)} (%)")
    if any(hollow.values()):
        figure.legend(handles=[_hollow_key()], loc="outside lower center")
    return figure


def _mark(axes: Axes, x: float, y: float, mark: str, colour: str, *, hollow: bool, size: float = 4) -> None:
    """A point, filled unless its row is nearly constant there."""
    inside = "white" if hollow else colour
    # not cut off where it lies on the axis
    axes.plot(
        [x], [y], linestyle="none", marker=mark, markersize=size, color=colour, markerfacecolor=inside, clip_on=False
    )


def _hollow_key() -> Line2D:
    from matplotlib.lines import Line2D

    words = "hollow: nearly constant, a small gap says nothing there"
    return Line2D([], [], linestyle="none", marker="o", color="#555555", markerfacecolor="white", label=words)


def _grids(digest: Digest) -> Figure:
    """A shade for every pair of settings, with the number in it: utility above, gap below; † if nearly constant."""
    from matplotlib.colors import LinearSegmentedColormap

    down, across = digest.study.coordinates
    flagged = {
        graph: [(point[down], point[across]) for point in digest.nearly_constant_points(graph)]
        for graph in digest.graphs
    }
    figure, panels = _panels(len(digest.graphs), rows=2, height=2 * PANEL[1])
    rows = ((digest.study.utility, UTILITY_SHADES), (digest.study.gap, GAP_SHADES))
    for row, (metric, shades) in zip(panels, rows, strict=True):
        colours = LinearSegmentedColormap.from_list(metric, shades)
        for axes, graph in zip(row, digest.graphs, strict=True):
            chosen = digest.of_metric(graph, metric)
            table = 100 * chosen.pivot_table(index=f"at_{down}", columns=f"at_{across}", values="mean")
            low, high = float(table.min().min()), float(table.max().max())
            axes.imshow(table.to_numpy(), cmap=colours, origin="lower", aspect="auto", vmin=low, vmax=high)
            axes.grid(visible=False)
            axes.set_xticks(range(table.shape[1]), [f"{value:g}" for value in table.columns])
            axes.set_yticks(range(table.shape[0]), [f"{value:g}" for value in table.index])
            for (i, j), value in _cells(table):
                share = (value - low) / (high - low) if high > low else 0.0
                shade = "#" + "".join(f"{round(255 * part):02x}" for part in colours(share)[:3])
                dagger = DAGGER if (float(table.index[i]), float(table.columns[j])) in flagged[graph] else ""
                axes.text(j, i, f"{value:.1f}{dagger}", ha="center", va="center", fontsize=6, color=text_on(shade))
            axes.set_xlabel(coordinate_title(across))
            axes.set_ylabel(coordinate_title(down))
            axes.set_title(f"{graph}: {metric_title(metric)} (%)")
    return figure


def _cells(table: Any) -> Iterator[tuple[tuple[int, int], float]]:
    for i, row in enumerate(table.to_numpy()):
        for j, value in enumerate(row):
            if not math.isnan(value):
                yield (i, j), float(value)


def _save(figure: Figure, folder: Path, name: str) -> list[Path]:
    written = []
    for ending in ("pdf", "png"):
        target = folder / f"{name}.{ending}"
        with whole_file(target) as partial:
            # no date inside: the same numbers make the same file
            figure.savefig(
                partial, format=ending, dpi=DPI, metadata={"CreationDate": None} if ending == "pdf" else None
            )
        written.append(target)
    return written


def write_front(candidates: Sequence[Candidate], chosen: Candidate, utility: str, gap: str, folder: Path) -> list[Path]:
    """Draw the candidates of a search, the front of them and the one chosen."""
    with _style():
        figure, ((axes,),) = _panels(1)
        for each in candidates:
            mark, colour = ("x", "#999999") if each.nearly_constant else ("o", INKS[UTILITY_INK].light)
            axes.plot(100 * each.gap, 100 * each.utility, linestyle="none", markersize=3.5, marker=mark, color=colour)
        front = sorted((100 * each.gap, 100 * each.utility) for each in candidates if each.on_front)
        axes.plot(*zip(*front, strict=True), color="#777777", linestyle=":", linewidth=1)
        axes.plot(
            100 * chosen.gap, 100 * chosen.utility, marker="*", markersize=10, color=INKS[GAP_INK].light,
            linestyle="none", label="chosen",
        )  # fmt: skip
        axes.set_xlabel(f"{metric_title(gap)} on validation (%)")
        axes.set_ylabel(f"{metric_title(utility)} on validation (%)")
        axes.legend()
        return _save(figure, folder, "front")
