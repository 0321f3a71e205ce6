"""The table of the fleet on screen: as wide as there is room, copied with Ctrl+C."""

from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QTableView

from planner.gui.theme import Theme
from planner.gui.views.fleet_cells import FleetCells
from planner.gui.views.fleet_table import GPU, USABLE, FleetTable
from planner.gui.views.screen_style import TABLE_ROW_HEIGHT

_WIDTHS = ((76, 62, 96), (70, 54, 80))
"""Of the usable memory, a pill and the memory bought: as they look best, and where room is scarce."""
_NARROWEST = 150


class FleetGrid(QTableView):
    """The table itself; Ctrl+C copies all of it."""

    def __init__(self, table: FleetTable, theme: Theme) -> None:
        super().__init__()
        self.table = table
        self.setModel(table)
        self.setItemDelegate(FleetCells(theme, self))
        self.setProperty("plain", True)
        self.setAccessibleName("Fleet")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(TABLE_ROW_HEIGHT)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setMinimumSectionSize(40)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionsClickable(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            QApplication.clipboard().setText(self.table.as_text())
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit()

    def fit(self) -> None:
        """The names get what the figures leave."""
        columns, room = range(1, self.table.columnCount()), self.viewport().width()
        for usable, pill, bought in _WIDTHS:
            widths = dict.fromkeys(columns, pill) | {USABLE: usable, self.table.bought: bought}
            if sum(widths.values()) + _NARROWEST <= room:
                break
        self.setColumnWidth(GPU, max(_NARROWEST, room - sum(widths.values())))
        for column, width in widths.items():
            self.setColumnWidth(column, width)
