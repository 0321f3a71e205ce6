"""Starts the window, with the file the program was called with."""

from pathlib import Path
from typing import TYPE_CHECKING

from planner.chart.spec import ChartSpec
from planner.gui.errors import FAILED, give_up
from planner.gui.first_picture import recall, remember

if TYPE_CHECKING:
    from planner.gui.main_window import MainWindow


def run(path: Path | None, exit_after_first_paint: bool = False) -> int:
    """Show the window and return the exit code of the program. There must be a display: Qt aborts without one.

    With `exit_after_first_paint`, nobody may be there to read a message: what goes wrong is logged, and the code is 3.
    """
    try:
        return _run(path, exit_after_first_paint)
    except Exception as error:
        if not exit_after_first_paint:
            raise
        give_up(error)
        return FAILED


def _run(path: Path | None, exit_after_first_paint: bool) -> int:
    """Where the chart of the starting plan is remembered, it is on screen before the engine is loaded."""
    picture = recall() if path is None else None
    if picture is None:
        _load_engine()
    from PySide6.QtCore import Qt, QTimer
    from PySide6.QtWidgets import QApplication

    from planner.gui.application import build_frame, fill_window, make_application

    running = QApplication.instance()
    app = running if isinstance(running, QApplication) else make_application(attended=not exit_after_first_paint)
    window = build_frame(app)
    if exit_after_first_paint:
        window.first_painted.connect(app.quit, Qt.ConnectionType.QueuedConnection)
    if picture is not None and picture.axis.unit == window.settings.unit:
        window.show_picture(picture)
        once = Qt.ConnectionType.SingleShotConnection
        window.first_painted.connect(
            lambda: QTimer.singleShot(_AFTER_PAINT_MS, window, lambda: fill_window(window)), once
        )
    else:
        fill_window(window)
        _keep(window.chart.spec, picture)
    if path is not None and exit_after_first_paint:
        window.documents.read(path)
    window.show()
    if not exit_after_first_paint:
        window.first_painted.connect(
            lambda: QTimer.singleShot(_AFTER_START_MS, window, lambda: _open(window, path)),
            Qt.ConnectionType.SingleShotConnection,
        )
    return app.exec()


def _open(window: "MainWindow", path: Path | None) -> None:
    """Open the file that was named; then ask about plans that were lost."""
    if path is not None:
        window.documents.take(path)
    window.documents.offer_lost_plans()


_AFTER_START_MS = 50
"""Time for the window to be filled after its first picture."""


_AFTER_PAINT_MS = 10
"""Time for the picture to reach the screen before the engine stops everything for a moment."""


def _load_engine() -> None:
    """Import what needs no Qt, before Qt.

    Once PySide6 is loaded, it reads the source of every module that is imported later (in search of
    `from __feature__ import`), which makes the start a third slower.
    """
    import planner.chart.build
    import planner.chart.captions
    import planner.engine.estimate
    import planner.scenario.starting  # noqa: F401


def _keep(spec: ChartSpec | None, picture: ChartSpec | None) -> None:
    if spec is not None and spec != picture:
        remember(spec)
