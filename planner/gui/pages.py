"""The pages in the middle of the window, one of which is seen, and the tabs that choose it."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget

from planner.gui.page_list import PAGES, Page

if TYPE_CHECKING:
    from planner.gui.session import Session
    from planner.gui.theme import Theme
    from planner.gui.views.page_view import PageView

TABS_HEIGHT = 34


class Pages(QWidget):
    """The first page is there from the start; the others are built when they are first looked at."""

    switched = Signal(object)
    """The `Page` that is seen now."""
    wanted = Signal(str)
    """The name of a command that something on a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("Views")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setFixedHeight(TABS_HEIGHT)
        for index, page in enumerate(PAGES):
            self.tabs.addTab(page.title)
            self.tabs.setTabToolTip(index, page.tip)
            self.tabs.setTabEnabled(index, page.build is None)
        self.tabs.currentChanged.connect(self._on_tab)
        self._stack = QStackedWidget()
        first = QWidget()
        self.lifecycle = QVBoxLayout(first)
        self.lifecycle.setContentsMargins(0, 0, 0, 0)
        self.lifecycle.setSpacing(10)
        self._stack.addWidget(first)
        self._built: dict[str, PageView] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(10)
        self._column.addWidget(self.tabs)
        self._column.addWidget(self._stack, 1)

    @property
    def current(self) -> Page:
        return PAGES[self.tabs.currentIndex()]

    @property
    def current_view(self) -> "PageView | None":
        """What fills the current page; None on the first, which the window fills itself."""
        return self._built.get(self.current.name)

    def fill(self, notice: QWidget, session: "Session", theme: "Theme") -> None:
        """Take what stands above every page, and what the others are built for."""
        self._column.insertWidget(1, notice)
        self._session, self._theme = session, theme
        for index in range(len(PAGES)):
            self.tabs.setTabEnabled(index, True)

    def open(self, name: str) -> None:
        """Go to a page, as its tab does."""
        self.tabs.setCurrentIndex(index_of(name))

    def view(self, name: str) -> "PageView":
        """What fills a page that was looked at. Raises `KeyError` for others."""
        return self._built[name]

    def _on_tab(self, index: int) -> None:
        page = PAGES[index]
        if page.build is not None and page.name not in self._built:
            view = self._built[page.name] = page.build(self._session, self._theme)
            view.wanted.connect(self.wanted)
            self._stack.addWidget(view)
        if page.build is None:
            self._stack.setCurrentIndex(0)
        else:
            self._stack.setCurrentWidget(self._built[page.name])
        self.switched.emit(page)


def index_of(name: str) -> int:
    """The place of a page's tab."""
    return next(index for index, page in enumerate(PAGES) if page.name == name)
