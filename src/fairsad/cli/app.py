"""The list of commands."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from fairsad.cli import (
    audit,
    compare,
    datasets,
    describe,
    doctor,
    evaluate,
    methods,
    predict,
    report,
    reproduce,
    train,
    tune,
)

app = typer.Typer(
    name="fairsad",
    help="Fair node classification on graphs: train, evaluate and compare methods that mitigate group gaps.",
    epilog="Start with: fairsad describe german",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(datasets.app, name="datasets")
app.command("describe")(describe.describe)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("audit")(audit.audit)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("tune")(tune.tune)
app.command("report")(report.report)
app.command("methods")(methods.methods)
app.command("doctor")(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairsad {version('fairsad')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    """Fair node classification on graphs: train, evaluate and compare methods that mitigate group gaps."""
