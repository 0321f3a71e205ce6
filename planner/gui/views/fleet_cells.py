"""How the fleet looks: numbers of GPUs as pills, the GPU that judges in bold."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTableView

from planner.gui.theme import Theme
from planner.gui.tokens import Tokens
from planner.gui.views.fleet_table import JUDGE_ROLE, PILL_ROLE

PADDING = 6
_PILL_HEIGHT, _PILL_PADDING, _NARROWEST = 19, 8, 34


def cell_font(weight: QFont.Weight) -> QFont:
    """The small type of tables."""
    font = QFont(QApplication.font())
    font.setPixelSize(12)
    font.setWeight(weight)
    return font


def pill_colours(count: int | None, text: str, tokens: Tokens) -> tuple[str, str]:
    """Background and ink: one GPU, several, none because a rule refuses it or something is not known, none at all."""
    if count == 1:
        return tokens.ok_soft, tokens.ok
    if count:
        return tokens.accent_soft, tokens.accent_ink
    return (tokens.bad_soft, tokens.bad) if text == "no" else (tokens.none_soft, tokens.none)


class FleetCells(QStyledItemDelegate):
    """Paints the cells of the fleet."""

    def __init__(self, theme: Theme, view: QTableView) -> None:
        super().__init__(view)
        self._theme = theme
        self._view = view
        self._plain = cell_font(QFont.Weight.Normal)
        self._bold = cell_font(QFont.Weight.DemiBold)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        tokens, rect = self._theme.tokens, QRectF(option.rect)
        judges = bool(index.data(JUDGE_ROLE))
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if judges:
            painter.fillRect(rect, QColor(tokens.row_selected))
        elif index.row() == self._view.currentIndex().row():
            painter.fillRect(rect, QColor(tokens.hover))
        painter.fillRect(QRectF(rect.left(), rect.bottom() - 1, rect.width(), 1), QColor(tokens.line))
        painter.setFont(self._bold if judges or index.data(PILL_ROLE) is not None else self._plain)
        text = str(index.data() or "")
        if index.data(PILL_ROLE) is not None:
            self._paint_pill(painter, rect, index.data(PILL_ROLE), text)
        else:
            painter.setPen(QColor(tokens.muted if text in ("–", "…", "unknown") else tokens.ink))
            inner = rect.adjusted(PADDING, 0, -PADDING, 0)
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(inner.width()) + 1)
            painter.drawText(inner, int(index.data(Qt.ItemDataRole.TextAlignmentRole)), shown)
        if option.state & QStyle.StateFlag.State_HasFocus and self._view.hasFocus():
            painter.setPen(QPen(QColor(tokens.accent), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(rect.adjusted(1.5, 1.5, -1.5, -2.5), 4, 4)
        painter.restore()

    def _paint_pill(self, painter: QPainter, rect: QRectF, count: int, text: str) -> None:
        background, ink = pill_colours(count, text, self._theme.tokens)
        text_width = painter.fontMetrics().horizontalAdvance(text)
        width = min(max(_NARROWEST, text_width + 2 * _PILL_PADDING), rect.width() - 4)
        pill = QRectF(rect.center().x() - width / 2, rect.center().y() - _PILL_HEIGHT / 2, width, _PILL_HEIGHT)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(background))
        painter.drawRoundedRect(pill, _PILL_HEIGHT / 2, _PILL_HEIGHT / 2)
        painter.setPen(QColor(ink))
        painter.drawText(pill, Qt.AlignmentFlag.AlignCenter, text)
