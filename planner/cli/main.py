"""The commands, declared for typer."""

from typing import Annotated

import typer

from planner import __version__
from planner.cli import advise, check, estimate, fleet, gpus, models, nodes, render, report, self_test, sweep, validate
from planner.cli.window import FIRST_PAINT_OPTION

app = typer.Typer(
    name="vram-planner",
    help="Does this model, with this workload, fit these GPUs in every phase of its life, and if not, by how much?"
    "\n\nWithout a command, the window opens; `vram-planner FILE` opens it with a plan or a model's config.json.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("estimate")(estimate.command)
app.command("check")(check.command)
app.command("advise")(advise.command)
app.command("sweep")(sweep.command)
app.command("fleet")(fleet.command)
app.command("render")(render.command)
app.command("report")(report.command)
app.command("validate")(validate.command)
app.command("gpus")(gpus.command)
app.command("nodes")(nodes.command)
app.command("models")(models.command)


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    self_test_wanted: Annotated[
        bool, typer.Option("--self-test", help="Load every resource, compute and draw a reference plan, and leave.")
    ] = False,
    exit_after_first_paint: Annotated[  # noqa: ARG001 - the window's own; declared here for the help
        bool, typer.Option(FIRST_PAINT_OPTION, help="Open the window and leave once it is painted.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"vram-planner {__version__}")
        raise typer.Exit
    if self_test_wanted:
        self_test.run()
        raise typer.Exit
