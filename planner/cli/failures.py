"""What a person sees when a command fails: one message, never a traceback."""

import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

from planner import __version__
from planner.errors import PlannerError


def tell(error: PlannerError) -> None:
    """Print the message of a failure that the user can mend."""
    _print(f"vram-planner: {error.message}")


def tell_unexpected(error: Exception) -> None:
    """Write the traceback of our own mistake to the log file, and say in a sentence where it is."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    try:
        where = f"The details are in {_append_to_log(error)}; please send that file with a report."
    except OSError as failure:
        where = f"The details could not be written to a log file ({failure.strerror})."
    _print(f"vram-planner: something went wrong that should not ({what}). {where}")


def log_file() -> Path:
    """Where unexpected errors are written."""
    from platformdirs import user_log_path

    return user_log_path("vram-planner", appauthor=False) / "errors.log"


def _append_to_log(error: Exception) -> Path:
    path = log_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        log.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} vram-planner {__version__}\n")
        log.writelines(traceback.format_exception(error))
        log.write("\n")
    return path


def _print(text: str) -> None:
    if sys.stderr is not None:  # a Windows program without a console has none
        print(text, file=sys.stderr)
