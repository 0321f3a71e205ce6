"""Licences: what the program is built on, each with its text."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QListWidget, QPlainTextEdit, QSplitter, QVBoxLayout, QWidget

from planner.gui.licences import licences


class LicencesDialog(QDialog):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Licences")
        self.resize(QSize(820, 520))
        self._licences = licences()
        self.list = QListWidget()
        self.list.setAccessibleName("Parts of the program")
        for part in self._licences:
            self.list.addItem(f"{part.name} {part.version}".strip())
            self.list.item(self.list.count() - 1).setToolTip(part.short)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Text of the licence")
        self.list.currentRowChanged.connect(self._show)
        halves = QSplitter()
        halves.addWidget(self.list)
        halves.addWidget(self.text)
        halves.setSizes([240, 580])
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 12)
        column.addWidget(halves, 1)
        column.addWidget(buttons)
        self.list.setCurrentRow(0)

    def _show(self, row: int) -> None:
        part = self._licences[row]
        self.text.setPlainText(f"{part.name} {part.version}\n{part.short}\n\n{part.text}")
