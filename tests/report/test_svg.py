from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fairsad.report.palette import MARKS
from fairsad.report.svg import Scale, element, mark, path


def test_what_comes_from_results_is_escaped() -> None:
    drawn = element("text", "<script>&", class_="a", data_label='"quoted"')
    parsed = ElementTree.fromstring(str(drawn))
    assert parsed.text == "<script>&"
    assert parsed.attrib == {"class": "a", "data-label": '"quoted"'}
    assert element("g", x=None) == "<g></g>"


@pytest.mark.parametrize("shape", MARKS)
def test_every_mark_is_drawn_around_its_place(shape: str) -> None:
    parsed = ElementTree.fromstring(str(mark(shape, 50, 70, 6)))
    if parsed.tag == "circle":
        assert (parsed.get("cx"), parsed.get("cy")) == ("50", "70")
        return
    points = [tuple(map(float, pair.split(","))) for pair in str(parsed.get("points")).split()]
    for place, centre in ((0, 50), (1, 70)):
        values = [point[place] for point in points]
        assert min(values) < centre < max(values)
        assert max(abs(value - centre) for value in values) < 10


def test_a_scale_has_room_for_all_values_and_round_ticks() -> None:
    scale = Scale.over([0.13, 0.57, float("nan")], 0, 100)
    assert scale.low <= 0.13
    assert scale.high >= 0.57
    assert scale(scale.low) == 0
    assert scale(scale.high) == pytest.approx(100)
    assert [scale.show(tick) for tick in scale.ticks] == ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]
    upwards = Scale.over([1.0, 3.0], 100, 0)
    assert upwards(3.0) < upwards(1.0)


def test_a_scale_of_one_value_or_none_is_still_a_scale() -> None:
    for values in ([5.0], [0.0, 0.0], [], [float("nan")]):
        scale = Scale.over(values, 0, 100)
        assert scale.high > scale.low
    assert Scale.over([0.0, 10.0], 0, 100, floor=0.0).low == 0


def test_a_minus_is_a_minus() -> None:
    assert Scale.over([-10.0, 10.0], 0, 100).show(-5) == "−5"
    assert "−0" not in Scale.over([-10.0, 10.0], 0, 100).show(-0.0)


def test_a_path_is_closed_when_asked() -> None:
    assert 'd="M0.0,1.0 L2.0,3.0 Z"' in path([(0, 1), (2, 3)], closed=True)
