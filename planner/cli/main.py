"""The command line: which command an argument list means, and what a person sees when one fails."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from planner import __version__
from planner.cli import check, estimate, failures, gpus, models, render, self_test, validate, window
from planner.errors import PlannerError

WindowOpener = Callable[[Path | None, bool], int]

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
app.command("render")(render.command)
app.command("validate")(validate.command)
app.command("gpus")(gpus.command)
app.command("models")(models.command)
app.command("window", hidden=True)(window.command)


@app.callback()
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    self_test_wanted: Annotated[
        bool, typer.Option("--self-test", help="Load every resource, compute and draw a reference plan, and leave.")
    ] = False,
    exit_after_first_paint: Annotated[  # noqa: ARG001 - declared for the help; routed to the window
        bool, typer.Option("--exit-after-first-paint", help="Open the window and leave once it is painted.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"vram-planner {__version__}")
        raise typer.Exit
    if self_test_wanted:
        self_test.run()
        raise typer.Exit


def route(arguments: Sequence[str]) -> list[str]:
    """The arguments with the window's command put in where the user named none: no argument at all, or a file."""
    positional = next((text for text in arguments if not text.startswith("-")), None)
    commands = {command.name for command in app.registered_commands}
    if positional in commands:
        return list(arguments)
    if positional is None and set(arguments) - {"--exit-after-first-paint"}:
        return list(arguments)
    return ["window", *arguments]


def run(arguments: Sequence[str], open_window: WindowOpener) -> int:
    """Carry out one command and return its exit status: 0 done, 1 does not fit, 2 cannot be done, 3 our mistake."""
    try:
        app(args=route(arguments), prog_name="vram-planner", obj=open_window)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
    except PlannerError as error:
        failures.tell(error)
        return 2
    except Exception as error:
        failures.tell_unexpected(error)
        return 3
    finally:
        _flush()
    return 0


def _flush() -> None:
    """Write out what is pending; a reader that has gone away is no reason for a traceback."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - kept until the interpreter leaves
