from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from fairsad.report.charts import channels, curve, differences, heat, legend, scatter
from fairsad.report.palette import UTILITY_SHADES, styles


def point(label: str, gap: tuple[float, float, float], utility: tuple[float, float, float]) -> dict[str, Any]:
    ends = ("", "_low", "_high")
    values = {f"gap{end}": value for end, value in zip(ends, gap, strict=True)}
    values |= {f"utility{end}": value for end, value in zip(ends, utility, strict=True)}
    return {"label": label, "point": "", "hollow": False, **values}


POINTS = [
    point("GCN", (9.0, 5.0, 13.0), (87.0, 86.0, 88.0)),
    point("Mine <b>", (3.0, math.nan, math.nan), (88.0, 87.0, 89.0)),
]


def parsed(drawn: Markup) -> ElementTree.Element:
    root = ElementTree.fromstring(str(drawn))
    assert root.tag == "svg"
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert "nan" not in str(drawn)
    width, height = map(float, str(root.get("viewBox")).split()[2:])
    for text in root.iter("text"):
        assert 0 <= float(text.get("x", 0)) <= width
        assert 0 <= float(text.get("y", 0)) <= height
    return root


def words(root: ElementTree.Element) -> list[str]:
    return [str(title.text) for title in root.iter("title")]


def test_a_scatter_has_every_row_where_it_belongs() -> None:
    looks = styles(["GCN", "Mine <b>"])
    root = parsed(scatter(POINTS, looks, gap="ΔDP", utility="AUC", graph="bail"))
    assert "GCN: AUC 87.0 %, ΔDP 9.0 %" in words(root)
    assert "Mine <b>: AUC 88.0 %, ΔDP 3.0 %" in words(root)
    circle = root.find(".//circle")
    square = root.find(".//polygon")
    assert circle is not None
    assert square is not None
    assert float(str(circle.get("cx"))) > float(str(square.get("points")).split(",")[0]), (
        "a larger gap lies to the right"
    )
    bars = [bar for bar in root.iter("line") if str(bar.get("class")).startswith("bar")]
    assert len(bars) == 3, "an undefined interval has no bar"


def test_what_is_nearly_constant_is_hollow_and_says_so() -> None:
    looks = styles(["GCN", "Mine <b>"])
    root = parsed(scatter([POINTS[0], POINTS[1] | {"hollow": True}], looks, gap="ΔDP", utility="AUC", graph="bail"))
    marks = [str(each.get("class")) for kind in ("circle", "polygon") for each in root.iter(kind)]
    assert marks == ["mark fill-0", "mark hollow stroke-1"]
    assert "Mine <b>: AUC 88.0 %, ΔDP 3.0 %, nearly constant" in words(root)
    points = [(1.0, 80.0, 78.0, 82.0), (2.0, 85.0, 83.0, 87.0)]
    root = parsed(curve(points, coordinate="K", metric="AUC", graph="bail", ink=1, hollow=[2.0]))
    assert [str(each.get("class")) for each in root.iter("circle")] == ["mark fill-1", "mark hollow stroke-1"]
    values = {(0.1, 1.0): 80.0, (0.1, 5.0): 81.0}
    root = parsed(
        heat(values, down="α", across="β", metric="F1", graph="bail", shades=UTILITY_SHADES, flagged=[(0.1, 5.0)])
    )
    assert [text.text for text in root.iter("text") if text.get("class") == "cell"] == ["80.0", "81.0 †"]


def test_the_legend_names_every_row() -> None:
    drawn = ElementTree.fromstring(str(legend(["GCN", "Mine <b>"], styles(["GCN", "Mine <b>"]))))
    assert [span.text for span in drawn.iter("span")] == ["GCN", "Mine <b>"]


def test_the_legend_flags_a_row() -> None:
    drawn = ElementTree.fromstring(str(legend(["GCN", "Mine"], styles(["GCN", "Mine"]), ["Mine"])))
    assert [span.text for span in drawn.iter("span")] == ["GCN", "Mine †"]


def test_a_difference_that_may_be_chance_is_hollow() -> None:
    rows = [("sure", -5.0, -8.0, -2.0), ("unsure", 1.0, -1.0, 3.0), ("unknown", math.nan, math.nan, math.nan)]
    root = parsed(differences(rows, metric="ΔDP", reference="GCN", graph="bail"))
    classes = [str(mark.get("class")) for mark in root.iter("circle")]
    assert classes == ["difference sure", "difference unsure"]
    assert "sure: -5.0 points [-8.0, -2.0]" in words(root)


def test_a_curve_has_its_band_and_its_points() -> None:
    points = [(1.0, 80.0, 78.0, 82.0), (2.0, 85.0, 83.0, 87.0), (4.0, 84.0, math.nan, math.nan)]
    root = parsed(curve(points, coordinate="K", metric="AUC", graph="bail", ink=1))
    assert len(list(root.iter("circle"))) == 3
    assert "K = 2: AUC" not in words(root)
    assert "K = 2: 85.0 % [83.0, 87.0]" in words(root)
    bars = [bar for bar in root.iter("line") if str(bar.get("class")).startswith("bar")]
    assert len(bars) == 2, "an interval shows also where its neighbours have none"


@pytest.mark.parametrize("missing", [False, True])
def test_a_heat_map_has_a_cell_for_every_number(missing: bool) -> None:
    values = {(a, b): 80 + a + b for a in (0.1, 1.0) for b in (0.5, 5.0)}
    if missing:
        values[0.1, 5.0] = math.nan
    root = parsed(heat(values, down="α", across="β", metric="F1", graph="bail", shades=UTILITY_SHADES))
    assert len(list(root.iter("rect"))) == 4 - missing
    assert "α = 1, β = 0.5: F1 81.5 %" in words(root)


def test_channels_are_measured_from_chance() -> None:
    root = parsed(channels([("channel 1", 0.5, 0.5), ("channel 2", 0.9, 0.7)], what="gender", graph="bail"))
    bars = list(root.iter("rect"))
    lengths = [float(str(bar.get("width"))) for bar in bars]
    assert lengths[2] == pytest.approx(2 * lengths[3], rel=0.01)
    assert lengths[0] == 1.0, "nothing to read still leaves a trace"
