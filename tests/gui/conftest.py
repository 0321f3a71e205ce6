"""A window with the starting plan, driven as a person does: by names, keys and clicks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from PySide6.QtCore import QEvent, QSettings, Qt, QTimer
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QWidget
from pytestqt.qtbot import QtBot

from planner.chart.spec import Bar
from planner.gui.application import build_window
from planner.gui.main_window import MainWindow
from planner.gui.session import FieldPath
from planner.gui.settings import Settings
from planner.gui.widgets.disclosure import Disclosure

W = TypeVar("W", bound=QWidget)


class Driver:
    """What a person can do to a window, and see in it."""

    def __init__(self, window: MainWindow, qtbot: QtBot) -> None:
        self.window = window
        self.qtbot = qtbot

    def find(self, kind: type[W], name: str, within: QWidget | None = None) -> W:
        """The one widget of a kind with this accessible name, visible or not."""
        found = [item for item in (within or self.window).findChildren(kind) if item.accessibleName() == name]
        assert len(found) == 1, f"{len(found)} widgets are called {name!r}"
        return found[0]

    def type(self, widget: QWidget, text: str) -> None:
        """Replace what a field holds."""
        widget.setFocus()
        self.qtbot.keyClick(widget, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        self.qtbot.keyClicks(widget, text)

    def press(self, widget: QWidget, *keys: Qt.Key) -> None:
        widget.setFocus()
        for key in keys:
            self.qtbot.keyClick(widget, key)

    def click(self, widget: QWidget) -> None:
        self.qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)

    def open_group(self, name: str) -> QWidget:
        """Open the part of a form behind a heading."""
        groups = [item for item in self.window.findChildren(Disclosure) if item.button.accessibleName() == name]
        assert len(groups) == 1, f"{len(groups)} groups are called {name!r}"
        return groups[0].open()

    def message(self, path: FieldPath) -> QLabel:
        """The label below a field that says what is wrong."""
        form = self.window.phases_panel.form(path[1])
        return next(row.message for grid in form.grids for row in grid.rows if row.path == path)

    def bar(self, phase: str) -> Bar:
        return next(bar for bar in self.window.chart.spec.bars if bar.phase == phase)

    def do(self, name: str) -> None:
        """A command of the menus."""
        self.window.actions_.by_name[name].trigger()

    @property
    def scenario(self) -> Any:
        return self.window.session.state.scenario


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, settings: Settings) -> Iterator[MainWindow]:
    settings.theme = "light"
    window = build_window(qapp, settings)
    window.resize(1440, 900)
    window.show()
    qtbot.waitExposed(window)
    window.chart.load_plot()
    yield window
    window.session.undo_stack.setClean()
    window.close()
    for item in (window, window.theme):
        item.deleteLater()
        qapp.sendPostedEvents(item, QEvent.Type.DeferredDelete)


@pytest.fixture
def drive(window: MainWindow, qtbot: QtBot) -> Driver:
    return Driver(window, qtbot)


@pytest.fixture
def answer(qapp: QApplication) -> Callable[[Callable[[QDialog], None]], None]:
    """Does something to the dialog that the next call opens and waits for."""

    def later(act: Callable[[QDialog], None], attempts: int = 200) -> None:
        def look() -> None:
            dialog = qapp.activeModalWidget()
            if isinstance(dialog, QDialog):
                act(dialog)
            elif attempts:
                later(act, attempts - 1)

        QTimer.singleShot(10, look)

    return later
