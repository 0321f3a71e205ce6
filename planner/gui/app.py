"""Starts the window: display, fonts, theme, settings, and the file it was called with."""

import os
import sys
from pathlib import Path

NO_DISPLAY = (
    "The window needs a display, and there is none here. The commands work without: see vram-planner --help."
)
EXIT_NO_DISPLAY = 3


def has_display() -> bool:
    """Whether a window can be shown. Qt would abort the program without one on Linux."""
    if sys.platform in ("win32", "darwin") or os.environ.get("QT_QPA_PLATFORM"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run(path: Path | None, exit_after_first_paint: bool = False) -> int:
    """Show the window and return the exit code of the program."""
    if not has_display():
        print(NO_DISPLAY, file=sys.stderr)
        return EXIT_NO_DISPLAY
    from PySide6.QtCore import Qt, QTimer
    from PySide6.QtWidgets import QApplication

    from planner.gui.application import build_window, make_application

    app = QApplication.instance() or make_application()
    assert isinstance(app, QApplication)
    window = build_window(app)
    if exit_after_first_paint:
        window.chart.first_painted.connect(lambda: QTimer.singleShot(0, app.quit), Qt.ConnectionType.QueuedConnection)
    window.show()
    if path is not None:
        QTimer.singleShot(0, window, lambda: window.documents.take(path))
    return app.exec()
