"""The pages in the middle of the window, one of which is seen, and the tabs that choose it."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QVBoxLayout, QWidget

LIFECYCLE, TIMELINE, EXPLORE, HOST = range(4)
PAGES = (
    ("Lifecycle", "VRAM by lifecycle phase"),
    ("Step timeline", "VRAM over the moments of one phase's step"),
    ("Explore", "VRAM over the values of one field, and the largest that fits"),
    ("Host && storage", "Host RAM and storage by lifecycle phase"),
)
"""The tab of each page, and what it says about itself."""
TABS_HEIGHT = 34


class Pages(QWidget):
    """The first page is there from the start; the others are built when they are first looked at."""

    switched = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.tabs = QTabBar()
        self.tabs.setAccessibleName("Views")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.tabs.setFixedHeight(TABS_HEIGHT)
        for index, (title, tip) in enumerate(PAGES):
            self.tabs.addTab(title)
            self.tabs.setTabToolTip(index, tip)
            self.tabs.setTabEnabled(index, index == LIFECYCLE)
        self.tabs.currentChanged.connect(self._on_tab)
        self._build: dict[int, Callable[[], QWidget]] = {}
        self._stack = QStackedWidget()
        first = QWidget()
        self.lifecycle = QVBoxLayout(first)
        self.lifecycle.setContentsMargins(0, 0, 0, 0)
        self.lifecycle.setSpacing(10)
        self._stack.addWidget(first)
        self._built = {LIFECYCLE: first}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(10)
        self._column.addWidget(self.tabs)
        self._column.addWidget(self._stack, 1)

    @property
    def current(self) -> int:
        return self.tabs.currentIndex()

    def fill(self, notice: QWidget, build: Mapping[int, Callable[[], QWidget]]) -> None:
        """Take what stands above every page, and what makes each of the others."""
        self._column.insertWidget(1, notice)
        self._build = dict(build)
        for index in build:
            self.tabs.setTabEnabled(index, True)

    def open(self, index: int) -> None:
        """Go to a page, as its tab does."""
        self.tabs.setCurrentIndex(index)

    def _on_tab(self, index: int) -> None:
        if index not in self._built:
            self._built[index] = self._build[index]()
            self._stack.addWidget(self._built[index])
        self._stack.setCurrentWidget(self._built[index])
        self.switched.emit(index)
