"""Which command an argument list means, and what a person sees when it fails.

The window starts without the machinery of the commands, which would delay it.
"""

import os
import sys
from collections.abc import Sequence

from planner.cli import failures
from planner.cli.window import FIRST_PAINT_OPTION, WindowOpener, start
from planner.errors import PlannerError

COMMANDS = ("estimate", "check", "advise", "sweep", "fleet", "render", "report", "validate", "gpus", "nodes", "models")


def opens_window(arguments: Sequence[str]) -> bool:
    """Whether the user named no command: no argument at all, a file, or only options of the window."""
    positional = [text for text in arguments if not text.startswith("-")]
    options = set(arguments) - set(positional)
    return (not positional or positional[0] not in COMMANDS) and options <= {FIRST_PAINT_OPTION}


def run(arguments: Sequence[str], open_window: WindowOpener) -> int:
    """Carry out one command and return its exit status: 0 done, 1 does not fit, 2 cannot be done, 3 our mistake."""
    try:
        if opens_window(arguments):
            return start(arguments, open_window)
        from planner.cli.main import app

        app(args=list(arguments), prog_name="vram-planner")
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
