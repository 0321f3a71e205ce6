"""A Qt application for painting without a window: from the command line, in tests, on a server."""

import sys

from PySide6.QtGui import QGuiApplication


def painting_application() -> QGuiApplication:
    """The running application, or one made on demand, which on Linux asks for no display."""
    running = QGuiApplication.instance()
    if isinstance(running, QGuiApplication):
        return running
    headless = [] if sys.platform in ("win32", "darwin") else ["-platform", "offscreen"]
    made = QGuiApplication(["vram-planner", *headless])
    _kept.append(made)
    return made


_kept: list[QGuiApplication] = []  # Python must not collect it while Qt paints
