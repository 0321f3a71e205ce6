"""A field that opens a list with a search box: for choosing one of very many."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QSize, QSortFilterProxyModel, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QPushButton, QVBoxLayout, QWidget

from planner.gui.icons import icon

_KEY_ROLE = Qt.ItemDataRole.UserRole
_WORDS_ROLE = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry: what it is, how it reads, and further words by which it is found."""

    key: str
    text: str
    hint: str = ""
    words: str = ""


class WordFilter(QSortFilterProxyModel):
    """Keeps the entries that hold every word that was typed, in any order."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._wanted: tuple[str, ...] = ()

    def search(self, text: str) -> None:
        self._wanted = tuple(text.lower().split())
        self.invalidate()

    def filterAcceptsRow(self, row: int, parent: QModelIndex | QPersistentModelIndex) -> bool:
        words = str(self.sourceModel().index(row, 0, parent).data(_WORDS_ROLE))
        return all(word in words for word in self._wanted)


class SearchPopup(QFrame):
    """The list with its search box; Up, Down and Enter work while typing."""

    chosen = Signal(str)

    def __init__(self, choices: Sequence[Choice], name: str, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("popup", True)
        self._model = QStandardItemModel(self)
        for choice in choices:
            item = QStandardItem(choice.text)
            item.setEditable(False)
            item.setData(choice.key, _KEY_ROLE)
            item.setData(f"{choice.text} {choice.key} {choice.hint} {choice.words}".lower(), _WORDS_ROLE)
            item.setToolTip(choice.hint)
            self._model.appendRow(item)
        self._filter = WordFilter(self)
        self._filter.setSourceModel(self._model)
        self.search = QLineEdit()
        self.search.setAccessibleName(f"Search {name}")
        self.search.setPlaceholderText("Type to search")
        self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._on_search)
        self.search.installEventFilter(self)
        self.list = QListView()
        self.list.setModel(self._filter)
        self.list.setAccessibleName(name)
        self.list.setUniformItemSizes(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.activated.connect(self._choose)
        self.list.clicked.connect(self._choose)
        self.nothing = QLabel("Nothing found. Fewer letters find more.")
        self.nothing.setProperty("role", "hint")
        self.nothing.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 8, 8, 8)
        column.addWidget(self.search)
        column.addWidget(self.nothing)
        column.addWidget(self.list)

    def open_below(self, anchor: QWidget, current: str) -> None:
        """Show below `anchor`, with `current` marked."""
        self.search.clear()
        self._mark(current)
        self.setFixedSize(max(anchor.width(), 340), 380)
        self.move(anchor.mapToGlobal(anchor.rect().bottomLeft()))
        self.show()
        self.search.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.search and event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
                self.list.event(event)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._choose(self.list.currentIndex())
                return True
        return super().eventFilter(watched, event)

    def _mark(self, key: str) -> None:
        for row in range(self._filter.rowCount()):
            index = self._filter.index(row, 0)
            if index.data(_KEY_ROLE) == key:
                self.list.setCurrentIndex(index)
                self.list.scrollTo(index, QListView.ScrollHint.PositionAtCenter)
                return

    def _on_search(self, text: str) -> None:
        self._filter.search(text)
        found = self._filter.rowCount() > 0
        self.nothing.setVisible(not found)
        self.list.setCurrentIndex(self._filter.index(0, 0) if found else QModelIndex())

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid():
            self.hide()
            self.chosen.emit(str(index.data(_KEY_ROLE)))


class PickerButton(QPushButton):
    """Shows what is chosen; pressing it, or Alt+Down, opens the list, which is filled when first opened."""

    chosen = Signal(str)

    def __init__(self, name: str, choices: Callable[[], Sequence[Choice]]) -> None:
        super().__init__()
        self.setProperty("picker", True)
        self.setAutoDefault(False)
        self.setAccessibleName(name)
        self.setIcon(icon("search"))
        self.setIconSize(QSize(14, 14))
        self._name = name
        self._choices = choices
        self._popup: SearchPopup | None = None
        self._full_text = ""
        self.current = ""
        self.clicked.connect(self.open)

    def show_choice(self, key: str, text: str) -> None:
        self.current = key
        self._full_text = text
        self._elide()

    def open(self) -> SearchPopup:
        if self._popup is None:
            self._popup = SearchPopup(self._choices(), self._name, self)
            self._popup.chosen.connect(self.chosen)
        self._popup.open_below(self, self.current)
        return self._popup

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Down:
            self.open()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        icon("chevron-down").paint(painter, self.rect().adjusted(self.width() - 22, 0, -8, 0))

    def _elide(self) -> None:
        room = max(self.width() - 58, 40)
        shown = self.fontMetrics().elidedText(self._full_text, Qt.TextElideMode.ElideMiddle, room)
        self.setText(shown.replace("&", "&&"))
        self.setToolTip(self._full_text if shown != self._full_text else "")
