"""A heading that opens what is below it; the content is built when it is first opened."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from planner.gui.icons import icon
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.properties import set_property


class Disclosure(QWidget):
    def __init__(self, title: str, build: Callable[[], QWidget], accessible_name: str) -> None:
        super().__init__()
        self._build = build
        self._content: QWidget | None = None
        self._reveals = True
        self.button = QPushButton(title)
        self.button.setProperty("flat", True)
        self.button.setProperty("disclosure", True)
        self.button.setCheckable(True)
        self.button.setAutoDefault(False)
        self.button.setAccessibleName(accessible_name)
        self.button.setIconSize(QSize(12, 12))
        self.button.setIcon(icon("chevron-right"))
        self.button.toggled.connect(self._toggle)
        self._summary = ElidedLabel()
        self._summary.setProperty("role", "hint")
        self._summary.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        heading = QHBoxLayout()
        heading.setContentsMargins(0, 0, 2, 0)
        heading.addWidget(self.button)
        heading.addWidget(self._summary, 1)
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(heading)

    def open(self, *, reveal: bool = True) -> QWidget:
        """Show the content, scroll to it if it is to `reveal`, and return it."""
        self._reveals = reveal
        self.button.setChecked(True)
        self._reveals = True
        assert self._content is not None
        return self._content

    def set_title(self, title: str, summary: str, *, wrong: bool = False) -> None:
        """The heading, and what sums up the inside; in red while something inside is wrong."""
        if (self.button.text(), self._summary.text()) != (title, summary):
            self.button.setText(title)
            self._summary.setText(summary)
            self.button.setAccessibleDescription(summary)
        set_property(self._summary, "role", "error" if wrong else "hint")

    def _toggle(self, opened: bool) -> None:
        if self._content is None:
            self._content = self._build()
            self._column.addWidget(self._content)
        self._content.setVisible(opened)
        self.button.setIcon(icon("chevron-down" if opened else "chevron-right"))
        if opened and self._reveals:
            QTimer.singleShot(0, self, self._reveal)

    def _reveal(self) -> None:
        """Scroll to what was opened, once it has its place."""
        area = self.parentWidget()
        while area is not None and not isinstance(area, QScrollArea):
            area = area.parentWidget()
        if area is not None and self._content is not None:
            area.ensureWidgetVisible(self._content, 0, 4)
