"""The figures of a step as a table: components and total of each moment."""

from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt

from planner.chart.names import COMPONENT_NAMES
from planner.chart.spec import Bar, ChartSpec
from planner.engine.term import COMPONENTS, Component
from planner.gui.session import Session
from planner.gui.state import State, ViewState
from planner.gui.views.table_model import BOLD_ROLE, SHORT_NAMES, StateTable
from planner.gui.views.timeline_state import timeline_of
from planner.units import BYTES_PER_UNIT, SizeUnit, format_size

Index = QModelIndex | QPersistentModelIndex
_NO_PARENT = QModelIndex()


class MomentTable(StateTable):
    """Rows are the moments of the phase that is looked at; columns are the moment, its components and the total."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._spec: ChartSpec | None = None
        self._unit: SizeUnit = "GiB"
        self.components: tuple[Component, ...] = ()

    @property
    def bars(self) -> tuple[Bar, ...]:
        return self._spec.bars if self._spec else ()

    def show_state(self, state: State, unit: SizeUnit) -> bool:
        spec = timeline_of(state, self._session.view)
        present = {segment.component for bar in (spec.bars if spec else ()) for segment in bar.segments}
        components = tuple(name for name in COMPONENTS if name in present)
        moments = [bar.moment for bar in spec.bars] if spec else []
        other_shape = (moments, components) != ([bar.moment for bar in self.bars], self.components)
        if other_shape:
            self.beginResetModel()
        self._spec, self._unit, self.components = spec, unit, components
        if other_shape:
            self.endResetModel()
        elif moments:
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, self.columnCount() - 1))
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)
        return other_shape

    def looks_at(self, row: int, column: int) -> dict[str, Any]:
        component = self.components[column - 1] if 0 < column <= len(self.components) else None
        bar = self.bars[row]
        return {"phase": bar.phase, "moment": bar.moment, "group": self._session.view.group, "component": component}

    def is_selected(self, row: int, view: ViewState) -> bool:
        return self.bars[row].moment == view.moment

    def is_chosen(self, row: int, column: int, view: ViewState) -> bool:
        return self.is_selected(row, view) and view.component in self.components[column - 1 : column]

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.bars)

    def columnCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() or self._spec is None else len(self.components) + 2

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation != Qt.Orientation.Horizontal or self._spec is None:
            return None
        component = self.components[section - 1] if 0 < section <= len(self.components) else None
        if role == Qt.ItemDataRole.DisplayRole:
            if section == 0:
                return self._unit if self.compact else f"At its fullest ({self._unit})"
            return "Total" if component is None else SHORT_NAMES[component]
        if role == Qt.ItemDataRole.ToolTipRole and section:
            return "Of the whole process" if component is None else COMPONENT_NAMES[component]
        return _alignment(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self.bars):
            return None
        bar, column = self.bars[index.row()], index.column()
        total = column > len(self.components)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        if role == BOLD_ROLE:
            return total
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return None
        if column == 0:
            peak = " (peak)" if bar.peak else ""
            return f"{bar.short_name if self.compact else bar.name}{peak}"
        sizes = {segment.component: segment.size_bytes for segment in bar.segments}
        return self._figure(bar.total_bytes if total else sizes.get(self.components[column - 1], 0))

    def _figure(self, size: int) -> str:
        large = self.compact > 1 and size >= 999.5 * BYTES_PER_UNIT[self._unit]
        return format_size(size, self._unit, digits=0 if large else 1, with_unit=False) if size else "–"


def _alignment(column: int) -> Qt.AlignmentFlag:
    return (Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft) | Qt.AlignmentFlag.AlignVCenter
