"""``fairsad tune``: search for settings on the validation nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairsad.cli.output import print_json, print_line, print_tables

if TYPE_CHECKING:
    from fairsad.experiments.tune import Candidate

CHOSEN_FILE, CANDIDATES_FILE = "chosen.toml", "candidates.csv"


def tune(
    graph: Annotated[str, typer.Argument(help="A benchmark, synthetic:nodes=N, a graph card (.toml), a saved graph.")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the search; a second call goes on.", show_default=False)
    ],
    method: Annotated[str, typer.Option("--method", help="A method of 'fairsad methods'.")] = "fairsad",
    trials: Annotated[int, typer.Option("--trials", min=1, help="Settings to try, in all.")] = 50,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each, averaged.")] = 1,
    utility: Annotated[str, typer.Option("--utility", help="Metric to raise.")] = "auc",
    gap: Annotated[str, typer.Option("--gap", help="Metric to lower.")] = "demographic_parity_gap",
    max_gap: Annotated[
        float | None,
        typer.Option("--max-gap", min=0, help="Choose the most utility within this gap.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting that is not searched for, such as epochs=300.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at the same time.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Search for settings with much utility and a small gap, by what they score on the validation nodes.

    Prints and draws the front, and writes the chosen settings as a file for 'fairsad train --config' and
    'fairsad compare --methods'. Chosen is the most utility minus gap, or with --max-gap the most utility within it;
    never a predictor that is nearly constant.

    Example: `fairsad tune credit --trials 40 --set epochs=300 --jobs 2 --out runs/tune`
    """
    from fairsad.experiments.backends import Processes
    from fairsad.experiments.settings_file import write_settings
    from fairsad.experiments.tune import choose
    from fairsad.experiments.tune import tune as search
    from fairsad.methods.parameters import parse_settings
    from fairsad.methods.registry import method_class
    from fairsad.report.figures import write_front

    fixed = parse_settings(method_class(method), settings or [])
    candidates = search(
        graph,
        method,
        out,
        trials=trials,
        seeds=seeds,
        utility=utility,
        gap=gap,
        fixed=fixed,
        backend=Processes(jobs),
        listener=None if quiet else lambda event: _print_progress(event, trials),
    )
    _write_candidates(candidates, out / CANDIDATES_FILE)  # also when none is good enough to be chosen
    chosen = choose(candidates, max_gap)
    nodes = f"validation {utility} {chosen.utility:.4f}, {gap} {chosen.gap:.4f}"
    write_settings(
        out / CHOSEN_FILE,
        method,
        fixed | chosen.settings,
        f"Chosen by 'fairsad tune {graph}' among {len(candidates)} settings, {seeds} seed(s) each: {nodes}.",
    )
    write_front(candidates, chosen, utility, gap, out)
    if as_json:
        print_json({"chosen": vars(chosen), "candidates": [vars(each) for each in candidates]})
        return
    _show(candidates, chosen, utility, gap)
    print_line(
        f"\nwritten to {out / CHOSEN_FILE}; train with: fairsad train {graph} --config {out / CHOSEN_FILE} --out DIR"
    )


def _print_progress(event: Candidate | str, trials: int) -> None:
    if isinstance(event, str):
        print(f"failed: {event}", file=sys.stderr, flush=True)
        return
    told = ", ".join(f"{name}={_short(value)}" for name, value in event.settings.items())
    flag = " (nearly constant)" if event.nearly_constant else ""
    line = f"[{event.number + 1}/{trials}] utility {event.utility:.4f}, gap {event.gap:.4f}{flag}: {told}"
    print(line, file=sys.stderr, flush=True)


def _show(candidates: list[Candidate], chosen: Candidate, utility: str, gap: str) -> None:
    from fairsad.evaluation.tables import Table

    front = sorted((each for each in candidates if each.on_front), key=lambda each: -each.utility)
    shown = front if any(each.number == chosen.number for each in front) else [*front, chosen]
    names = list(chosen.settings)
    rows = [
        (
            f"{each.number}{' chosen' if each.number == chosen.number else ''}",
            f"{100 * each.utility:.2f}",
            f"{100 * each.gap:.2f}",
            f"{100 * each.majority:.0f} %",
            *(_short(each.settings[name]) for name in names),
        )
        for each in shown
    ]
    note = "On the validation nodes, in per cent; 'same answer' is the largest share of people with one prediction."
    print_tables([Table("The front", ("candidate", utility, gap, "same answer", *names), tuple(rows), note)])


def _write_candidates(candidates: list[Candidate], path: Path) -> None:
    import pandas as pd

    from fairsad.files import whole_file

    rows: list[dict[str, Any]] = [
        {
            "candidate": each.number,
            "utility": each.utility,
            "gap": each.gap,
            "majority": each.majority,
            "on_front": each.on_front,
            **each.settings,
        }
        for each in candidates
    ]
    with whole_file(path) as partial:
        pd.DataFrame(rows).to_csv(partial, index=False)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
