"""``fairsad evaluate``: what a saved model does on a graph, with intervals, findings and the probe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import check_delivery, deliver, print_findings, print_line, print_tables

if TYPE_CHECKING:
    from fairsad.evaluation.compare import Comparison
    from fairsad.evaluation.evaluate import Evaluation
    from fairsad.evaluation.probe import Probe
    from fairsad.evaluation.tables import Table
    from fairsad.evaluation.verdict import Finding
    from fairsad.graph import FairGraph
    from fairsad.methods.base import Method

SCHEMA = "fairsad.model-evaluation/1"


def evaluate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a trained model, or of several in seed-* folders.")
    ],
    graph: Annotated[
        str | None,
        typer.Argument(
            help="A benchmark, synthetic:nodes=N, a graph card (.toml), a saved graph; else that of training.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Nodes to evaluate on: train, val, test or all.")] = "test",
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            help="Folder of an unconstrained model, such as GCN, of the same graph: what was lost against it.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Confidence level of the intervals.")] = 0.95,
    intervals: Annotated[bool, typer.Option(help="Intervals around all numbers.")] = True,
    with_probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Look for the sensitive attributes in the representation.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the bootstrap and the probe.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Also write to a file: .json or .md.")] = None,
) -> None:
    """Evaluate a trained model: findings first, then metrics and gaps with intervals, groups, and the probe.

    Example: `fairsad evaluate runs/german --reference runs/german-gcn --out german.md`
    """
    check_delivery(as_json, as_markdown, out)
    from fairsad.evaluation.probe import probe

    models = _load(folder)
    references = {} if reference is None else _references(models, reference)
    data, notes = _find_graph(folder, models, graph)
    if reference is not None:
        notes += _reference_notes(data, references, reference)

    def measure(path: Path, model: Method) -> Run:
        other = references.get(path)
        unconstrained = None if other is None else other[1].evaluate(data, split, intervals=False)
        return Run(
            path,
            model,
            model.evaluate(data, split, intervals=intervals, level=level, seed=seed, reference=unconstrained),
            probe(model, data, split=split, seed=seed) if with_probe else None,
            None if other is None else other[0],
        )

    runs = [measure(path, model) for path, model in models.items()]
    title = f"{runs[0].model.card.title} on {data.name}, split {split}"
    report: Report = (
        OneRun(title, notes, runs[0])
        if len(runs) == 1
        else SeveralRuns.of(title, notes, runs, intervals=intervals, level=level, seed=seed)
    )
    content = {
        "schema": SCHEMA,
        "graph": {"name": data.name, "fingerprint": data.fingerprint, "split_hash": data.split_hash},
        "split": split,
        "notes": notes,
        "runs": [run.to_dict() for run in runs],
        "seeds": report.comparison.to_dict() if isinstance(report, SeveralRuns) else None,
    }
    deliver(content, report.to_markdown(), report.show, as_json=as_json, as_markdown=as_markdown, out=out)


# -- which models, which graph ------------------------------------------------------------------------------


def _load(folder: Path) -> dict[Path, Method]:
    """The model in a folder, or those in its ``seed-*`` folders in order."""
    from fairsad.errors import DataError
    from fairsad.methods.base import FACTS_FILE, Method

    if (folder / FACTS_FILE).is_file():
        return {folder: Method.load(folder)}
    seeds = [path for path in folder.glob("seed-*") if (path / FACTS_FILE).is_file()]
    if not seeds:
        raise DataError(
            f"{folder} holds neither a model nor seed-* folders of models; expected what 'fairsad train' wrote. "
            "Check the path."
        )
    models = {path: Method.load(path) for path in sorted(seeds, key=_seed_number)}
    methods = dict.fromkeys(model.card.name for model in models.values())
    if len(methods) > 1:
        raise DataError(
            f"the seed-* folders in {folder} hold models of {', '.join(methods)}; expected one method. "
            "Evaluate each folder by itself."
        )
    return models


def _references(models: dict[Path, Method], folder: Path) -> dict[Path, tuple[Path, Method]]:
    """For each model the unconstrained one that it is held against: that of its own seed, or the only one there is."""
    from fairsad.errors import DataError

    others = _load(folder)
    if len(others) == 1:
        (only,) = others.items()
        return dict.fromkeys(models, only)
    by_name = {path.name: (path, model) for path, model in others.items()}
    missing = [path.name for path in models if path.name not in by_name]
    if missing:
        raise DataError(
            f"--reference {folder} has no model of {', '.join(missing)}, but of {', '.join(by_name)}; expected one "
            "model, or one of every seed. Train the missing ones, or name one of its folders."
        )
    return {path: by_name[path.name] for path in models}


def _reference_notes(graph: FairGraph, references: dict[Path, tuple[Path, Method]], folder: Path) -> list[str]:
    """Who the models are held against, and what to know about it."""
    others = dict(references.values())
    titles = ", ".join(dict.fromkeys(model.card.title for model in others.values()))
    mismatches = [f"The reference: {note}" for model in others.values() for note in _mismatches(graph, model)]
    return [f"Held against {titles} in {folder}.", *dict.fromkeys(mismatches)]


def _seed_number(path: Path) -> tuple[int, str]:
    digits = re.search(r"\d+", path.name)
    return int(digits.group()) if digits else -1, path.name


def _find_graph(folder: Path, models: dict[Path, Method], given: str | None) -> tuple[FairGraph, list[str]]:
    """The graph to evaluate on, and what to know about it."""
    from fairsad import datasets
    from fairsad.errors import DataError, ProtocolError

    path, first = next(iter(models.items()))
    # A model fitted in Python knows its graph by name only; the command line also notes what it was asked for.
    name = str(first.protocol_.get("source", first.protocol_["graph"]))
    if "prepared" in first.protocol_:  # a graph that is kept beside the models
        name = str(path / name)
    if given is not None:
        graph = _load_graph(given, first)
    elif name.partition(":")[0] in ("synthetic", *datasets.names()) or Path(name).is_file():
        graph = _load_graph(name, first)
    else:
        raise DataError(
            f"the model in {folder} was trained on {name!r}, which cannot be found by this name alone; expected a "
            f"benchmark or a generator. Give the graph: fairsad evaluate {folder} GRAPH."
        )
    # Several seeds usually say the same.
    notes = list(dict.fromkeys(note for model in models.values() for note in _mismatches(graph, model)))
    if notes and given is None:
        raise ProtocolError(f"{' '.join(notes)} Name the graph to evaluate on: fairsad evaluate {folder} GRAPH.")
    return graph, notes


def _load_graph(given: str, model: Method) -> FairGraph:
    """A graph by the name given; a table is encoded as the training table was."""
    from fairsad.sources import load_graph

    encoding = model.facts_.encoding if given.endswith(".toml") else None
    return load_graph(given) if encoding is None else load_graph(given, encoding=encoding)


def _mismatches(graph: FairGraph, model: Method) -> list[str]:
    """In which ways the graph is not that of training."""
    protocol = model.protocol_
    if graph.fingerprint != protocol["fingerprint"]:
        return [
            f"Graph {graph.name!r} (fingerprint {graph.fingerprint}) is not the graph of training, "
            f"{protocol['graph']!r} (fingerprint {protocol['fingerprint']})."
        ]
    if graph.split_hash != protocol["split"]["hash"]:
        return [
            f"The split of {graph.name!r} (hash {graph.split_hash}) is not that of training (hash "
            f"{protocol['split']['hash']}; {protocol['split']['recipe'] or 'no recipe recorded'}): nodes that trained "
            "the model may be among those evaluated."
        ]
    return []


# -- what is told -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One model and what was found out about it."""

    folder: Path
    model: Method
    evaluation: Evaluation
    probe: Probe | None
    reference: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "folder": str(self.folder),
            "reference": None if self.reference is None else str(self.reference),
            "protocol": self.model.protocol_,
            "evaluation": self.evaluation.to_dict(),
            "probe": None if self.probe is None else self.probe.to_dict(),
        }


@dataclass(frozen=True)
class OneRun:
    """Everything about one model."""

    title: str
    notes: list[str]
    run: Run

    def to_markdown(self) -> str:
        """The evaluation and the probe, each as it writes itself."""
        parts = [f"# {self.title}", *self.notes, self.run.evaluation.to_markdown().rstrip()]
        parts += [self.run.probe.to_markdown().rstrip()] if self.run.probe else []
        return "\n\n".join(parts) + "\n"

    def show(self) -> None:
        """Print it."""
        from fairsad.evaluation.tables import evaluation_tables

        _print_head(self.title, self.notes)
        print_findings(self.run.evaluation.findings)
        print_tables(evaluation_tables(self.run.evaluation))
        if self.run.probe is not None:
            print_line("\nProbe", style="bold")
            for sentence in self.run.probe.sentences():
                print_line(sentence)
            print_tables(self.run.probe.tables())


@dataclass(frozen=True)
class SeveralRuns:
    """Models that differ in their seed: means and spread, and each seed beside them."""

    title: str
    notes: list[str]
    runs: Sequence[Run]
    comparison: Comparison
    tables: list[Table]

    @classmethod
    def of(
        cls, title: str, notes: list[str], runs: Sequence[Run], *, intervals: bool, level: float, seed: int
    ) -> SeveralRuns:
        """Take the runs together."""
        from fairsad.evaluation.compare import compare

        name = runs[0].model.card.title
        comparison = compare({name: [run.evaluation for run in runs]}, level=level, seed=seed, p_values=False)
        tables = [
            _seed_table(attribute, comparison, runs, intervals, seed)
            for attribute in dict.fromkeys(row.attribute for row in comparison.rows)
        ]
        return cls(f"{title}, {len(runs)} seeds", notes, runs, comparison, tables)

    def findings(self) -> list[Finding]:
        """Each kind of finding once: how many seeds have it, and what it says of the first that does."""
        from dataclasses import replace

        from fairsad.evaluation.verdict import SEVERITIES

        found: dict[tuple[str, Any], list[tuple[Run, Finding]]] = {}
        for run in self.runs:
            for finding in run.evaluation.findings:
                kind = finding.code, finding.evidence.get("attribute", finding.evidence.get("metric"))
                found.setdefault(kind, []).append((run, finding))
        told = [
            replace(
                min((finding for _, finding in each), key=lambda finding: SEVERITIES.index(finding.severity)),
                sentence=f"({len(each)} of {len(self.runs)} seeds) {each[0][0].folder.name}: {each[0][1].sentence}",
            )
            for each in found.values()
        ]
        return sorted(told, key=lambda finding: SEVERITIES.index(finding.severity))

    def sentences(self) -> list[str]:
        """What the probes say, seed by seed: the numbers of channels mean nothing across seeds."""
        return [
            f"{run.folder.name}: {sentence}" for run in self.runs if run.probe for sentence in run.probe.sentences()
        ]

    def to_markdown(self) -> str:
        """Findings, tables, and the probes' sentences."""
        parts = [f"# {self.title}", *self.notes]
        listed = [f"- **{f.code}** ({f.severity}): {f.sentence}" for f in self.findings()]
        parts += ["\n".join(listed)] if listed else []
        parts += [table.to_markdown() for table in self.tables]
        if sentences := self.sentences():
            parts += ["## Probe", "\n".join(f"- {sentence}" for sentence in sentences)]
        return "\n\n".join(parts) + "\n"

    def show(self) -> None:
        """Print it."""
        _print_head(self.title, self.notes)
        print_findings(self.findings())
        print_tables(self.tables)
        if sentences := self.sentences():
            print_line("\nProbe", style="bold")
            for sentence in sentences:
                print_line(sentence)


Report = OneRun | SeveralRuns


def _seed_table(attribute: str, comparison: Comparison, runs: Sequence[Run], intervals: bool, seed: int) -> Table:
    """Mean and spread over the seeds, an interval over seeds and nodes, and each seed."""
    from fairsad.evaluation.pairing import hierarchical_bootstrap
    from fairsad.evaluation.tables import UNDEFINED, Table, show_interval, show_metric, show_number

    first = runs[0].evaluation
    always = (first.attributes[attribute].constant if attribute else first.constant).values
    nodes = [[run.evaluation.predictions for run in runs]]
    rows, reasons = [], {}
    for row in comparison.rows:
        if row.attribute != attribute:
            continue
        (value,) = row.models.values()
        interval = (
            hierarchical_bootstrap(
                nodes, row.metric, attribute=attribute or None, level=comparison.level, seed=seed
            ).interval
            if intervals
            else None
        )
        if interval is not None and interval.reason:
            reasons[show_metric(row.metric)] = interval.reason
        rows.append(
            (
                show_metric(row.metric),
                f"{show_number(value.mean)} ± {show_number(value.std)}",
                show_interval(interval),
                show_number(always[row.metric].value) if row.metric in always else UNDEFINED,
                *map(show_number, value.values),
            )
        )
    level = f"{100 * comparison.level:g} % interval"
    columns = ("metric", "mean ± std", level, f"always '{first.constant.prediction}'", *(r.folder.name for r in runs))
    note = (
        f"{first.counts.num_rows} nodes. The std is over the seeds; the interval is of the mean, over seeds and nodes."
    )
    note += "".join(f" No interval for {name}: {reason}." for name, reason in reasons.items())
    return Table(f"Gaps by {attribute}" if attribute else "Overall", columns, tuple(rows), note)


def _print_head(title: str, notes: Sequence[str]) -> None:
    print_line(title, style="bold")
    for note in notes:
        print_line(note, style="yellow")
    print_line("")
