"""The switch of one phase: a dot with its verdict, a box that plans it or leaves it out, and its name to select it."""

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QPushButton, QWidget

from planner.gui.widgets.properties import set_property


class Dot(QWidget):
    """A small round sign; its colour is a second cue beside the words in the chart and the table."""

    def __init__(self) -> None:
        super().__init__()
        self._colour = QColor("#c4cad3")
        self.setFixedSize(QSize(8, 16))

    def set_colour(self, colour: str) -> None:
        if self._colour.name() != colour:
            self._colour = QColor(colour)
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._colour)
        painter.drawEllipse(QRectF(0, self.height() / 2 - 4, 8, 8))


class PhaseChip(QWidget):
    """`selected` when the user wants to see the phase's form, `switched` when it is planned or left out."""

    selected = Signal()
    switched = Signal(bool)

    def __init__(self, short_title: str, title: str) -> None:
        super().__init__()
        self.setProperty("chip", True)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.dot = Dot()
        self._title = title
        self.check = QCheckBox()
        self.check.setFixedWidth(17)
        self.check.setAccessibleName(f"Plan {title.lower()}")
        self.check.setToolTip(f"Plan {title.lower()}, or leave it out")
        self.check.clicked.connect(self.switched)
        self.name = QPushButton(short_title)
        self.name.setProperty("phase", True)
        self.name.setCheckable(True)
        self.name.setAccessibleName(f"Show {title.lower()}")
        self.name.setToolTip(f"Show the settings of {title.lower()}")
        self.name.clicked.connect(self._on_name)
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 1, 2, 1)
        row.setSpacing(3)
        row.addWidget(self.dot)
        row.addWidget(self.check)
        row.addWidget(self.name)

    def show_state(self, on: bool, selected: bool, colour: str, verdict: str) -> None:
        self.check.setChecked(on)
        self.name.setChecked(selected)
        set_property(self, "selected", selected)
        self.dot.set_colour(colour)
        self.dot.setToolTip(verdict)
        self.name.setAccessibleDescription(verdict)

    def _on_name(self) -> None:
        self.name.setChecked(True)
        self.selected.emit()
