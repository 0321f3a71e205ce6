"""What every page in the middle of the window offers the window."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from planner.chart.spec import ChartSpec


class PageView(QWidget):
    """A page; one with pictures says which, so that they can be copied, saved and printed."""

    wanted = Signal(str)
    """The name of a command of the menus that this page asks for, such as `servers`."""

    @property
    def charts(self) -> tuple[ChartSpec, ...]:
        """What is seen on it, as charts."""
        return ()

    @property
    def table_text(self) -> str:
        """What is copied as a table where there are no charts."""
        return ""
