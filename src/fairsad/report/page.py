"""The page: one file that says what came out, for people who were not there; it needs no network and no server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from fairsad.evaluation.scores import find_metric
from fairsad.experiments.store import ATTRIBUTE_SEPARATOR, Result, show_point
from fairsad.files import whole_file
from fairsad.report import charts
from fairsad.report.digest import Digest, RowFinding, first_run, listed, row_name
from fairsad.report.figures import scatter_points
from fairsad.report.palette import DAGGER, GAP_INK, GAP_SHADES, INKS, UTILITY_INK, UTILITY_SHADES, Style, styles
from fairsad.report.svg import element
from fairsad.report.tables import Cell, coordinate_title, metric_title, show_limits, show_memory, show_published

# A table of more rows is folded: its chart says more at a glance.
ROWS_SHOWN = 20
FINDINGS = {
    "NEARLY_CONSTANT": "Nearly constant",
    "WORSE_THAN_CONSTANT": "Worse than giving everybody the same",
    "UNDEFINED_RATE": "Not everything can be computed",
    "LOW_COVERAGE": "The sensitive attribute is often unknown",
    "FEW_CASES": "Gaps that rest on few cases",
    "GAP_COVERS_ZERO": "Some gaps cannot be told from none",
    "UTILITY_LOST": "Utility lost",
    "TRADED_GAP": "One gap traded for another",
}


def write_page(digests: Sequence[Digest], path: Path, title: str = "") -> Path:
    """Write the page of one study or of several.

    Args:
        digests: In the order of the page.
        path: The file.
        title: Heading; by default that of the only study.

    Returns:
        The file.
    """
    with whole_file(path) as partial:
        partial.write_text(page(digests, title), encoding="utf-8")
    return path


def page(digests: Sequence[Digest], title: str = "") -> str:
    """The page as text."""
    heading = title or (digests[0].study.title if len(digests) == 1 else "Studies of fair node classification")
    alone = len(digests) == 1
    sections = [(_anchor(digest), "Results" if alone else digest.study.title, _study(digest)) for digest in digests]
    links = [("summary", "Summary")]
    links += [(_anchor(digest), "Results" if alone else digest.study.name.capitalize()) for digest in digests]
    links += [("protocol", "Protocol")]
    body = [
        element("a", "Skip to the results", href="#main", class_="skip"),
        element("header", element("div", element("h1", heading), element("p", _lead(digests), class_="lead"))),
        element(
            "nav",
            element("ul", *(element("li", element("a", text, href=f"#{name}")) for name, text in links)),
            aria_label="Sections",
        ),
        element(
            "main",
            element(
                "section",
                element("h2", "Summary"),
                element("p", HOW_TO_READ, class_="note"),
                *_summary(digests),
                id="summary",
            ),
            *(element("section", element("h2", text), *content, id=name) for name, text, content in sections),
            element("section", element("h2", "Protocol"), *_protocol(digests), id="protocol"),
            id="main",
        ),
        element("footer", element("div", element("p", CAUTION, class_="soft"))),
    ]
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", heading),
        # an icon of its own, or a browser asks the server for one
        Markup('<link rel="icon" href="data:,">'),
        element("style", Markup(_asset("page.css") + _ink_rules())),
    ]
    document = element("head", *head) + element("body", *body, element("script", Markup(_asset("page.js"))))
    return f'<!doctype html>\n<html lang="en">{document}</html>\n'


HOW_TO_READ = (
    "ΔDP is the difference between groups in the share of positive predictions, ΔEO that among people whose label is "
    "positive; 0 is no difference. ± is the standard deviation over seeds, dividing by their number; brackets are "
    "intervals, over seeds and test nodes; a difference is sure when its interval leaves out 0, or else may be chance."
)
CAUTION = (
    "A gap that is small by these measures says nothing about other measures, other data, or whether the labels "
    "themselves treat people alike."
)


def _asset(name: str) -> str:
    return (files("fairsad.report") / "assets" / name).read_text(encoding="utf-8")


def _ink_rules() -> str:
    """One class for each ink, for light and for dark pages."""

    def rules(tone: str) -> str:
        return "\n".join(
            f".fill-{number} {{ fill: {getattr(ink, tone)}; }} .stroke-{number} {{ stroke: {getattr(ink, tone)}; }}"
            for number, ink in enumerate(INKS)
        )

    return f"{rules('light')}\n@media screen and (prefers-color-scheme: dark) {{\n{rules('dark')}\n}}\n"


def _anchor(digest: Digest) -> str:
    return f"study-{digest.study.name}"


def _lead(digests: Sequence[Digest]) -> str:
    trials = sum(len(digest.results) for digest in digests)
    graphs = list(dict.fromkeys(graph for digest in digests for graph in digest.graphs))
    seeds = max(len(digest.study.seeds) for digest in digests)
    told = f"{trials} runs on {listed(graphs)}" + (f", up to {seeds} seeds each" if seeds > 1 else ", one seed")
    if len(digests) == 1 and digests[0].shape == "table":
        told += f". Rows: {listed(digests[0].labels, len(digests[0].labels))}"
    return f"{told}."


# -- summary ------------------------------------------------------------------------------------------------


def _summary(digests: Sequence[Digest]) -> Iterator[Markup]:
    """A card per study and graph; of several studies the graphs stand side by side."""
    for digest in digests:
        cards = [
            _card(digest, graph, told, alone=len(digests) == 1)
            for graph in digest.graphs
            if (told := digest.conclusions(graph))
        ]
        if len(digests) == 1:
            yield from cards
        elif cards:
            yield element("h3", digest.study.title)
            yield element("div", *cards, class_="cards")
        if digest.failures or digest.missing:
            yield _failures(digest)


def _card(digest: Digest, graph: str, told: Sequence[str], *, alone: bool) -> Markup:
    """Who is counted, the verdict, and the points behind it, folded where there are other studies."""
    short = digest.verdict(graph)
    lead = [element("p", sentence, class_="verdict") for sentence in short]
    points = _list(told[len(short) :])
    if short and not alone:
        points = element("details", element("summary", f"Row by row on {graph}"), points)
    return element(
        "div", element("h3" if alone else "h4", graph), *_people(digest, graph), *lead, points, class_="card"
    )


def _people(digest: Digest, graph: str) -> Iterator[Markup]:
    """Who is counted: how many, in which groups, and what a positive prediction is."""
    run = next((run for label in digest.labels if (run := first_run(digest, graph, label)) is not None), None)
    if run is None:
        return
    content = run.evaluation
    told = [f"{content['rows']['counted']:,} test nodes"]
    for attribute, evaluated in content["attributes"].items():
        groups = [f"{group['name'].removeprefix(f'{attribute}=')} {group['rows']:,}" for group in evaluated["groups"]]
        told.append(f"{attribute}: {listed(groups)}")
    if content["positive"] is not None:
        told.append(f"positive: '{content['positive']}'")
    yield element("p", "; ".join(told) + ".", class_="soft")


def _failures(digest: Digest) -> Markup:
    kinds: dict[tuple[str, str], int] = {}
    for result in digest.failures:
        kind = (f"{row_name(result.trial.label)} on {result.trial.graph}", result.error)
        kinds[kind] = kinds.get(kind, 0) + 1
    told = [f"{row}, {count} failed: {error}" for (row, error), count in kinds.items()]
    told += [f"{digest.missing} of {len(digest.study.trials)} trials are still missing."] if digest.missing else []
    return element("div", element("h3", f"{digest.study.title}: not everything is here"), _list(told), class_="card")


# -- a study ------------------------------------------------------------------------------------------------


def _study(digest: Digest) -> list[Markup]:
    study = digest.study
    parts = [element("p", study.note)] if study.note else []
    looks = styles(study.methods)
    for graph in digest.graphs:
        parts.append(element("h3", graph))
        if digest.shape == "grid":
            parts += _heat_maps(digest, graph)
        elif digest.shape == "line":
            parts += _curves(digest, graph)
        else:
            parts += _scatter(digest, graph, looks)
        parts += _result_table(digest, graph)
        parts += _differences(digest, graph)
        parts += _probes(digest, graph)
        parts += _groups(digest, graph)
    parts += _published_statements(digest)
    parts += _findings(digest)
    return parts


def _scatter(digest: Digest, graph: str, looks: Mapping[str, Style]) -> Iterator[Markup]:
    points = scatter_points(digest, graph)
    if not points:
        return
    utility, gap = metric_title(digest.study.utility), metric_title(digest.study.gap)
    drawn = charts.scatter(points, looks, gap=gap, utility=utility, graph=graph)
    caption = (
        f"{utility} against {gap}: up and to the left is better. Bars are {100 * digest.level:g} % intervals of the "
        "mean; the dotted line joins rows that no other row beats in both."
    )
    labels = list(dict.fromkeys(point["label"] for point in points))
    decides = {point["label"] for point in points if not point["hollow"]}
    flagged = [label for label in labels if label not in decides]
    if any(point["hollow"] for point in points):
        caption += " Hollow: nearly constant, a small gap says nothing there."
    beside = element("div", charts.legend(labels, looks, flagged), element("figcaption", caption))
    yield element("figure", drawn, beside, class_="beside")


def _curves(digest: Digest, graph: str) -> Iterator[Markup]:
    (coordinate,) = digest.study.coordinates
    drawn = []
    hollow = [point[coordinate] for point in digest.nearly_constant_points(graph)]
    for metric, ink in ((digest.study.utility, UTILITY_INK), (digest.study.gap, GAP_INK)):
        chosen = digest.of_metric(graph, metric)
        points = [
            (row[f"at_{coordinate}"], 100 * row["mean"], 100 * row["low"], 100 * row["high"])
            for _, row in chosen.sort_values(f"at_{coordinate}").iterrows()
            if not math.isnan(row["mean"])
        ]
        if points:
            drawn.append(
                element(
                    "figure",
                    charts.curve(
                        points,
                        coordinate=coordinate_title(coordinate),
                        metric=metric_title(metric),
                        graph=graph,
                        ink=ink,
                        floor=0.0 if metric == digest.study.gap else None,
                        hollow=hollow,
                    ),
                )
            )
    yield element("div", *drawn, class_="charts")
    told = f"Bands and bars are {100 * digest.level:g} % intervals of the mean, over seeds and test nodes."
    told += " Hollow: nearly constant." if hollow else ""
    yield element("p", told, class_="note")


def _heat_maps(digest: Digest, graph: str) -> Iterator[Markup]:
    down, across = digest.study.coordinates
    drawn = []
    flagged = [(point[down], point[across]) for point in digest.nearly_constant_points(graph)]
    for metric, shades in ((digest.study.utility, UTILITY_SHADES), (digest.study.gap, GAP_SHADES)):
        chosen = digest.of_metric(graph, metric)
        values = {(row[f"at_{down}"], row[f"at_{across}"]): 100 * row["mean"] for _, row in chosen.iterrows()}
        title = metric_title(metric)
        drawn.append(
            element(
                "figure",
                charts.heat(
                    values,
                    down=coordinate_title(down),
                    across=coordinate_title(across),
                    metric=title,
                    graph=graph,
                    shades=shades,
                    flagged=flagged,
                ),
                element(
                    "figcaption",
                    f"{title}, mean over seeds in per cent." + (" † Nearly constant." if flagged else ""),
                ),
            )
        )
    yield element("div", *drawn, class_="charts")


def _result_table(digest: Digest, graph: str) -> Iterator[Markup]:
    """Sortable: mean ± std, interval, published number; a sweep has a row for each point."""
    frame = digest.frame[digest.frame["graph"] == graph]
    rows, flagged = [], False
    for label, point in frame[["label", "point"]].drop_duplicates().itertuples(index=False):
        cells = [digest.cell(graph, label, metric, point) for metric in digest.metrics]
        if not any(cell is not None and cell["seeds"] for cell in cells):
            continue
        name = row_name("" if digest.shape in ("line", "grid") else label, point)
        constant = digest.nearly_constant(graph, label, point)
        flag = [element("abbr", DAGGER, title=charts.NEARLY_CONSTANT)] if constant else []
        flagged = flagged or constant
        cost = next(cell for cell in cells if cell is not None)
        rows.append(
            element(
                "tr",
                element("th", name, *flag, scope="row"),
                *(_result_cell(cell, ranked=digest.shape == "table") for cell in cells),
                element("td", f"{cost['seconds']:.1f} s", data_value=f"{cost['seconds']:.3f}"),
                element("td", show_memory(cost["peak_mb"]), data_value=f"{cost['peak_mb']:.1f}"),
            )
        )
    heads = [_head("", "ascending", "text")]
    heads += [
        _head(metric_title(metric), "descending" if _higher_is_better(metric) else "ascending", "number")
        for metric in digest.metrics
    ]
    heads += [_head("training", "ascending", "number"), _head("memory", "ascending", "number")]
    caption = (
        f"{graph}, test nodes, in per cent: mean ± std over seeds, {100 * digest.level:g} % interval of the mean"
        + (
            ", and the published mean ± std with the difference from it (! outside 2 std)"
            if _has_published(frame)
            else ""
        )
        + (". Green: best; underlined: second best, of the rows without †" if digest.shape == "table" else "")
        + (
            ". † Nearly constant: almost everybody gets the same answer, with half of the seeds or more"
            if flagged
            else ""
        )
        + ". A click on a head sorts."
    )
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="results")
    parts = [
        element("p", caption, class_="note"),
        element("div", table, class_="wide", tabindex=0, role="region", aria_label=f"Results on {graph}"),
    ]
    if len(rows) > ROWS_SHOWN:
        yield element("details", element("summary", f"All {len(rows)} rows on {graph}"), *parts)
    else:
        yield from parts
    impossible = frame[frame["impossible"] != ""]
    for _, row in impossible.iterrows():
        yield element(
            "p",
            f"? {row['label']}, {metric_title(row['metric'])}: {row['impossible']}.",
            class_="note",
        )


def _head(text: str, first: str, kind: str) -> Markup:
    name = text or "row"
    button = element("button", name, type="button", data_first=first, data_kind=kind)
    return element("th", button, scope="col", aria_sort="none")


_RANKS: dict[int | None, str] = {1: " (best)", 2: " (second best)"}
_RANK_CLASSES: dict[int | None, str] = {1: "best", 2: "second"}


def _result_cell(cell: Cell, *, ranked: bool) -> Markup:
    if cell is None or math.isnan(cell["mean"]):
        return element("td", "–", data_value="")
    spread = f" ± {100 * cell['std']:.2f}" if cell["seeds"] > 1 else ""
    rank = cell["rank"] if ranked else None
    said = _RANKS.get(rank)
    parts: list[Markup | str] = [element("span", f"{100 * cell['mean']:.2f}{spread}", class_="mean")]
    parts += [element("span", said, class_="unseen")] if said else []
    if not math.isnan(cell["low"]):
        parts.append(element("small", show_limits(cell)))
    published, _, difference = show_published(cell).partition("; ")
    if published != "–":
        parts.append(element("small", f"paper {published}"))
        parts += [element("small", difference)] if difference else []
    return element("td", *parts, class_=_RANK_CLASSES.get(rank), data_value=f"{cell['mean']:.6f}")


def _has_published(frame: Any) -> bool:
    return bool(frame["published_mean"].notna().any())


def _higher_is_better(metric: str) -> bool:
    return find_metric(metric.rpartition(ATTRIBUTE_SEPARATOR)[2]).better == "higher"


def _differences(digest: Digest, graph: str) -> Iterator[Markup]:
    """How far each row is from the reference, paired on the same nodes."""
    comparison = digest.comparisons.get(graph)
    if comparison is None:
        return
    drawn = []
    for metric in (digest.study.utility, digest.study.gap):
        if not any(row.metric == metric for row in comparison.rows):
            continue
        row = comparison.row(metric)
        lines = [
            (
                label,
                100 * row.differences[label].value,
                100 * row.differences[label].interval.low,
                100 * row.differences[label].interval.high,
            )
            for label in comparison.models
            if label != comparison.reference and label not in digest.by_design(graph)
        ]
        drawn.append(
            element(
                "figure",
                charts.differences(lines, metric=metric_title(metric), reference=comparison.reference, graph=graph),
            )
        )
    if drawn:
        yield element("div", *drawn, class_="charts")
        caption = (
            f"Differences from {comparison.reference} on the same nodes with {100 * digest.level:g} % intervals; a "
            "hollow dot is a difference that may be chance."
        )
        yield element("p", caption, class_="note")


# -- groups and probe ---------------------------------------------------------------------------------------


def _first_runs(digest: Digest, graph: str) -> list[Result]:
    """The first seed of every row that kept its whole evaluation."""
    return [run for label in digest.labels if (run := first_run(digest, graph, label)) is not None]


def _groups(digest: Digest, graph: str) -> Iterator[Markup]:
    """Group by group: how many there are, and how they fare with each row's first seed."""
    runs = _first_runs(digest, graph)
    if not runs:
        return
    tables = []
    for attribute in runs[0].evaluation["attributes"]:
        rows = [line for run in runs for line in _group_rows(run, attribute)]
        heads = ("row", "group", "people", "positive labels", "positive predictions", "true positive rate", "accuracy")
        head = element(
            "tr", *(element("th", text, scope="col", class_="text" if text == "group" else None) for text in heads)
        )
        told = f"{graph} by {attribute}, seed {runs[0].trial.seed}, shares in per cent with Wilson intervals."
        tables.append(element("p", told, class_="note"))
        tables.append(
            element(
                "div",
                element(
                    "table",
                    element("thead", head),
                    element("tbody", *rows),
                ),
                class_="wide",
                tabindex=0,
                role="region",
                aria_label=f"Groups of {graph} by {attribute}",
            )
        )
    yield element("details", element("summary", f"Group by group on {graph}"), *tables)


def _group_rows(run: Result, attribute: str) -> Iterator[Markup]:
    evaluated = run.evaluation["attributes"][attribute]
    positive = run.evaluation["positive"]
    for number, group in enumerate(evaluated["groups"]):
        rates = group["rates"].get(positive, {}) if positive is not None else {}
        labelled = group["label_counts"].get(positive, 0) if positive is not None else 0
        yield element(
            "tr",
            element("th", run.trial.label if number == 0 else "", scope="row"),
            element("td", group["name"], class_="text"),
            element("td", f"{group['rows']:,}"),
            element("td", f"{100 * labelled / group['rows']:.1f}" if group["rows"] and positive is not None else "–"),
            element("td", _estimate(rates.get("selection_rate"))),
            element("td", _estimate(rates.get("true_positive_rate"))),
            element("td", _estimate(group["metrics"].get("accuracy"))),
        )


def _estimate(content: Mapping[str, Any] | None) -> str:
    """A number with its interval, from an evaluation as JSON."""
    if content is None or content["value"] is None:
        return "–"
    interval = content.get("interval") or {}
    text = f"{100 * content['value']:.1f}"
    if interval.get("low") is None:
        return text
    return f"{text} [{100 * interval['low']:.0f}, {100 * interval['high']:.0f}]"


def _probes(digest: Digest, graph: str) -> Iterator[Markup]:
    """Where the sensitive attribute can be read: drawn for rows with channels, in words for the others."""
    runs = [run for run in _first_runs(digest, graph) if run.probe]
    if not runs:
        return
    drawn: list[Markup] = []
    told: list[Markup] = []
    for run in runs:
        assert run.probe is not None
        pictures = list(_channel_pictures(run, graph))
        into = drawn if pictures else told
        into += [element("h4", run.trial.label), *pictures, _list(run.probe["sentences"])]
    yield element("h3", f"Where the sensitive attribute lives on {graph}")
    yield element(
        "p",
        "How well a linear reader finds it in the first seed's representation, cross-validated; 0.5 is chance. A "
        "blurred reader sees each channel with some noise, so that a channel that the mask makes small tells it less.",
        class_="note",
    )
    yield from drawn
    if told:
        yield element("details", element("summary", "Rows without channels"), *told)


def _channel_pictures(run: Result, graph: str) -> Iterator[Markup]:
    assert run.probe is not None
    for name, target in run.probe["targets"].items():
        places = [
            (place, _auc(reading["before"]), _auc(reading["after"]))
            for place, reading in target["places"].items()
            if place.startswith("channel ") and "before" in reading
        ]
        if places and target["sensitive"]:
            yield element("figure", charts.channels(places, what=name, graph=graph), charts.channels_legend())


def _auc(reading: Mapping[str, Any]) -> float:
    return math.nan if reading["auc"] is None else float(reading["auc"])


# -- findings, what the paper says, protocol ----------------------------------------------------------------


def _findings(digest: Digest) -> Iterator[Markup]:
    """One line per kind of finding and graph, with the rows that it is about; every row's own sentence folded in it."""
    kinds: dict[tuple[str, str], list[RowFinding]] = {}
    for finding in digest.findings:
        kinds.setdefault((finding.graph, finding.code), []).append(finding)
    if not kinds:
        return
    items = []
    for (graph, code), found in kinds.items():
        about = dict.fromkeys(
            f"{each.label} ({each.seeds} of {each.of} seeds)" if each.seeds < each.of else each.label for each in found
        )
        title = FINDINGS.get(code, code.replace("_", " ").capitalize())
        where = f" on {graph}" if len(digest.graphs) > 1 else ""
        severity = found[0].severity  # the gravest come first
        badge = element("span", severity, class_="badge")
        line = element("summary", badge, f" {title}{where}: {listed(list(about), len(about))}.")
        items.append(element("li", element("details", line, _list(map(str, found))), class_=f"is-{severity}"))
    yield element("h3", "What to know before the numbers are used")
    yield element("ul", *items, class_="findings")


def _published_statements(digest: Digest) -> Iterator[Markup]:
    published = digest.published
    if published is None or not (published.statements or published.note):
        return
    yield element("h3", "What the paper says")
    if published.statements:
        yield _list(published.statements)
    yield element("p", f"{published.source}. {published.note}".strip(), class_="note")


def _protocol(digests: Sequence[Digest]) -> Iterator[Markup]:
    """In full: data, split, selection, seeds, versions, host; and every setting of every row."""
    for digest in digests:
        yield element("h3", digest.study.title)
        for graph in digest.graphs:
            first = next(result for result in digest.results if result.done and result.trial.graph == graph)
            protocol = first.protocol
            facts = {
                "graph": f"{protocol['graph']} (fingerprint {protocol['fingerprint']})",
                "split": f"{protocol['split']['recipe'] or 'given with the graph'} (hash {protocol['split']['hash']})",
                "sensitive attribute among the features": "yes" if protocol["sensitive_in_features"] else "no",
                "decision": protocol["threshold"],
                "selection rule": _selections(digest, graph),
                "seeds": ", ".join(map(str, digest.study.seeds)),
                "host": _host(protocol["host"]),
                "versions": ", ".join(f"{name} {value}" for name, value in protocol["versions"].items()),
                "source": _source(protocol.get("source")),
            }
            yield element(
                "dl", *(part for name, fact in facts.items() for part in (element("dt", name), element("dd", fact)))
            )
            yield _settings(digest, graph)


def _selections(digest: Digest, graph: str) -> str:
    """The rules that choose the epoch to keep on the validation nodes, each with its rows."""
    rows: dict[str, list[str]] = {}
    for result in digest.results:
        if result.done and result.trial.graph == graph and (rule := result.protocol.get("selection")):
            named = rows.setdefault(rule, [])
            named += [result.trial.label] if result.trial.label not in named else []
    told = [f"{rule} ({listed(labels, len(labels))})" for rule, labels in rows.items()]
    return f"{'; '.join(told)}; on the validation nodes" if told else "none"


def _host(host: Mapping[str, Any]) -> str:
    memory = f", {host['memory_gb']:g} GB of memory" if host["memory_gb"] else ""
    return f"{host['system']}, {host['processor']}, {host['cores']} cores{memory}"


def _source(state: Any) -> str:
    if not isinstance(state, Mapping):
        return "an installed package"
    return f"commit {state['commit']}{', with changes' if state['changed'] else ''}"


def _settings(digest: Digest, graph: str) -> Markup:
    rows = {}
    for result in digest.results:
        trial = result.trial
        if trial.graph == graph and (trial.label, str(trial.point)) not in rows:
            name = row_name(trial.label, show_point(trial.point))
            text = ", ".join(f"{key}={value}" for key, value in trial.settings.items())
            rows[trial.label, str(trial.point)] = element(
                "tr", element("th", name, scope="row"), element("td", text, class_="text")
            )
    head = element("tr", element("th", "row", scope="col"), element("th", "settings", scope="col", class_="text"))
    table = element("table", element("thead", head), element("tbody", *rows.values()))
    return element(
        "details",
        element("summary", f"Every setting on {graph}"),
        element("div", table, class_="wide", tabindex=0, role="region", aria_label=f"Settings on {graph}"),
    )


def _list(items: Iterable[str]) -> Markup:
    return element("ul", *(element("li", escape(item)) for item in items))
