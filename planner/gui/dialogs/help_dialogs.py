"""Help: the keyboard shortcuts, and what this program is."""

import platform
from collections.abc import Mapping

import PySide6
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QIcon, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from planner import __version__
from planner.gui.widgets.properties import text_label
from planner.gui.words import strong
from planner.resources import resource

_IN_CHART = (
    ("Left, Right", "Phase before, phase after"),
    ("Up, Down", "Segment above, segment below"),
    ("Escape", "The whole phase"),
)


class ShortcutsDialog(QDialog):
    def __init__(self, actions: Mapping[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        grid = QGridLayout()
        grid.setHorizontalSpacing(28)
        grid.setVerticalSpacing(5)
        native = QKeySequence.SequenceFormat.NativeText
        rows = [
            (action.shortcut().toString(native), action.iconText() if name in ("undo", "redo") else action.text())
            for name, action in actions.items()
            if not action.shortcut().isEmpty()
        ]
        self._add(grid, "Everywhere", [(keys, text.replace("&", "").rstrip("…")) for keys, text in rows])
        self._add(grid, "In the chart", list(_IN_CHART))
        self._add(grid, "In a field", [("Ctrl+Backspace", "Back to its default")])
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 18, 20, 14)
        column.setSpacing(14)
        column.addLayout(grid)
        column.addWidget(_close(self))

    @staticmethod
    def _add(grid: QGridLayout, title: str, rows: list[tuple[str, str]]) -> None:
        heading = text_label(title.upper(), "heading")
        heading.setContentsMargins(0, 8, 0, 0)
        grid.addWidget(heading, grid.rowCount(), 0, 1, 2)
        for keys, text in rows:
            row = grid.rowCount()
            grid.addWidget(QLabel(text), row, 0)
            grid.addWidget(text_label(keys, "label"), row, 1)


class AboutDialog(QDialog):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About VRAM Planner")
        self.setMinimumWidth(420)
        picture = QLabel()
        picture.setPixmap(QIcon(str(resource("icons", "app.svg"))).pixmap(56, 56))
        name = strong(f"VRAM Planner {__version__}")
        text = QLabel(
            f"{name}<br>How much GPU memory each phase of a model's life needs, "
            "and on which GPUs it fits.<br><br>"
            f"Python {platform.python_version()}, Qt for Python {PySide6.__version__}<br>"
            "MIT licence. The typeface is Inter (SIL Open Font License)."
        )
        text.setWordWrap(True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row = QHBoxLayout()
        row.setSpacing(16)
        row.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(text, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 20, 20, 14)
        column.setSpacing(16)
        column.addLayout(row)
        buttons = _close(self)
        self.licences = QPushButton("&Licences…")
        self.licences.clicked.connect(self._show_licences)
        buttons.addButton(self.licences, QDialogButtonBox.ButtonRole.ActionRole)
        column.addWidget(buttons)

    def _show_licences(self) -> None:
        from planner.gui.dialogs.licences_dialog import LicencesDialog

        LicencesDialog(self).exec()


def _close(dialog: QDialog) -> QDialogButtonBox:
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    buttons.rejected.connect(dialog.reject)
    return buttons
