from __future__ import annotations

import pytest

from fairsad.report.palette import (
    DARK_PAGE,
    GAP_SHADES,
    INKS,
    LIGHT_PAGE,
    MARKS,
    UTILITY_SHADES,
    blend,
    contrast,
    styles,
    text_on,
)


def test_every_ink_can_be_seen_on_its_page() -> None:
    for ink in INKS:
        assert contrast(ink.light, LIGHT_PAGE) >= 3
        assert contrast(ink.dark, DARK_PAGE) >= 3


def test_no_two_of_many_rows_look_alike() -> None:
    looks = styles([f"row {number}" for number in range(len(INKS) * len(MARKS))])
    assert len({(look.number, look.mark) for look in looks.values()}) == len(INKS) * len(MARKS)


def test_contrast_is_that_of_the_accessibility_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("shades", [UTILITY_SHADES, GAP_SHADES])
def test_numbers_can_be_read_on_every_shade(shades: tuple[str, str]) -> None:
    for step in range(21):
        colour = blend(shades, step / 20)
        assert contrast(text_on(colour), colour) >= 4.5


def test_shades_end_where_they_should() -> None:
    assert (blend(UTILITY_SHADES, -1), blend(UTILITY_SHADES, 2)) == UTILITY_SHADES
