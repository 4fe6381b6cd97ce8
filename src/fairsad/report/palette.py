"""Colours and marks that everybody can tell apart, on paper and on a screen, by day and by night.

A row has the same colour and the same mark in every chart. Colour is never alone: the mark's shape, and the name beside
it, say the same. Every colour keeps a contrast of at least 3 to 1 with the page behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Rgb = tuple[float, float, float]

LIGHT_PAGE, DARK_PAGE = "#ffffff", "#14181d"


@dataclass(frozen=True)
class Ink:
    """One colour, in the version for a light page and in that for a dark one."""

    light: str
    dark: str


INKS = (
    Ink("#c8500a", "#ff8f4a"),  # vermilion
    Ink("#0b6fb4", "#5cb3f2"),  # blue
    Ink("#067a5b", "#3fc79b"),  # green
    Ink("#a3307a", "#f08ac8"),  # purple
    Ink("#8f6a00", "#e8c33c"),  # gold
    Ink("#5a5f66", "#b3bac2"),  # grey
    Ink("#3b2a8c", "#a79cff"),  # indigo
    Ink("#1f8a9e", "#6fdbe8"),  # teal
)
MARKS = ("circle", "square", "triangle", "diamond", "down", "plus", "star", "hexagon", "cross")

# Of the curves of a sweep: which of the inks.
UTILITY_INK, GAP_INK = 1, 0
# Behind the name or the number of what is nearly constant.
DAGGER = " †"

# From little to much: the ends of a heat map's colours.
UTILITY_SHADES = ("#eef5fb", "#0a4f8a")
GAP_SHADES = ("#fdf1e7", "#9a3a06")
NEUTRAL_SHADES = ("#f3f3f5", "#3d3a4f")


@dataclass(frozen=True)
class Style:
    """How a row is drawn.

    Attributes:
        number: Which of the inks; the page's style sheet has one class for each.
        mark: Shape.
    """

    number: int
    mark: str

    @property
    def ink(self) -> Ink:
        """Its colour."""
        return INKS[self.number]


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each row; no two rows have both the same colour and the same mark.

    Example:
        >>> styles(["FairSAD", "GCN"])["GCN"].mark
        'square'
    """
    # The two lengths, 8 and 9, have no common factor: 72 pairs come before the first comes again.
    return {label: Style(i % len(INKS), MARKS[i % len(MARKS)]) for i, label in enumerate(dict.fromkeys(labels))}


def rgb(colour: str) -> Rgb:
    """A colour ``#rrggbb`` as three numbers from 0 to 1."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def blend(shades: tuple[str, str], share: float) -> str:
    """The colour at a share of the way from the first to the second.

    Example:
        >>> blend(("#000000", "#ffffff"), 0.5)
        '#808080'
    """
    share = min(1.0, max(0.0, share))
    mixed = ((1 - share) * low + share * high for low, high in zip(rgb(shades[0]), rgb(shades[1]), strict=True))
    return "#" + "".join(f"{round(255 * part):02x}" for part in mixed)


def luminance(colour: str) -> float:
    """Relative luminance of a colour, as the Web Content Accessibility Guidelines define it."""
    parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(colour: str, other: str) -> float:
    """Contrast of two colours, from 1 (the same) to 21 (black and white)."""
    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def text_on(colour: str) -> str:
    """Black or white, whichever can be read better on a colour."""
    return max(("#000000", "#ffffff"), key=lambda text: contrast(text, colour))
