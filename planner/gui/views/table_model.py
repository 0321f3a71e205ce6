"""The figures of the chart as a table: components and peak of each phase, and the verdict of each GPU."""

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES, PHASE_SHORT_NAMES
from planner.engine.plan import PhaseName, Verdict
from planner.engine.term import COMPONENTS, Component
from planner.gui.cautions import cautions
from planner.gui.state import State, ViewState
from planner.gui.verdicts import chip_text, short_chip_text, verdict_sentence
from planner.hardware import distinct_labels
from planner.units import BYTES_PER_UNIT, SizeUnit, format_size

Index = QModelIndex | QPersistentModelIndex
VERDICT_ROLE = Qt.ItemDataRole.UserRole
BOLD_ROLE = Qt.ItemDataRole.UserRole + 1
CAUTION_ROLE = Qt.ItemDataRole.UserRole + 2
"""Why the figures of a row are less sure than usual; empty where they are not."""

SHORT_NAMES: dict[Component, str] = {
    "weights": "Weights",
    "gradients": "Grads",
    "optimizer_states": "Optim.",
    "activations": "Activ.",
    "logits": "Logits",
    "kv_cache": "KV",
    "temporaries": "Temp.",
    "overhead": "Overh.",
}
_LONGEST_LABEL = 16
_NO_PARENT = QModelIndex()


class StateTable(QAbstractTableModel):
    """A table of figures of a state: what its rows and cells stand for in what the user looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.compact = 0

    def show_state(self, state: State, unit: SizeUnit) -> bool:
        """Show a state; returns whether rows or columns are others than before."""
        raise NotImplementedError

    def set_compact(self, compact: int) -> None:
        """How narrow the table is: 0 for whole texts, 1 for shorter names of phases, 2 for shorter texts throughout."""
        self.compact = compact

    def looks_at(self, row: int, column: int) -> dict[str, Any]:
        """What a click on a cell looks at."""
        raise NotImplementedError

    def is_selected(self, row: int, view: ViewState) -> bool:
        """Whether what is looked at is in a row."""
        raise NotImplementedError

    def is_chosen(self, row: int, column: int, view: ViewState) -> bool:
        """Whether a cell is the very figure that is looked at."""
        raise NotImplementedError


class FigureTable(StateTable):
    """Rows are phases; columns are the phase, the components that occur, the peak, and one column per GPU."""

    def __init__(self) -> None:
        super().__init__()
        self._state: State | None = None
        self._unit: SizeUnit = "GiB"
        self._labels: tuple[str, ...] = ()
        self.phases: tuple[PhaseName, ...] = ()
        self.components: tuple[Component, ...] = ()

    def show_state(self, state: State, unit: SizeUnit) -> bool:
        plans = state.plan.phases if state.plan else {}
        phases = tuple(plans)
        present = {name for plan in plans.values() for name, size in plan.components.items() if size}
        components = tuple(name for name in COMPONENTS if name in present)
        gpus = [gpu.id for gpu in state.gpus]
        before = [gpu.id for gpu in self._state.gpus] if self._state else []
        other_shape = (phases, components, gpus) != (self.phases, self.components, before)
        if other_shape:
            self.beginResetModel()
        self._state, self._unit, self.phases, self.components = state, unit, phases, components
        labels = distinct_labels([(gpu.label, gpu.name) for gpu in state.gpus])
        self._labels = tuple(
            label if len(label) <= _LONGEST_LABEL else f"{label[:_LONGEST_LABEL]}…" for label in labels
        )
        if other_shape:
            self.endResetModel()
        elif phases:
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, self.columnCount() - 1))
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, self.columnCount() - 1)
        return other_shape

    def looks_at(self, row: int, column: int) -> dict[str, Any]:
        return {"phase": self.phases[row], "component": self.component_at(column)}

    def is_selected(self, row: int, view: ViewState) -> bool:
        return self.phases[row] == view.phase

    def is_chosen(self, row: int, column: int, view: ViewState) -> bool:
        return bool(view.component) and (self.phases[row], column) == (view.phase, self.column_of(view.component))

    def component_at(self, column: int) -> Component | None:
        return self.components[column - 1] if 0 < column <= len(self.components) else None

    def column_of(self, component: Component | None) -> int:
        """The column of a component; that of the peak for the phase as a whole."""
        return self.components.index(component) + 1 if component in self.components else len(self.components) + 1

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.phases)

    def columnCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() or self._state is None else len(self.components) + 2 + len(self._state.gpus)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation != Qt.Orientation.Horizontal or self._state is None:
            return None
        gpu = section - len(self.components) - 2
        if role == Qt.ItemDataRole.DisplayRole:
            if section == 0:
                return self._unit if self.compact else f"Peak per GPU ({self._unit})"
            if gpu < -1:
                return SHORT_NAMES[self.components[section - 1]]
            return "Peak" if gpu == -1 else self._labels[gpu]
        if role == Qt.ItemDataRole.ToolTipRole and section:
            if gpu < -1:
                return COMPONENT_NAMES[self.components[section - 1]]
            return "Peak of the whole process" if gpu == -1 else self._state.gpus[gpu].name
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if section == 0 else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if self._state is None or self._state.plan is None or not index.isValid():
            return None
        phase, column = self.phases[index.row()], index.column()
        plan = self._state.plan.phases[phase]
        gpu = column - len(self.components) - 2
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignLeft if column == 0 else Qt.AlignmentFlag.AlignRight
            return side | Qt.AlignmentFlag.AlignVCenter
        if role == BOLD_ROLE:
            return gpu == -1
        if gpu >= 0:
            return self._verdict_data(phase, gpu, role)
        if column == 0:
            return self._phase_data(phase, role)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            size = plan.peak.process_bytes if gpu == -1 else plan.components.get(self.components[column - 1], 0)
            return self._figure(size) if size else "–"
        return None

    def _phase_data(self, phase: PhaseName, role: int) -> Any:
        assert self._state is not None
        told = "\n".join(cautions(self._state, phase))
        if role == Qt.ItemDataRole.DisplayRole:
            return PHASE_SHORT_NAMES[phase] if self.compact else PHASE_NAMES[phase]
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{PHASE_NAMES[phase]}. {told}" if told else PHASE_NAMES[phase]
        return told if role in (CAUTION_ROLE, Qt.ItemDataRole.ToolTipRole) else None

    def _figure(self, size: int) -> str:
        """With one decimal; without it from a thousand upwards where room is scarce."""
        large = self.compact > 1 and size >= 999.5 * BYTES_PER_UNIT[self._unit]
        return format_size(size, self._unit, digits=0 if large else 1, with_unit=False)

    def _verdict_data(self, phase: PhaseName, gpu: int, role: int) -> Any:
        assert self._state is not None
        assert self._state.plan is not None
        plan, chosen = self._state.plan.phases[phase], self._state.gpus[gpu]
        verdict: Verdict | None = plan.verdicts.get(chosen.id) if plan.peak.process_bytes else None
        if role == VERDICT_ROLE:
            return verdict
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            if verdict is None:
                return "–"
            return short_chip_text(verdict, self._unit) if self.compact > 1 else chip_text(verdict, self._unit)
        if role == Qt.ItemDataRole.ToolTipRole and verdict:
            return verdict_sentence(verdict, chosen.name, self._unit, chosen.capacities.usable_bytes)
        return None
