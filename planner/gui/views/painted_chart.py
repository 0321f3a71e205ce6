"""The chart as the painter of exports draws it, on screen: what is seen before the plot is there."""

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from planner.chart.paint import paint
from planner.chart.spec import ChartSpec
from planner.gui.theme import Theme
from planner.gui.views.screen_style import TABLE_HEADER_HEIGHT, TABLE_ROW_HEIGHT, screen_style

CHART_NAME = "Lifecycle chart"


class PaintedChart(QWidget):
    """A chart as a picture; `painted` after each painting."""

    painted = Signal()

    def __init__(self, theme: Theme, spec: ChartSpec | None = None, name: str = CHART_NAME) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(name)
        self._theme = theme
        self.spec = spec

    def paintEvent(self, _event: QPaintEvent) -> None:
        if self.spec is not None:
            painter = QPainter(self)
            paint(painter, QRectF(self.rect()), self.spec, screen_style(self._theme.tokens))
            painter.end()
            self.painted.emit()


class PictureCard(QFrame):
    """A card with nothing but a chart, as high as the view that will take its place."""

    def __init__(self, spec: ChartSpec, theme: Theme) -> None:
        super().__init__()
        self.setProperty("card", True)
        chart = PaintedChart(theme, spec)
        self.painted = chart.painted
        self.room_below = TABLE_HEADER_HEIGHT + TABLE_ROW_HEIGHT * len(spec.bars) + 2
        """The height of the table that belongs to the chart."""
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.addWidget(chart)
