"""Entries of a searchable list under headings: their model, the filter, and how they are painted."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, QSortFilterProxyModel, Qt
from PySide6.QtGui import QFont, QFontMetrics, QHelpEvent, QPainter, QPalette, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
)

Index = QModelIndex | QPersistentModelIndex
KEY_ROLE = Qt.ItemDataRole.UserRole
WORDS_ROLE = Qt.ItemDataRole.UserRole + 1
DETAIL_ROLE = Qt.ItemDataRole.UserRole + 2
HEADING_ROLE = Qt.ItemDataRole.UserRole + 3

ROW_HEIGHT = 28
_MARGIN, _GAP, _DETAIL_PIXELS, _HEADING_PIXELS = 8, 12, 12, 11


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry: what it is, how it reads, what stands beside it, further words that find it, and its heading."""

    key: str
    text: str
    hint: str = ""
    words: str = ""
    group: str = ""


def choice_model(choices: Sequence[Choice], parent: QObject) -> QStandardItemModel:
    """The entries in their order, a heading before each group."""
    model = QStandardItemModel(parent)
    group = ""
    for choice in choices:
        if choice.group != group:
            group = choice.group
            model.appendRow(_heading(group))
        model.appendRow(_entry(choice))
    return model


class WordFilter(QSortFilterProxyModel):
    """Keeps the entries that hold every word that was typed, in any order, and the headings of those."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._wanted: tuple[str, ...] = ()

    def search(self, text: str) -> None:
        self._wanted = tuple(text.lower().split())
        self.invalidate()

    def filterAcceptsRow(self, row: int, parent: Index) -> bool:
        source = self.sourceModel()
        index = source.index(row, 0, parent)
        if not index.data(HEADING_ROLE):
            return self._found(str(index.data(WORDS_ROLE)))
        below = row + 1
        while below < source.rowCount(parent) and not source.index(below, 0, parent).data(HEADING_ROLE):
            if self._found(str(source.index(below, 0, parent).data(WORDS_ROLE))):
                return True
            below += 1
        return False

    def first(self) -> QModelIndex:
        """The first entry that can be chosen, or none."""
        rows = (self.index(row, 0) for row in range(self.rowCount()))
        return next((index for index in rows if not index.data(HEADING_ROLE)), QModelIndex())

    def find(self, key: str) -> QModelIndex:
        """The first entry with a key."""
        rows = (self.index(row, 0) for row in range(self.rowCount()))
        return next((index for index in rows if index.data(KEY_ROLE) == key), QModelIndex())

    def _found(self, words: str) -> bool:
        return all(word in words for word in self._wanted)


class ChoicePainter(QStyledItemDelegate):
    """The name on the left, shortened in the middle where it must be, and what is to be known of it on the right."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        self.initStyleOption(option, index)
        text, option.text = option.text, ""
        style = option.widget.style() if option.widget else QApplication.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        painter.save()
        rect = option.rect.adjusted(_MARGIN, 0, -_MARGIN, 0)
        if index.data(HEADING_ROLE):
            painter.setFont(_font(option, _HEADING_PIXELS, QFont.Weight.DemiBold))
            painter.setPen(option.palette.color(QPalette.ColorRole.PlaceholderText))
            painter.drawText(rect.adjusted(0, 4, 0, 0), Qt.AlignmentFlag.AlignVCenter, text.upper())
        else:
            name, detail = self._parts(option, index, rect)
            chosen = bool(option.state & QStyle.StateFlag.State_Selected)
            role = QPalette.ColorRole.HighlightedText if chosen else QPalette.ColorRole.Text
            painter.setFont(option.font)
            painter.setPen(option.palette.color(role))
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, name)
            painter.setFont(_font(option, _DETAIL_PIXELS, QFont.Weight.Normal))
            painter.setPen(option.palette.color(QPalette.ColorRole.PlaceholderText))
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, detail)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(super().sizeHint(option, index).width(), ROW_HEIGHT)

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        """The whole of an entry, where it is shortened."""
        self.initStyleOption(option, index)
        text, detail = str(index.data() or ""), str(index.data(DETAIL_ROLE) or "")
        name, _ = self._parts(option, index, option.rect.adjusted(_MARGIN, 0, -_MARGIN, 0))
        shown = f"{text}\n{detail}" if detail and name != text and not index.data(HEADING_ROLE) else ""
        QToolTip.showText(event.globalPos(), shown, view)
        return True

    @staticmethod
    def _parts(option: QStyleOptionViewItem, index: Index, rect: QRect) -> tuple[str, str]:
        """Name and detail as they fit side by side."""
        detail = str(index.data(DETAIL_ROLE) or "")
        small = QFontMetrics(_font(option, _DETAIL_PIXELS, QFont.Weight.Normal))
        wide = small.horizontalAdvance(detail) + _GAP if detail else 0
        room = max(rect.width() - wide, rect.width() // 3)
        return option.fontMetrics.elidedText(str(index.data() or ""), Qt.TextElideMode.ElideMiddle, room), detail


def _entry(choice: Choice) -> QStandardItem:
    item = QStandardItem(choice.text)
    item.setEditable(False)
    item.setData(choice.key, KEY_ROLE)
    item.setData(_words(choice), WORDS_ROLE)
    item.setData(choice.hint, DETAIL_ROLE)
    item.setAccessibleDescription(choice.hint)
    return item


def _heading(text: str) -> QStandardItem:
    item = QStandardItem(text)
    item.setData(True, HEADING_ROLE)
    item.setFlags(Qt.ItemFlag.NoItemFlags)
    return item


def _words(choice: Choice) -> str:
    return f"{choice.text} {choice.key} {choice.hint} {choice.words} {choice.group}".lower()


def _font(option: QStyleOptionViewItem, pixels: int, weight: QFont.Weight) -> QFont:
    font = QFont(option.font)
    font.setPixelSize(pixels)
    font.setWeight(weight)
    return font
