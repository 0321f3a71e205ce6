"""What happens when something unforeseen goes wrong: a report that can be copied, a log, and the plan kept."""

import logging
import platform
import sys
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from planner import __version__
from planner.errors import PlannerError

log = logging.getLogger("planner")
_LOG_BYTES = 500_000
FAILED = 3
"""Exit code where nobody is there to read what went wrong."""


def start_log() -> Path | None:
    """Write the log in the user's log folder; None where that cannot be written."""
    from platformdirs import user_log_path

    try:
        folder = user_log_path("vram-planner", appauthor=False, ensure_exists=True)
        handler = RotatingFileHandler(folder / "vram-planner.log", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    except OSError:
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return folder / "vram-planner.log"


class Catcher:
    """The `sys.excepthook` of the window: errors for people become a message, all others a report."""

    def __init__(self, *, attended: bool = True) -> None:
        self._attended = attended
        self._telling = False

    def install(self) -> None:
        sys.excepthook = self.catch

    def catch(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.exit(130)
        if not self._attended:
            give_up(error)
            _leave()
            return
        _log(error)
        if self._telling:
            return
        self._telling = True
        try:
            self._tell(error, "".join(traceback.format_exception(kind, error, trace)))
        finally:
            self._telling = False

    def _tell(self, error: BaseException, trace: str) -> None:
        from planner.gui.dialogs.report_dialog import ReportDialog, message

        if isinstance(error, PlannerError):
            message(error.message)
        else:
            ReportDialog(report(trace)).exec()


def give_up(error: BaseException) -> None:
    """Log what went wrong, and say it where a script can read it."""
    _log(error)
    what = error.message if isinstance(error, PlannerError) else f"an unforeseen error, {type(error).__name__}: {error}"
    print(f"vram-planner: {what}", file=sys.stderr)


def _log(error: BaseException) -> None:
    if isinstance(error, PlannerError):
        log.warning("%s", error.message)
    else:
        log.error("Unforeseen error", exc_info=error)


def _leave() -> None:
    """End the event loop, now or when it starts."""
    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication

    QTimer.singleShot(0, lambda: QApplication.exit(FAILED))


def report(trace: str) -> str:
    """What a developer needs to know, without anything of the user's plan."""
    from PySide6 import __version__ as pyside_version

    return (
        f"VRAM Planner {__version__}, Python {platform.python_version()}, PySide6 {pyside_version}, "
        f"{platform.platform()}\n\n{trace}"
    )
