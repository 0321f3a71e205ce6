"""Host RAM and storage as a table: of each phase and of all together, with the verdicts of the server."""

from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt

from planner.chart.host import WHOLE_NAME, room_of_plan, server_name
from planner.chart.names import PHASE_NAMES, PHASE_SHORT_NAMES
from planner.chart.spec import WHOLE, BarName, Resource
from planner.engine.plan import Verdict, programme
from planner.gui.server_words import room_sentence
from planner.gui.state import State, ViewState
from planner.gui.verdicts import chip_text, short_chip_text
from planner.gui.views.table_model import BOLD_ROLE, VERDICT_ROLE, StateTable
from planner.units import BYTES_PER_UNIT, SizeUnit, format_size

Index = QModelIndex | QPersistentModelIndex
_COLUMNS: tuple[tuple[str, str], ...] = (
    ("Host RAM", "What processes hold on one server"),
    ("Page cache", "What the kernel should have left for files, on one server"),
    ("RAM fits", "Whether the RAM of the server is enough"),
    ("Storage", "What is stored for the whole job"),
    ("Disks fit", "Whether the disks are large enough; a fifth of them should stay free"),
)
RAM, CACHE, RAM_VERDICT, DISK, DISK_VERDICT = range(1, 6)
_NO_PARENT = QModelIndex()


class HostTable(StateTable):
    """Rows are phases and all of them together; columns are amounts and their verdicts."""

    def __init__(self) -> None:
        super().__init__()
        self._unit: SizeUnit = "GiB"
        self.rows: tuple[BarName, ...] = ()
        self._figures: dict[BarName, dict[int, int]] = {}
        self._verdicts: dict[BarName, dict[int, Verdict | None]] = {}
        self._room = ""

    def show_state(self, state: State, unit: SizeUnit) -> bool:
        phases = state.plan.phases if state.plan else {}
        rows: tuple[BarName, ...] = (*phases, WHOLE) if len(phases) > 1 else tuple(phases)
        other_shape = rows != self.rows
        if other_shape:
            self.beginResetModel()
        self._unit, self.rows = unit, rows
        self._figures = {
            name: {RAM: plan.host_ram_bytes, CACHE: plan.page_cache_bytes, DISK: plan.storage_bytes}
            for name, plan in phases.items()
        }
        self._verdicts = {
            name: {RAM_VERDICT: plan.host_verdict, DISK_VERDICT: plan.storage_verdict} for name, plan in phases.items()
        }
        if WHOLE in rows:
            whole = programme(phases)
            cache = max(plan.page_cache_bytes for plan in phases.values())
            self._figures[WHOLE] = {RAM: whole.host_ram_bytes, CACHE: cache, DISK: whole.storage_bytes}
            self._verdicts[WHOLE] = {RAM_VERDICT: whole.host_verdict, DISK_VERDICT: whole.storage_verdict}
        self._room = server_name(room_of_plan(state.plan)) if state.plan else ""
        if other_shape:
            self.endResetModel()
        elif rows:
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, self.columnCount() - 1))
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)
        return other_shape

    def looks_at(self, row: int, column: int) -> dict[str, Any]:
        name = self.rows[row]
        resource: Resource = "storage" if column >= DISK or name == WHOLE else "host_ram"
        return {**({"whole": True} if name == WHOLE else {"phase": name}), "resource": resource, "component": None}

    def is_selected(self, row: int, view: ViewState) -> bool:
        return self.rows[row] == view.bar

    def is_chosen(self, row: int, column: int, view: ViewState) -> bool:
        return self.is_selected(row, view) and column == (DISK if view.resource == "storage" else RAM)

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_COLUMNS) + 1

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            if section:
                return _COLUMNS[section - 1][0]
            return self._unit if self.compact else f"RAM per server, storage of the job ({self._unit})"
        if role == Qt.ItemDataRole.ToolTipRole and section:
            return _COLUMNS[section - 1][1]
        return _alignment(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        name, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        if role == BOLD_ROLE:
            return name == WHOLE
        if column in (RAM_VERDICT, DISK_VERDICT):
            return self._verdict_data(name, column, role)
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return None
        if column == 0:
            short = self.compact and role == Qt.ItemDataRole.DisplayRole
            return WHOLE_NAME if name == WHOLE else (PHASE_SHORT_NAMES if short else PHASE_NAMES)[name]
        return self._figure(self._figures[name][column])

    def _figure(self, size: int) -> str:
        """With one decimal; without it from a thousand upwards where room is scarce."""
        large = self.compact > 1 and size >= 999.5 * BYTES_PER_UNIT[self._unit]
        return format_size(size, self._unit, digits=0 if large else 1, with_unit=False) if size else "–"

    def _verdict_data(self, name: BarName, column: int, role: int) -> Any:
        verdict = self._verdicts[name][column]
        needed = self._figures[name][RAM if column == RAM_VERDICT else DISK]
        if not needed:
            verdict = None
        if role == VERDICT_ROLE:
            return verdict
        full = "OOM" if column == RAM_VERDICT else "full"
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            if verdict is None:
                return "–"
            text = short_chip_text(verdict, self._unit) if self.compact > 1 else chip_text(verdict, self._unit)
            return text.replace("OOM", full)
        if role == Qt.ItemDataRole.ToolTipRole and verdict:
            return room_sentence(verdict, self._room, "RAM" if column == RAM_VERDICT else "disks", self._unit)
        return None


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
