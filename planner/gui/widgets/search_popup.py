"""A field that opens a list with a search box: for choosing one of very many."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QPushButton, QVBoxLayout, QWidget

from planner.gui.icons import icon
from planner.gui.widgets.choice_list import KEY_ROLE, Choice, ChoicePainter, WordFilter, choice_model


class SearchPopup(QFrame):
    """The list with its search box; Up, Down and Enter work while typing."""

    chosen = Signal(str)

    def __init__(self, name: str, parent: QWidget, width: int) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("popup", True)
        self._width = width
        self._filter = WordFilter(self)
        self.search = QLineEdit()
        self.search.setAccessibleName(f"Search {name}")
        self.search.setPlaceholderText("Type to search")
        self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._on_search)
        self.search.installEventFilter(self)
        self.list = QListView()
        self.list.setModel(self._filter)
        self.list.setItemDelegate(ChoicePainter(self.list))
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

    def open_below(self, anchor: QWidget, choices: Sequence[Choice], current: str) -> None:
        """Show `choices` below `anchor`, with `current` marked."""
        before = self._filter.sourceModel()
        self._filter.setSourceModel(choice_model(choices, self))
        if before is not None:
            before.deleteLater()
        self.search.clear()
        self._mark(current)
        self.setFixedSize(max(anchor.width(), self._width), 420)
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
        index = self._filter.find(key)
        self.list.setCurrentIndex(index)
        self.list.scrollTo(index, QListView.ScrollHint.PositionAtCenter)

    def _on_search(self, text: str) -> None:
        self._filter.search(text)
        first = self._filter.first()
        self.nothing.setVisible(not first.isValid())
        self.list.setCurrentIndex(first)
        self.list.scrollToTop()

    def _choose(self, index: QModelIndex) -> None:
        if index.isValid() and index.data(KEY_ROLE) is not None:
            self.hide()
            self.chosen.emit(str(index.data(KEY_ROLE)))


class PickerButton(QPushButton):
    """Shows what is chosen; pressing it, or Alt+Down, opens the list, filled each time anew."""

    chosen = Signal(str)

    def __init__(self, name: str, choices: Callable[[], Sequence[Choice]], width: int = 340) -> None:
        super().__init__()
        self.setProperty("picker", True)
        self.setAutoDefault(False)
        self.setAccessibleName(name)
        self.setIcon(icon("search"))
        self.setIconSize(QSize(14, 14))
        self._name = name
        self._choices = choices
        self._width = width
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
            self._popup = SearchPopup(self._name, self, self._width)
            self._popup.chosen.connect(self.chosen)
        self._popup.open_below(self, self._choices(), self.current)
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
