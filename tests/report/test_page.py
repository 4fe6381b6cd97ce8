"""The page as text here, and in a real browser where there is one (``make test`` says when there is not)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairsad.experiments.runner import run
from fairsad.experiments.store import Result, Store
from fairsad.report.digest import Digest
from fairsad.report.page import page, write_page
from fairsad.report.palette import contrast
from tests.studies import made_up, made_up_sweep, quick_plan

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> list[Digest]:
    """A comparison with a failure, a real study with groups and probes, a sweep and a grid."""
    folder = tmp_path_factory.mktemp("studies")
    stores = [Store(folder / name) for name in ("comparison", "real", "sweep", "grid")]
    study = made_up(stores[0])
    stores[0].forget(study.trials[:1])
    stores[0].write(Result(study.trials[0], "failed", "it <broke>"))
    run(stores[1], quick_plan())
    made_up_sweep(stores[2], {"num_channels": (1.0, 2.0, 4.0)})
    made_up_sweep(stores[3], {"alpha": (0.1, 1.0), "beta": (1.0, 5.0)})
    return [Digest.of(store, num_draws=50) for store in stores]


def test_the_page_is_one_small_file_that_asks_for_nothing(digests: list[Digest], tmp_path: Path) -> None:
    path = write_page(digests, tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    text = path.read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text


def test_the_summary_comes_first_and_says_what_failed(digests: list[Digest]) -> None:
    text = page(digests[:1])
    assert text.index('id="summary"') < text.index('id="study-comparison"') < text.index('id="protocol"')
    assert "it &lt;broke&gt;" in text
    (short,) = digests[0].verdict("german")
    assert text.index(f'<p class="verdict">{short}</p>') < text.index("<ul", text.index('id="summary"'))
    for sentence in digests[0].conclusions("german"):
        assert sentence.replace("'", "&#39;") in text


def test_beside_other_studies_the_points_behind_a_verdict_are_folded(digests: list[Digest]) -> None:
    def summary_of(which: list[Digest]) -> str:
        return page(which).partition('<section id="summary"')[2].partition("</section>")[0]

    assert "<details" not in summary_of(digests[:1])
    together = summary_of(digests)
    folded = re.findall(r"<details.*?</details>", together, re.DOTALL)
    (short,) = digests[0].verdict("german")
    assert short in together
    assert not any(short in part for part in folded)
    point = digests[0].conclusions("german")[1].replace("'", "&#39;")
    assert any(point in part for part in folded)


def test_every_number_of_the_table_is_on_the_page(digests: list[Digest]) -> None:
    text = page(digests[:1])
    for label in digests[0].labels:
        for metric in digests[0].metrics:
            cell = digests[0].cell("german", label, metric)
            assert cell is not None
            assert f"{100 * cell['mean']:.2f}" in text


def test_the_protocol_stands_in_full(digests: list[Digest]) -> None:
    text = page(digests[1:2])
    protocol = digests[1].results[0].protocol
    for fact in (protocol["fingerprint"], protocol["split"]["hash"], protocol["versions"]["torch"]):
        assert fact in text
    assert "learning_rate=" in text


def test_it_never_calls_a_model_fair(digests: list[Digest]) -> None:
    text = page(digests)
    assert not re.search(r"\bis fair\b|\bfair model\b|debias", text, re.IGNORECASE)


# -- in a browser -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here; Debian's package has it")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def opened(browser: Any, digests: list[Digest], tmp_path: Path) -> Iterator[tuple[Any, list[str]]]:
    """The page, and what went wrong while it was open: errors on the console, requests to anywhere."""
    path = write_page(digests, tmp_path / "report.html", "A title")
    tab = browser.new_page(viewport={"width": 1200, "height": 900})
    trouble: list[str] = []
    tab.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on(
        "request",
        lambda request: trouble.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
    )
    tab.goto(path.as_uri())
    yield tab, trouble
    tab.close()


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_in_a_browser_charts_are_drawn_and_nothing_goes_wrong(opened: tuple[Any, list[str]]) -> None:
    tab, trouble = opened
    assert tab.title() == "A title"
    charts = tab.locator("figure svg.chart")
    assert charts.count() >= 6
    for number in range(charts.count()):
        chart = charts.nth(number)
        if chart.is_visible():
            box = chart.bounding_box()
            assert box["width"] > 150
            assert box["height"] > 60
    for details in tab.locator("details > summary").all():
        details.click()
    assert tab.locator("details[open]").count() == tab.locator("details").count()
    assert trouble == []


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_in_a_browser_a_table_sorts_by_keyboard(opened: tuple[Any, list[str]]) -> None:
    tab, trouble = opened
    table = tab.locator("table.results").first
    head = table.locator("th button", has_text="ΔDP").first
    column = 1 + head.evaluate("button => [...button.closest('tr').children].indexOf(button.closest('th'))")

    def values() -> list[float]:
        cells = table.locator(f"tbody tr > :nth-child({column})").all()
        return [float(cell.get_attribute("data-value")) for cell in cells]

    before = values()
    head.focus()
    tab.keyboard.press("Enter")
    assert values() == sorted(before)
    assert head.evaluate("button => button.closest('th').getAttribute('aria-sort')") == "ascending"
    tab.keyboard.press("Enter")
    assert values() == sorted(before, reverse=True)
    names = table.locator("th button").first
    names.click()
    labels = [cell.inner_text() for cell in table.locator("tbody th").all()]
    assert labels == sorted(labels)
    assert trouble == []


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_in_a_browser_it_fits_a_phone_and_follows_the_dark(opened: tuple[Any, list[str]]) -> None:
    tab, trouble = opened
    tab.set_viewport_size({"width": 380, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (
        "only tables scroll"
    )
    colour = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(colour)
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(colour) != light
    tab.emulate_media(media="print")
    assert tab.locator("nav").is_hidden()
    assert trouble == []


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_in_a_browser_the_numbers_of_a_heat_map_can_be_read(opened: tuple[Any, list[str]]) -> None:
    tab, _ = opened
    shown = tab.locator("svg.chart g:has(> text.cell)").evaluate_all(
        "groups => groups.map(g => ['rect', 'text'].map(name => getComputedStyle(g.querySelector(name)).fill))"
    )
    assert len(shown) == 8, "two charts of four points"
    for box, text in shown:
        assert (
            contrast(*("#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", fill)) for fill in (box, text)))
            > 4.5
        )


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_in_a_browser_a_screen_reader_finds_its_way(opened: tuple[Any, list[str]]) -> None:
    tab, _ = opened
    assert tab.locator("html").get_attribute("lang") == "en"
    assert tab.locator("h1").count() == 1
    for svg in tab.locator("svg.chart").all():
        assert svg.get_attribute("aria-label")
    for head in tab.locator("thead th").all():
        assert head.get_attribute("scope") == "col"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    for link in tab.locator("nav a").all():
        assert tab.locator(link.get_attribute("href")).count() == 1
