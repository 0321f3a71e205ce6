"""Starts the window, with the file the program was called with."""

from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication

from planner.gui.application import build_window, make_application


def run(path: Path | None, exit_after_first_paint: bool = False) -> int:
    """Show the window and return the exit code of the program. There must be a display: Qt aborts without one."""
    running = QApplication.instance()
    app = running if isinstance(running, QApplication) else make_application()
    window = build_window(app)
    if exit_after_first_paint:
        window.chart.first_painted.connect(app.quit, Qt.ConnectionType.QueuedConnection)
    window.show()
    if path is not None:
        QTimer.singleShot(0, window, lambda: window.documents.take(path))
    return app.exec()
