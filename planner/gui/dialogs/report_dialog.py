"""The dialog for unforeseen errors: what happened, that the plan is kept, and a report to copy."""

from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QLabel,
    QMessageBox,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
)

from planner.gui.words import strong


class ReportDialog(QDialog):
    def __init__(self, report: str) -> None:
        super().__init__(QApplication.activeWindow())
        self.setWindowTitle("Something went wrong")
        self.resize(620, 380)
        heading = strong("VRAM Planner met an error that nobody foresaw.")
        what = QLabel(
            f"{heading}<br>Your plan is kept, and you can go on. Save it under a new name if you are in doubt. "
            "The report below helps to mend the error; it holds nothing of your plan."
        )
        what.setWordWrap(True)
        text = QPlainTextEdit(report)
        text.setAccessibleName("Report")
        text.setReadOnly(True)
        text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = QPushButton("&Copy report")
        copy.clicked.connect(lambda: QApplication.clipboard().setText(report))
        buttons.addButton(copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(12)
        for widget in (what, text, buttons):
            column.addWidget(widget)


def message(text: str) -> None:
    """One sentence about something a person can mend."""
    QMessageBox.warning(QApplication.activeWindow(), "VRAM Planner", text)
