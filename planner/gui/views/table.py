"""The table below a chart. Its cells select what the chart and the *Why?* panel show."""

from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QKeySequence, QPainter, QPen, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from planner.chart.spec import ChartSpec
from planner.chart.table import chart_table
from planner.engine.plan import Verdict
from planner.gui.icons import icon
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.theme import Theme
from planner.gui.verdicts import chip_colours
from planner.gui.views.screen_style import TABLE_HEADER_HEIGHT, TABLE_ROW_HEIGHT
from planner.gui.views.sight import out_of_sight
from planner.gui.views.table_model import BOLD_ROLE, CAUTION_ROLE, VERDICT_ROLE, StateTable
from planner.units import SizeUnit

ChartsOf = Callable[[State, SizeUnit], tuple[ChartSpec, ...]]
_PADDING, _TIGHT_PADDING = 5, 3
_CHIP_PADDING = 7
_SIGN_WIDTH = 18


class CellPainter(QStyledItemDelegate):
    """Figures in the table's small type, verdicts as rounded chips."""

    def __init__(self, theme: Theme, session: Session, view: "FigureView") -> None:
        super().__init__(view)
        self._theme = theme
        self._session = session
        self._view = view

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        tokens = self._theme.tokens
        rect = QRectF(option.rect)
        table, view = self._view.table, self._session.view
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if table.is_selected(index.row(), view):
            painter.fillRect(rect, QColor(tokens.row_selected))
        if index.row() < table.rowCount() - 1:
            painter.fillRect(QRectF(rect.left(), rect.bottom() - 1, rect.width(), 1), QColor(tokens.line))
        verdict = index.data(VERDICT_ROLE)
        painter.setFont(self._view.bold_font if index.data(BOLD_ROLE) else self._view.small_font)
        if isinstance(verdict, Verdict):
            self._paint_chip(painter, rect, verdict, str(index.data()))
        else:
            text = str(index.data() or "")
            chosen = table.is_chosen(index.row(), index.column(), view)
            if chosen:
                painter.setFont(self._view.bold_font)
            painter.setPen(QColor(tokens.accent_ink if chosen else tokens.muted if text == "–" else tokens.ink))
            inner = rect.adjusted(self._view.padding, 0, -self._view.padding, 0)
            sign = _SIGN_WIDTH if index.data(CAUTION_ROLE) else 0
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(inner.width()) + 1 - sign)
            painter.drawText(inner, int(index.data(Qt.ItemDataRole.TextAlignmentRole)), shown)
            if sign:
                self._paint_sign(painter, inner.left() + painter.fontMetrics().horizontalAdvance(shown), rect)
        if option.state & QStyle.StateFlag.State_HasFocus and self._view.hasFocus():
            painter.setPen(QPen(QColor(tokens.accent), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(1.5, 2, -1.5, -2.5), 4, 4)
        painter.restore()

    def _paint_sign(self, painter: QPainter, left: float, rect: QRectF) -> None:
        """A small triangle behind a phase whose figures are less sure than usual."""
        picture = icon("caution", self._theme.tokens.warn)
        picture.paint(painter, QRectF(left + 5, rect.center().y() - 6.5, 13, 13).toRect())

    def _paint_chip(self, painter: QPainter, rect: QRectF, verdict: Verdict, text: str) -> None:
        background, ink = chip_colours(verdict, self._theme.tokens)
        painter.setFont(self._view.chip_font)
        width = painter.fontMetrics().horizontalAdvance(text) + 2 * _CHIP_PADDING
        chip = QRectF(rect.right() - width - self._view.padding, rect.center().y() - 9.5, width, 19)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(background))
        painter.drawRoundedRect(chip, 9.5, 9.5)
        painter.setPen(QColor(ink))
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, text)


class FigureView(QTableView):
    """Shows a table; `charts_of` makes the charts that are copied as text."""

    def __init__(self, session: Session, theme: Theme, table: StateTable, charts_of: ChartsOf, name: str) -> None:
        super().__init__()
        self._session = session
        self._charts_of = charts_of
        self._late = False
        self.setProperty("plain", True)
        self.setAccessibleName(name)
        self.small_font = self._font(12, QFont.Weight.Normal)
        self.bold_font = self._font(12, QFont.Weight.DemiBold)
        self.chip_font = self._font(11, QFont.Weight.DemiBold)
        self._header_metrics = QFontMetrics(self._font(11, QFont.Weight.DemiBold))
        self._figure_metrics = QFontMetrics(self.bold_font)
        self._chip_metrics = QFontMetrics(self.chip_font)
        self.padding = _PADDING
        self.table = table
        table.setParent(self)
        self.setModel(self.table)
        self.setItemDelegate(CellPainter(theme, session, self))
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(TABLE_ROW_HEIGHT)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(16)
        header.setFixedHeight(TABLE_HEADER_HEIGHT)
        self.clicked.connect(self._on_cell)
        self.activated.connect(self._on_cell)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        theme.changed.connect(lambda _tokens: self.viewport().update())
        self._show()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            charts = self._charts_of(self._session.state, self._session.view.unit)
            if charts:
                QApplication.clipboard().setText("\n".join(map(chart_table, charts)))
            return
        super().keyPressEvent(event)

    def _on_cell(self, index: QModelIndex) -> None:
        self._session.look_at(**self.table.looks_at(index.row(), index.column()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._late:
            self._show()

    def _show(self) -> None:
        self._late = out_of_sight(self)
        if self._late:
            return
        self.table.show_state(self._session.state, self._session.view.unit)
        self._fit()
        self.viewport().update()

    def _fit(self) -> None:
        """Columns as wide as their texts, which are shortened where room is scarce; only then the table scrolls."""
        header, room = self.horizontalHeader(), self.viewport().width()
        columns = range(1, self.table.columnCount())
        for compact in (0, 1, 2):
            self.table.set_compact(compact)
            self.padding = _TIGHT_PADDING if compact > 1 else _PADDING
            wanted = [self._width_of(column) for column in columns]
            narrowest = self._width_of(0) if self.table.columnCount() else 0
            if sum(wanted) + narrowest <= room:
                break
        first = max(room - sum(wanted), narrowest)
        for column, width in enumerate((first, *wanted)):
            if header.sectionSize(column) != width:
                header.resizeSection(column, width)
        scrolls = sum(wanted) + first > room
        bar = self.horizontalScrollBar().sizeHint().height() if scrolls else 0
        height = header.height() + TABLE_ROW_HEIGHT * max(self.table.rowCount(), 1) + bar + 2
        if self.height() != height:
            self.setFixedHeight(height)

    def _width_of(self, column: int) -> int:
        title = str(self.table.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole))
        width = self._header_metrics.horizontalAdvance(title) + 2 * self.padding + 1
        for row in range(self.table.rowCount()):
            index = self.table.index(row, column)
            text, is_chip = str(index.data()), index.data(VERDICT_ROLE) is not None
            metrics = self._chip_metrics if is_chip else self._figure_metrics
            padding = self.padding + (_CHIP_PADDING if is_chip else 0)
            sign = _SIGN_WIDTH if index.data(CAUTION_ROLE) else 0
            width = max(width, metrics.horizontalAdvance(text) + 2 * padding + sign)
        return width + 1

    @staticmethod
    def _font(pixels: int, weight: QFont.Weight) -> QFont:
        font = QFont(QApplication.font())
        font.setPixelSize(pixels)
        font.setWeight(weight)
        return font
