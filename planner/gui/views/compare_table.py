"""What the compared plans do not have alike: components at the peak, the peak itself, and fields that were changed."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem

from planner.chart.compare import Compared
from planner.chart.names import COMPONENT_NAMES
from planner.engine.plan import PhaseName, PhasePlan
from planner.engine.term import COMPONENTS
from planner.report.differences import Difference
from planner.units import SizeUnit, format_size


class CompareTable(QTableWidget):
    """Sizes with their difference to the first plan; a field's values below one another's names."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Differences")
        self.setProperty("plain", True)
        self.setShowGrid(False)
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(26)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideRight)
        self.horizontalHeader().setMinimumSectionSize(90)

    def show_plans(
        self, compared: Sequence[Compared], phase: PhaseName, changed: Sequence[Difference], unit: SizeUnit
    ) -> None:
        """Fill it anew: sizes first, then fields."""
        plans = [one.plan.phases.get(phase) for one in compared]
        rows = [*_size_rows(plans, unit), *((one.label, one.where, one.values) for one in changed)]
        self.setColumnCount(len(compared) + 1)
        self.setHorizontalHeaderLabels(["Peak per GPU", *(one.name for one in compared)])
        self.setRowCount(len(rows))
        for index, (label, tip, values) in enumerate(rows):
            for column, text in enumerate((label, *values)):
                item = QTableWidgetItem(text)
                item.setToolTip(tip if column == 0 else text)
                side = Qt.AlignmentFlag.AlignLeft if column == 0 else Qt.AlignmentFlag.AlignRight
                item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
                self.setItem(index, column, item)
        header = self.horizontalHeader()
        for column in range(self.columnCount()):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        first = self.horizontalHeaderItem(0)
        if first is not None:
            first.setTextAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


def _size_rows(plans: Sequence[PhasePlan | None], unit: SizeUnit) -> list[tuple[str, str, tuple[str, ...]]]:
    rows = []
    for name in COMPONENTS:
        sizes = [None if plan is None else plan.components.get(name, 0) for plan in plans]
        if any(sizes):
            rows.append((COMPONENT_NAMES[name], "At the peak of each plan", _cells(sizes, unit)))
    totals = [None if plan is None else plan.peak.process_bytes for plan in plans]
    rows.append(("Peak", "Of the whole process", _cells(totals, unit)))
    return rows


def _cells(sizes: Sequence[int | None], unit: SizeUnit) -> tuple[str, ...]:
    """`39.7 (−17.5)`"""
    first = next((size for size in sizes if size is not None), 0)
    cells = []
    for index, size in enumerate(sizes):
        if size is None:
            cells.append("not planned")
            continue
        text = format_size(size, unit, with_unit=False)
        more = size - first
        sign = "+" if more > 0 else "−"
        cells.append(f"{text} ({sign}{format_size(abs(more), unit, with_unit=False)})" if index and more else text)
    return tuple(cells)
