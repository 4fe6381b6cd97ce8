"""The few parts that the page's charts are drawn from: elements, scales, marks.

Drawn here and not in the browser, so that a chart is text: sharp at any size, printed as it is seen, and read without
a script. Everything that comes from the results is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

# Outlines of radius 1 around the origin; plus and cross are strokes, the others areas.
_POLYGONS: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    "triangle": ((0, -1.15), (1.05, 0.8), (-1.05, 0.8)),
    "down": ((0, 1.15), (1.05, -0.8), (-1.05, -0.8)),
    "diamond": ((0, -1.25), (1.05, 0), (0, 1.25), (-1.05, 0)),
    "hexagon": tuple((1.1 * math.sin(math.pi * i / 3), 1.1 * math.cos(math.pi * i / 3)) for i in range(6)),
    "star": tuple(
        ((0.55 if i % 2 else 1.35) * math.sin(math.pi * i / 5), -(0.55 if i % 2 else 1.35) * math.cos(math.pi * i / 5))
        for i in range(10)
    ),
    "plus": tuple(
        (x, y)
        for x, y in (
            (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
            (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
        )
    ),
}  # fmt: skip
_TURN = math.sqrt(0.5)
_POLYGONS["cross"] = tuple((_TURN * (x - y), _TURN * (x + y)) for x, y in _POLYGONS["plus"])


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """One element with its text escaped; ``_`` in attribute names stands for ``-``, and None leaves one out.

    Example:
        >>> str(element("text", "a < b", class_="label", x=3.14159))
        '<text class="label" x="3.14">a &lt; b</text>'
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _attribute(value))
        for key, value in attributes.items()
        if value is not None
    )
    tag, content = Markup(name), Markup("").join(escape(child) for child in children)
    return Markup("<{}{}>{}</{}>").format(tag, written, content, tag)


def _attribute(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def mark(shape: str, x: float, y: float, radius: float, **attributes: object) -> Markup:
    """The shape of a row, at a place."""
    if shape == "circle":
        return element("circle", cx=float(x), cy=float(y), r=float(radius), **attributes)
    points = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in _POLYGONS[shape])
    return element("polygon", points=points, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attributes)


def path(points: Sequence[tuple[float, float]], *, closed: bool = False, **attributes: object) -> Markup:
    """Straight lines from point to point."""
    steps = " ".join(f"{'M' if i == 0 else 'L'}{x:.1f},{y:.1f}" for i, (x, y) in enumerate(points))
    return element("path", d=steps + (" Z" if closed else ""), **attributes)


@dataclass(frozen=True)
class Scale:
    """Numbers to places on the page, with round numbers at the ticks.

    Attributes:
        low: Number at ``start``.
        high: Number at ``end``.
        start: Place of the low end.
        end: Place of the high end; smaller than ``start`` on an axis that points upwards.
        step: Distance of the ticks.
    """

    low: float
    high: float
    start: float
    end: float
    step: float

    @classmethod
    def over(
        cls, values: Sequence[float], start: float, end: float, *, ticks: int = 5, floor: float | None = None
    ) -> Scale:
        """A scale with room for all values, undefined ones aside; it never begins below ``floor``."""
        defined = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
        low, high = min(defined), max(defined)
        room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = low - room, high + room
        if floor is not None:
            low = max(low, floor)
        step = _round_step((high - low) / ticks)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end, step)

    def __call__(self, value: float) -> float:
        """Where a number lies."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """The numbers that are written at the axis."""
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]

    def show(self, value: float) -> str:
        """A tick's number with the digits that its distance needs."""
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        if digits == 1 and not math.isclose(self.step * 10 % 1, 0, abs_tol=1e-6):
            digits = 2
        return f"{value + 0.0:.{digits}f}".replace("-", "−")


def _round_step(size: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, not smaller than asked for."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= size * (1 - 1e-9))
