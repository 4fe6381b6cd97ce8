"""The page's charts as SVG: drawn here, read without a script, sharp in print; each has its numbers in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fairsad.evaluation.compare import pareto_front
from fairsad.report.palette import DAGGER, Style, blend, text_on
from fairsad.report.svg import Scale, element, line, mark, path

Point = Mapping[str, Any]

WIDTH, HEIGHT = 560.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 16.0, 52.0
MARK = 6.5
# In words, of a point that is drawn hollow or with a dagger.
NEARLY_CONSTANT = "nearly constant"
AROUND_MASK = (("before the mask", 5), ("after the mask", 0))  # with the number of the ink
LETTER = 8.4  # room for a letter of a row's name, also where it is drawn larger on a phone


def _svg(title: str, *children: str | Markup, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    return element(
        "svg",
        element("title", title),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=title,
        class_="chart",
        style=f"max-width:{width:g}px",
    )


def _under(title: str, x: float, y: float) -> Markup:
    """Title of the horizontal axis."""
    return element("text", title, x=x, y=y, class_="axis-title", text_anchor="middle")


def _beside(title: str, y: float) -> Markup:
    """Title of the vertical axis."""
    turned = f"rotate(-90 16 {y:g})"
    return element("text", title, x=16.0, y=y, class_="axis-title", text_anchor="middle", transform=turned)


def _axes(x: Scale, y: Scale, x_title: str, y_title: str, *, bottom: float, left: float) -> list[Markup]:
    parts = []
    for tick in x.ticks:
        parts += [
            line(x(tick), y.start, x(tick), y.end, class_="grid"),
            element("text", x.show(tick), x=x(tick), y=bottom + 18, class_="tick", text_anchor="middle"),
        ]
    for tick in y.ticks:
        parts += [
            line(x.start, y(tick), x.end, y(tick), class_="grid"),
            element("text", y.show(tick), x=left - 8, y=y(tick) + 4, class_="tick", text_anchor="end"),
        ]
    parts += [
        line(left, bottom, x.end, bottom, class_="axis"),
        _under(x_title, (x.start + x.end) / 2, bottom + 40),
        _beside(y_title, (y.start + y.end) / 2),
    ]
    return parts


def scatter(points: Sequence[Point], looks: Mapping[str, Style], *, gap: str, utility: str, graph: str) -> Markup:
    """Utility against gap, with the intervals of both and the front that no other row beats.

    Args:
        points: As ``fairsad.report.figures.scatter_points`` gives them, in per cent.
        looks: Style of each row.
        gap: Title of the gap.
        utility: Title of the utility.
        graph: Name of the graph.
    """
    bottom = HEIGHT - BOTTOM
    ends = [point[f"gap{end}"] for point in points for end in ("", "_low", "_high")]
    x = Scale.over(ends, LEFT, WIDTH - RIGHT, floor=0.0)
    y = Scale.over([point[f"utility{end}"] for point in points for end in ("", "_low", "_high")], bottom, TOP)
    parts = _axes(x, y, f"{gap} (%, lower is better)", f"{utility} (%, higher is better)", bottom=bottom, left=LEFT)
    front = pareto_front([point["utility"] for point in points], [point["gap"] for point in points])
    best = sorted((point["gap"], point["utility"]) for point, on in zip(points, front, strict=True) if on)
    if len(best) > 1:
        parts.append(path([(x(a), y(b)) for a, b in best], class_="front"))
    for label in dict.fromkeys(point["label"] for point in points):
        own = [point for point in points if point["label"] == label]
        if len(own) > 1:
            parts.append(
                path([(x(p["gap"]), y(p["utility"])) for p in own], class_=f"joined stroke-{looks[label].number}")
            )
    # bars below all marks, so that no mark is hidden by the bar of another
    for point in points:
        stroke = f"bar stroke-{looks[point['label']].number}"
        if not math.isnan(point["gap_low"]):
            parts.append(
                line(x(point["gap_low"]), y(point["utility"]), x(point["gap_high"]), y(point["utility"]), class_=stroke)
            )
        if not math.isnan(point["utility_low"]):
            parts.append(
                line(x(point["gap"]), y(point["utility_low"]), x(point["gap"]), y(point["utility_high"]), class_=stroke)
            )
    for point in points:
        style = looks[point["label"]]
        at = f" at {point['point']}" if point["point"] else ""
        words = f"{point['label']}{at}: {utility} {point['utility']:.1f} %, {gap} {point['gap']:.1f} %"
        words += f", {NEARLY_CONSTANT}" if point["hollow"] else ""
        look = _look(style.number, hollow=point["hollow"])
        drawn = mark(style.mark, x(point["gap"]), y(point["utility"]), MARK, class_=look)
        parts.append(element("g", element("title", words), drawn))
    return _svg(f"{utility} against {gap} on {graph}", *parts)


def _look(ink: int, *, hollow: bool) -> str:
    """Classes of a mark: filled, or only its outline."""
    return f"mark hollow stroke-{ink}" if hollow else f"mark fill-{ink}"


def legend(labels: Sequence[str], looks: Mapping[str, Style], flagged: Collection[str] = ()) -> Markup:
    """The mark of each row with its name; hollow and with a dagger where the row is flagged."""
    items = [
        element(
            "li",
            element(
                "svg",
                mark(looks[label].mark, 8, 8, MARK, class_=_look(looks[label].number, hollow=label in flagged)),
                viewBox="0 0 16 16",
                width=16,
                height=16,
                aria_hidden="true",
            ),
            element("span", f"{label}{DAGGER}" if label in flagged else label),
        )
        for label in labels
    ]
    return element("ul", *items, class_="legend")


def differences(rows: Sequence[tuple[str, float, float, float]], *, metric: str, reference: str, graph: str) -> Markup:
    """Paired differences from the reference with their intervals, one line per row.

    Args:
        rows: Label, difference and ends of its interval, in points.
        metric: Title of the metric.
        reference: What the differences are taken from.
        graph: Name of the graph.
    """
    left = 26.0 + LETTER * max(len(label) for label, *_ in rows)
    width, step = left + 320.0, 28.0
    height = TOP + step * len(rows) + BOTTOM
    bottom = height - BOTTOM
    x = Scale.over([0.0, *(value for row in rows for value in row[1:])], left, width - RIGHT, ticks=4)
    parts = [line(x(tick), TOP, x(tick), bottom, class_="grid") for tick in x.ticks]
    parts += [
        element("text", x.show(tick), x=x(tick), y=bottom + 18, class_="tick", text_anchor="middle") for tick in x.ticks
    ]
    parts.append(line(x(0.0), TOP, x(0.0), bottom, class_="zero"))
    for number, (label, value, low, high) in enumerate(rows):
        y = TOP + step * (number + 0.5)
        parts.append(element("text", label, x=left - 10, y=y + 4, class_="row-label", text_anchor="end"))
        if math.isnan(value):
            continue
        if not math.isnan(low):
            parts.append(line(x(low), y, x(high), y, class_="bar strong"))
        interval = "" if math.isnan(low) else f" [{low:+.1f}, {high:+.1f}]"
        words = f"{label}: {value:+.1f} points{interval}"
        sure = "sure" if low > 0 or high < 0 else "unsure"
        parts.append(element("g", element("title", words), mark("circle", x(value), y, 5, class_=f"difference {sure}")))
    title = f"{metric}, difference from {reference} in points"
    parts.append(_under(title, (left + width - RIGHT) / 2, bottom + 40))
    return _svg(f"{title}, on {graph}", *parts, width=width, height=height)


def curve(
    points: Sequence[tuple[float, float, float, float]],
    *,
    coordinate: str,
    metric: str,
    graph: str,
    ink: int,
    floor: float | None = None,
    hollow: Collection[float] = (),
) -> Markup:
    """One metric along a setting, with its interval as a band; places are evenly spaced.

    Args:
        points: Value of the setting, then mean and ends of the interval in per cent.
        coordinate: Title of the setting.
        metric: Title of the metric.
        graph: Name of the graph.
        ink: Number of the ink.
        floor: The axis never begins below.
        hollow: Values of the setting where the row is nearly constant.
    """
    width, height = 400.0, 280.0
    bottom = height - BOTTOM
    y = Scale.over([value for point in points for value in point[1:]], bottom, TOP, floor=floor)  # undefined ends aside
    places = [LEFT + (width - RIGHT - LEFT) * (number + 0.5) / len(points) for number in range(len(points))]
    parts = [
        part
        for tick in y.ticks
        for part in (
            line(LEFT, y(tick), width - RIGHT, y(tick), class_="grid"),
            element("text", y.show(tick), x=LEFT - 8, y=y(tick) + 4, class_="tick", text_anchor="end"),
        )
    ]
    banded = [(place, point) for place, point in zip(places, points, strict=True) if not math.isnan(point[2])]
    upper = [(place, y(point[3])) for place, point in banded]
    lower = [(place, y(point[2])) for place, point in reversed(banded)]
    parts += [path([*upper, *lower], closed=True, class_=f"band fill-{ink}")] if banded else []
    parts.append(
        path([(place, y(point[1])) for place, point in zip(places, points, strict=True)], class_=f"joined stroke-{ink}")
    )
    # a point between two without an interval has no band around it
    parts += [line(place, y(point[2]), place, y(point[3]), class_=f"bar stroke-{ink}") for place, point in banded]
    for place, (setting, mean, low, high) in zip(places, points, strict=True):
        interval = "" if math.isnan(low) else f" [{low:.1f}, {high:.1f}]"
        words = f"{coordinate} = {setting:g}: {mean:.1f} %{interval}"
        words += f", {NEARLY_CONSTANT}" if setting in hollow else ""
        look = _look(ink, hollow=setting in hollow)
        parts += [
            element("g", element("title", words), mark("circle", place, y(mean), 4.5, class_=look)),
            element("text", f"{setting:g}", x=place, y=bottom + 18, class_="tick", text_anchor="middle"),
        ]
    parts += [
        line(LEFT, bottom, width - RIGHT, bottom, class_="axis"),
        _under(coordinate, (LEFT + width - RIGHT) / 2, bottom + 40),
        _beside(f"{metric} (%)", (TOP + bottom) / 2),
    ]
    return _svg(f"{metric} along {coordinate} on {graph}", *parts, width=width, height=height)


def heat(
    values: Mapping[tuple[float, float], float],
    *,
    down: str,
    across: str,
    metric: str,
    graph: str,
    shades: tuple[str, str],
    flagged: Collection[tuple[float, float]] = (),
) -> Markup:
    """A shade and a number for every pair of settings.

    Args:
        values: By value of both settings, in per cent.
        down: Title of the first setting.
        across: Title of the second.
        metric: Title of the metric.
        graph: Name of the graph.
        shades: Colours of the least and of the largest number.
        flagged: Pairs where the row is nearly constant; their numbers get a dagger.
    """
    rows, columns = sorted({key[0] for key in values}), sorted({key[1] for key in values})
    size, left, top = 52.0, 70.0, 8.0
    width, height = left + size * len(columns) + 8, top + size * len(rows) + BOTTOM
    defined = [value for value in values.values() if not math.isnan(value)]
    low, high = min(defined, default=0.0), max(defined, default=1.0)
    parts: list[Markup] = []
    for i, row in enumerate(reversed(rows)):
        y = top + size * i
        parts.append(element("text", f"{row:g}", x=left - 8, y=y + size / 2 + 4, class_="tick", text_anchor="end"))
        for j, column in enumerate(columns):
            value = values.get((row, column), math.nan)
            if math.isnan(value):
                continue
            colour = blend(shades, (value - low) / (high - low) if high > low else 0.0)
            words = f"{down} = {row:g}, {across} = {column:g}: {metric} {value:.1f} %"
            dagger = (row, column) in flagged
            words += f", {NEARLY_CONSTANT}" if dagger else ""
            box = element("rect", x=left + size * j, y=y, width=size - 2, height=size - 2, rx=4.0, fill=colour)
            text = element(
                "text", f"{value:.1f}{DAGGER if dagger else ''}", x=left + size * (j + 0.5) - 1, y=y + size / 2 + 4,
                text_anchor="middle", class_="cell", fill=text_on(colour),
            )  # fmt: skip
            parts.append(element("g", element("title", words), box, text))
    bottom = top + size * len(rows)
    for j, column in enumerate(columns):
        parts.append(
            element(
                "text", f"{column:g}", x=left + size * (j + 0.5), y=bottom + 16, class_="tick", text_anchor="middle"
            )
        )
    parts += [_under(across, left + size * len(columns) / 2, bottom + 38), _beside(down, (top + bottom) / 2)]
    return _svg(f"{metric} over {down} and {across} on {graph}", *parts, width=width, height=height)


def channels(places: Sequence[tuple[str, float, float]], *, what: str, graph: str) -> Markup:
    """How well something can be read from each channel before and after the mask: an AUC, 0.5 being chance.

    Args:
        places: Name of the channel, AUC before and after.
        what: What is read.
        graph: Name of the graph.
    """
    left, step, top = 120.0, 46.0, 26.0
    height = top + step * len(places) + BOTTOM
    bottom = height - BOTTOM
    x = Scale(0.4, 1.0, left, WIDTH - RIGHT, 0.1)
    parts = [line(x(tick), top, x(tick), bottom, class_="grid") for tick in x.ticks]
    parts += [
        element("text", x.show(tick), x=x(tick), y=bottom + 18, class_="tick", text_anchor="middle") for tick in x.ticks
    ]
    parts.append(line(x(0.5), top, x(0.5), bottom, class_="zero"))
    parts.append(element("text", "chance", x=x(0.5), y=top - 8, class_="tick", text_anchor="middle"))
    for number, (name, before, after) in enumerate(places):
        y = top + step * number
        parts.append(element("text", name, x=left - 10, y=y + step / 2 + 4, class_="row-label", text_anchor="end"))
        for shift, value, (when, ink) in zip((8.0, 25.0), (before, after), AROUND_MASK, strict=True):
            if math.isnan(value):
                continue
            begin, end = sorted((x(0.5), x(max(value, 0.4))))
            bar = element("rect", x=begin, y=y + shift, width=max(end - begin, 1.0), height=14.0, class_=f"fill-{ink}")
            number_text = element(
                "text", f"{value:.2f}", x=min(end + 6, WIDTH - RIGHT - 26), y=y + shift + 11.5, class_="tick"
            )
            parts += [element("g", element("title", f"{name}, {when}: {value:.2f}"), bar), number_text]
    title = f"AUC of reading {what}"
    parts.append(_under(title, (left + WIDTH - RIGHT) / 2, bottom + 40))
    return _svg(f"{title} from each channel, before and after the mask, on {graph}", *parts, height=height)


def channels_legend() -> Markup:
    """What the two bars of a channel are."""
    items = [
        element(
            "li",
            element(
                "svg",
                element("rect", x=1.0, y=3.0, width=14.0, height=10.0, class_=f"fill-{ink}"),
                viewBox="0 0 16 16",
                width=16,
                height=16,
                aria_hidden="true",
            ),
            element("span", when),
        )
        for when, ink in AROUND_MASK
    ]
    return element("ul", *items, class_="legend")
