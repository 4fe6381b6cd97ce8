"""A study as tables: for the terminal, as Markdown, as LaTeX (booktabs), and as files of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairsad.evaluation.scores import find_metric
from fairsad.evaluation.tables import UNDEFINED, Table
from fairsad.experiments.store import ATTRIBUTE_SEPARATOR
from fairsad.files import whole_file
from fairsad.report.digest import COORDINATES, Digest, row_name
from fairsad.report.palette import DAGGER

Cell = Mapping[str, Any] | None
MARKS = {1: " *", 2: " +"}
NEARLY_CONSTANT_NOTE = "† nearly constant: almost everybody gets the same answer, with half of the seeds or more."
_LATEX = str.maketrans(
    {
        "Δ": r"$\Delta$",
        "±": r"$\pm$",
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "λ": r"$\lambda$",
        "–": "--",
        "−": "$-$",
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "×": r"$\times$",
        "†": r"\textsuperscript{\dag}",
    }
)


def metric_title(name: str) -> str:
    """A metric as the head of a column: its symbol where it has one."""
    attribute, _, metric = name.rpartition(ATTRIBUTE_SEPARATOR)
    found = find_metric(metric)
    return (found.symbol or found.title) + (f" by {attribute}" if attribute else "")


def coordinate_title(name: str) -> str:
    """A setting as the head of a column."""
    return COORDINATES.get(name, name)


def study_tables(digest: Digest) -> list[Table]:
    """All tables of a study, graph by graph."""
    if digest.shape == "grid":
        return [table for graph in digest.graphs for table in _grids(digest, graph)]
    if digest.shape != "table":
        return [_sweep(digest, graph) for graph in digest.graphs]
    tables = []
    for graph in digest.graphs:
        tables += [_values(digest, graph), _intervals(digest, graph)]
        if _has_published(digest, graph):
            tables.append(_beside_published(digest, graph))
        tables.append(_cost(digest, graph))
    return tables


def shown_tables(digest: Digest) -> list[Table]:
    """What fits a terminal: of a comparison each mean with its interval below, and what was published."""
    if digest.shape != "table":
        return study_tables(digest)
    tables = []
    for graph in digest.graphs:
        tables.append(_at_a_glance(digest, graph))
        if _has_published(digest, graph):
            tables.append(_beside_published(digest, graph))
    return tables


def _has_published(digest: Digest, graph: str) -> bool:
    return bool(digest.frame.loc[digest.frame["graph"] == graph, "published_mean"].notna().any())


def _at_a_glance(digest: Digest, graph: str) -> Table:
    def show(cell: Cell) -> str:
        # in front, so that the numbers stand one below the other
        mark = MARKS.get(cell["rank"], "").strip() if cell is not None else ""
        lines = [mark + show_mean(cell), *([show_limits(cell)] if show_limits(cell) != UNDEFINED else [])]
        return "\n".join(lines)

    return _table(
        digest,
        graph,
        f"{graph}: mean ± std over seeds, and {100 * digest.level:g} % interval of the mean, in per cent",
        f"* best, + second best; {_nodes(digest, graph)}ΔDP: difference between groups in the share of positive "
        "predictions; ΔEO: the same among people whose label is positive.",
        show,
    )


def _table(digest: Digest, graph: str, title: str, note: str, show: Any) -> Table:
    rows = [
        (
            label + DAGGER * digest.nearly_constant(graph, label),
            *(show(digest.cell(graph, label, metric)) for metric in digest.metrics),
        )
        for label in digest.labels
        if digest.runs(graph, label)
    ]
    if any(row[0].endswith(DAGGER) for row in rows):
        note += f" {NEARLY_CONSTANT_NOTE} Such a row is not ranked."
    return Table(title, ("", *map(metric_title, digest.metrics)), tuple(rows), note)


def _values(digest: Digest, graph: str) -> Table:
    return _table(
        digest,
        graph,
        f"{graph}: mean ± std over seeds, in per cent",
        f"* best, + second best; {_nodes(digest, graph)}The std divides by the number of seeds.",
        lambda cell: show_mean(cell, marked=True),
    )


def _nodes(digest: Digest, graph: str) -> str:
    runs = digest.runs(graph, next(label for label in digest.labels if digest.runs(graph, label)))
    counted = runs[0].evaluation.get("rows", {}).get("counted")
    return f"{counted} test nodes. " if counted else ""


def _intervals(digest: Digest, graph: str) -> Table:
    return _table(
        digest,
        graph,
        f"{graph}: {100 * digest.level:g} % interval of the mean, over seeds and test nodes",
        "Other seeds and other nodes would do that; another split may do more.",
        show_limits,
    )


def _beside_published(digest: Digest, graph: str) -> Table:
    assert digest.published is not None
    impossible = {
        f"{row['label']}, {metric_title(row['metric'])}: {row['impossible']}"
        for _, row in digest.frame[(digest.frame["graph"] == graph) & (digest.frame["impossible"] != "")].iterrows()
    }
    note = "Published mean ± std, and ours minus it with Welch's interval; ! outside the published mean ± 2 std."
    if impossible:
        note += f" ? cannot be right. {'. '.join(sorted(impossible))}."
    return _table(digest, graph, f"{graph}: beside the paper", note, show_published)


def _cost(digest: Digest, graph: str) -> Table:
    rows = []
    for label in digest.labels:
        cell = digest.cell(graph, label, digest.metrics[0])
        if cell is not None and cell["seeds"]:
            failed = f"{cell['failed']} failed" if cell["failed"] else ""
            rows.append((label, f"{cell['seconds']:.1f} s", show_memory(cell["peak_mb"]), str(cell["seeds"]), failed))
    return Table(
        f"{graph}: cost",
        ("", "training", "peak memory", "runs", ""),
        tuple(rows),
        "Mean training time of a run while others ran beside it; largest memory of its process.",
    )


def _sweep(digest: Digest, graph: str) -> Table:
    """One row per point; those of several methods with their names."""
    frame = digest.frame[digest.frame["graph"] == graph]
    points = list(frame[["label", "point"]].drop_duplicates().itertuples(index=False))
    alone = digest.shape == "line"
    rows = [
        (
            (point.partition("=")[2] if alone else row_name(label, point))
            + DAGGER * digest.nearly_constant(graph, label, point),
            *(show_mean(digest.cell(graph, label, metric, point), limits=True) for metric in digest.metrics),
        )
        for label, point in points
    ]
    heads = (coordinate_title(digest.study.coordinates[0]) if alone else "", *map(metric_title, digest.metrics))
    note = f"Mean ± std over seeds, and its {100 * digest.level:g} % interval over seeds and test nodes, in per cent."
    if any(row[0].endswith(DAGGER) for row in rows):
        note += f" {NEARLY_CONSTANT_NOTE}"
    return Table(f"{graph}: {digest.study.title}", heads, tuple(rows), note)


def _grids(digest: Digest, graph: str) -> list[Table]:
    down, across = digest.study.coordinates
    frame = digest.frame[digest.frame["graph"] == graph]
    tables = []
    for label in digest.labels:
        for metric in (digest.study.utility, digest.study.gap):
            chosen = frame[(frame["label"] == label) & (frame["metric"] == metric)]
            columns = sorted(chosen[f"at_{across}"].unique())
            rows = []
            for value in sorted(chosen[f"at_{down}"].unique()):
                line = chosen[chosen[f"at_{down}"] == value].set_index(f"at_{across}")
                rows.append(
                    (f"{value:g}", *(show_mean(dict(line.loc[c])) if c in line.index else UNDEFINED for c in columns))
                )
            heads = (f"{coordinate_title(down)} \\ {coordinate_title(across)}", *(f"{c:g}" for c in columns))
            title = f"{graph}: {metric_title(metric)} of {label}, mean ± std over seeds, in per cent"
            tables.append(Table(title, heads, tuple(rows)))
    return tables


# -- cells --------------------------------------------------------------------------------------------------


def show_mean(cell: Cell, *, marked: bool = False, limits: bool = False) -> str:
    """``70.39 ± 2.04``; with a mark for the best and the second best, or with its interval."""
    if cell is None or math.isnan(cell["mean"]):
        return UNDEFINED
    spread = f" ± {100 * cell['std']:.2f}" if cell["seeds"] > 1 else ""
    mark = MARKS.get(cell["rank"], "") if marked else ""
    interval = f" {show_limits(cell)}" if limits else ""
    return f"{100 * cell['mean']:.2f}{spread}{mark}{interval}"


def show_limits(cell: Cell) -> str:
    """``[68.1, 72.5]``."""
    if cell is None or math.isnan(cell["low"]):
        return UNDEFINED
    return f"[{100 * cell['low']:.1f}, {100 * cell['high']:.1f}]"


def show_published(cell: Cell) -> str:
    """``70.39 ± 2.04; +0.31 [−1.2, +1.9]``."""
    if cell is None:
        return UNDEFINED
    if cell["published_missing"]:
        return str(cell["published_missing"])
    if math.isnan(cell["published_mean"]):
        return UNDEFINED
    text = f"{100 * cell['published_mean']:.2f} ± {100 * cell['published_std']:.2f}"
    if cell["impossible"]:
        return f"{text} ?"
    if math.isnan(cell["difference"]):
        return text
    text += f"; {100 * cell['difference']:+.2f}"
    if not math.isnan(cell["difference_low"]):
        text += f" [{100 * cell['difference_low']:+.1f}, {100 * cell['difference_high']:+.1f}]"
    return text + ("" if cell["within_two_std"] else " !")


def show_memory(megabytes: float) -> str:
    """``1.2 GB`` or ``600 MB``."""
    if math.isnan(megabytes):
        return UNDEFINED
    return f"{megabytes / 1024:.1f} GB" if megabytes >= 1024 else f"{megabytes:.0f} MB"


# -- files --------------------------------------------------------------------------------------------------


def to_markdown(digest: Digest) -> str:
    """Conclusions, tables, failures."""
    study = digest.study
    parts = [f"# {study.title}"]
    parts += [study.note] if study.note else []
    for graph in digest.graphs:
        if told := digest.conclusions(graph):
            parts.append("\n".join([f"## What it comes to on {graph}", "", *(f"- {sentence}" for sentence in told)]))
    parts += [table.to_markdown() for table in study_tables(digest)]
    if digest.published is not None and digest.published.statements:
        said = "\n".join(f"- {statement}" for statement in digest.published.statements)
        parts.append(f"## What the paper says\n\n{said}\n\n{digest.published.note}".rstrip())
    if digest.failures:
        failed = "\n".join(f"- {result.trial}: {result.error}" for result in digest.failures)
        parts.append(f"## Failed trials\n\n{failed}")
    if digest.missing:
        parts.append(f"{digest.missing} of {len(study.trials)} trials are still missing.")
    return "\n\n".join(parts) + "\n"


def to_latex(digest: Digest) -> str:
    """One booktabs table per graph, or per metric of a grid: ready to be put into a paper."""
    tables = [
        table
        for table in study_tables(digest)
        if digest.study.coordinates or "mean ± std" in table.title or "beside the paper" in table.title
    ]
    return "\n\n".join(_latex_table(table) for table in tables) + "\n"


def _latex_table(table: Table) -> str:
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_escaped(table.title)}. {_escaped(table.note)}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
        r"    \toprule",
        f"    {' & '.join(map(_escaped, table.columns))} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(map(_latex_cell, row))} \\\\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _latex_cell(text: str) -> str:
    """The best in bold, the second best underlined, as the paper has it."""
    for mark, command in ((MARKS[1], "textbf"), (MARKS[2], "underline")):
        if text.endswith(mark):
            return rf"\{command}{{{_escaped(text.removesuffix(mark))}}}"
    return _escaped(text)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\textbackslash ").translate(_LATEX)


def trial_rows(digest: Digest) -> list[dict[str, Any]]:
    """One row per trial: what it was, how it ended, its metrics."""
    rows = []
    for result in digest.results:
        trial = result.trial
        rows.append(
            {
                "graph": trial.graph,
                "label": trial.label,
                "method": trial.method,
                "seed": trial.seed,
                **{name: trial.point.get(name, math.nan) for name in digest.study.coordinates},
                "status": result.status,
                "error": result.error,
                **result.metrics,
                **{f"validation_{name}": value for name, value in result.validation.items()},
                "seconds": result.seconds,
                "peak_mb": result.peak_mb,
                "data": trial.data,
                "key": trial.key,
            }
        )
    return rows


def write_tables(digest: Digest, folder: Path) -> list[Path]:
    """Write ``tables.md``, ``tables.tex``, ``summary.csv``, ``summary.parquet`` and ``trials.parquet``.

    Returns:
        The files.
    """
    import pandas as pd

    texts = {"tables.md": to_markdown(digest), "tables.tex": to_latex(digest)}
    frames = {"summary": digest.frame, "trials": pd.DataFrame(trial_rows(digest))}
    written: list[Path] = []
    for name, text in texts.items():
        with whole_file(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
        written.append(folder / name)
    with whole_file(folder / "summary.csv") as partial:
        frames["summary"].to_csv(partial, index=False)
    written.append(folder / "summary.csv")
    for name, frame in frames.items():
        with whole_file(folder / f"{name}.parquet") as partial:
            frame.to_parquet(partial, index=False)
        written.append(folder / f"{name}.parquet")
    return written
