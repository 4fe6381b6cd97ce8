"""``fairsad compare``: methods side by side on any graphs, one's own included."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairsad.cli.studies import AsJson, Jobs, Quiet, RayAddress, RetryFailed, run_study, split_names

# What a reader should know of the methods that stand beside the others as yardsticks.
YARDSTICKS = {
    "constant": "Constant always gives the most frequent label.",
    "threshold": "GCN + thresholds moves the decision threshold of a GCN group by group, and needs to know everybody's "
    "group to predict.",
}


def compare(
    graphs: Annotated[
        list[str],
        typer.Argument(help="Benchmarks, synthetic:nodes=N, graph cards (.toml), saved graphs.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.", show_default=False)],
    methods: Annotated[
        str,
        typer.Option(
            "--methods", help="Methods of 'fairsad methods', or files of 'fairsad tune' (.toml), with commas between."
        ),
    ] = "gcn,fairsad,constant,threshold",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each method, with seeds 0 to N-1.")] = 5,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            min=1,
            help="Epochs of every method, instead of its own; what a file sets stands.",
            show_default=False,
        ),
    ] = None,
    jobs: Jobs = 1,
    ray: RayAddress = None,
    retry_failed: RetryFailed = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods with several seeds, side by side: intervals, paired differences, findings, a page.

    Differences are taken from the GCN, or from the first method where there is none. What is finished is never
    computed again: after a kill, or with more seeds or methods, the same command goes on.

    Example: `fairsad compare german my-card.toml --methods gcn,fairsad,threshold --jobs 2 --out results/mine`
    """
    from fairsad.experiments.plan import distinct_labels, plan

    rows = [_row(name) for name in split_names(methods)]
    distinct_labels(rows)
    note = " ".join(told for method, told in YARDSTICKS.items() if method in {row.method for row in rows})
    overrides: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    title = f"Comparison on {', '.join(graphs)}"
    study = plan("compare", title, rows, graphs, seeds=seeds, note=note, overrides=overrides)
    run_study(study, out, jobs=jobs, ray=ray, retry_failed=retry_failed, quiet=quiet, as_json=as_json)


def _row(name: str) -> Any:
    """A method by name, or one with the settings of a file."""
    from fairsad.experiments.plan import Row
    from fairsad.methods.registry import method_class

    if not name.endswith(".toml"):
        card = method_class(name).card
        reading = name.removeprefix(card.name).strip("-")  # the readings of a method are named after it
        return Row(f"{card.title} ({reading})" if reading else card.title, name)
    from fairsad.experiments.settings_file import read_settings

    method, settings = read_settings(Path(name))
    return Row(f"{method_class(method).card.title} ({Path(name).stem})", method, settings)
