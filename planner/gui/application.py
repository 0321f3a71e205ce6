"""The Qt application and its window, put together."""

import sys

from PySide6.QtGui import QFont, QGuiApplication, QIcon
from PySide6.QtWidgets import QApplication

from planner import __version__
from planner.chart.paint.fonts import load_fonts
from planner.gui.errors import Catcher, start_log
from planner.gui.main_window import APPLICATION, MainWindow
from planner.gui.settings import Settings
from planner.gui.theme import Theme
from planner.resources import resource

FONT_PIXELS = 13


def make_application(*, attended: bool = True) -> QApplication:
    """The application with its name, icon and typeface, and the net under it; `attended`: a person is there."""
    Catcher(attended=attended).install()
    start_log()
    QGuiApplication.setDesktopFileName("vram-planner")
    app = QApplication(sys.argv[:1])
    app.setApplicationName(APPLICATION)
    app.setApplicationDisplayName(APPLICATION)
    app.setApplicationVersion(__version__)
    return app


def build_frame(app: QApplication, settings: Settings | None = None) -> MainWindow:
    """The window without its content."""
    app.setWindowIcon(QIcon(str(resource("icons", "app.svg"))))
    font = QFont(load_fonts())
    font.setPixelSize(FONT_PIXELS)
    app.setFont(font)
    settings = settings or Settings()
    return MainWindow(settings, Theme(app, settings.theme))


def fill_window(window: MainWindow) -> None:
    """Put the starting plan into the window; imported here because the engine takes long to load."""
    from planner.catalog import load_catalog
    from planner.gui.session import Session
    from planner.scenario.starting import starting_scenario

    session = Session(starting_scenario(), load_catalog(), window.undo_stack)
    session.look_at(unit=window.settings.unit)
    window.fill(session)


def build_window(app: QApplication, settings: Settings | None = None) -> MainWindow:
    """The whole window with the starting plan."""
    window = build_frame(app, settings)
    fill_window(window)
    return window
