"""The table of the fleet: GPU types, what each phase needs of them, and what the programme as a whole does."""

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from planner.chart.names import PHASE_NAMES, PHASE_SHORT_NAMES
from planner.engine.fleet import Answer, Row
from planner.engine.plan import PhaseName
from planner.gui.views.fleet_words import NOT_YET, answer_sentence, pill_text, programme_sentence
from planner.hardware import Gpu, HardwareCatalog
from planner.units import SizeUnit, format_size

Index = QModelIndex | QPersistentModelIndex
PILL_ROLE = Qt.ItemDataRole.UserRole
"""How many GPUs a pill tells, 0 where none helps, None where nothing is known yet; absent where there is no pill."""
JUDGE_ROLE = Qt.ItemDataRole.UserRole + 1
"""Whether the row's GPU is the one that judges."""
GPU, USABLE = 0, 1
NAME_ROLE = Qt.ItemDataRole.AccessibleTextRole
_NO_PARENT = QModelIndex()


class FleetTable(QAbstractTableModel):
    """Rows are GPU types that pass the filter, sorted by one column; those without a value stand last."""

    def __init__(self, catalogue: HardwareCatalog) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._unit: SizeUnit = "GiB"
        self._judge = ""
        self._gpus: tuple[Gpu, ...] = ()
        self.order = Qt.SortOrder.AscendingOrder
        self._answers: Mapping[PhaseName, Mapping[str, Answer]] = {}
        self.phases: tuple[PhaseName, ...] = ()
        self.rows: tuple[Row, ...] = ()
        self.sorted_by = 0

    @property
    def whole(self) -> int:
        """The column of the programme as a whole."""
        return USABLE + 1 + len(self.phases)

    @property
    def bought(self) -> int:
        """The column of the memory that is bought."""
        return self.whole + 1

    def show_answers(self, phases: Sequence[PhaseName], answers: Mapping[PhaseName, Mapping[str, Answer]]) -> None:
        """Show what has been found so far for these phases."""
        self.beginResetModel()
        by_bought = self.sorted_by == self.bought
        self.phases, self._answers = tuple(phases), dict(answers)
        self.sorted_by = self.bought if by_bought else min(self.sorted_by, self.bought)
        self._fill()
        self.endResetModel()

    def show_gpus(self, gpus: Sequence[Gpu]) -> None:
        """Show these GPU types alone."""
        if tuple(gpus) != self._gpus:
            self.beginResetModel()
            self._gpus = tuple(gpus)
            self._fill()
            self.endResetModel()

    def show_choice(self, judge: str, unit: SizeUnit) -> None:
        """Mark the GPU that judges; sizes in `unit`."""
        if (judge, unit) != (self._judge, self._unit):
            self._judge, self._unit = judge, unit
            if self.rows:
                self.dataChanged.emit(self.index(0, 0), self.index(len(self.rows) - 1, self.bought))

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.beginResetModel()
        self.sorted_by, self.order = column, order
        self._fill()
        self.endResetModel()

    def phase_at(self, column: int) -> PhaseName | None:
        """The phase that a column is about."""
        return self.phases[column - USABLE - 1] if USABLE < column < self.whole else None

    def answer_at(self, row: int, column: int) -> Answer | None:
        """What one phase needs, once that has been found."""
        phase = self.phase_at(column)
        return None if phase is None else self.rows[row].answers.get(phase)

    def place_of(self, gpu: str) -> int | None:
        """The row of a GPU type, where it is shown."""
        return next((place for place, row in enumerate(self.rows) if row.gpu.id == gpu), None)

    def per_server(self, row: int) -> int | None:
        """GPUs of a row's type in one server, as the layouts take it."""
        return next((answer.per_server for answer in self.rows[row].answers.values()), None)

    def is_complete(self, row: int) -> bool:
        return len(self.rows[row].answers) == len(self.phases) > 0

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _NO_PARENT) -> int:
        return 0 if parent.isValid() else self.bought + 1

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        phase = self.phase_at(section)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._alignment(section)
        if role == Qt.ItemDataRole.DisplayRole:
            return f"{self._title(section)}{self._arrow}" if section == self.sorted_by else self._title(section)
        if role == Qt.ItemDataRole.ToolTipRole:
            if phase is not None:
                return f"The fewest GPUs on which {PHASE_NAMES[phase].lower()} fits"
            return {
                GPU: "Click a GPU to judge by it",
                USABLE: "What one of them offers a process",
                self.whole: "GPUs with which every phase can run, one after the other",
                self.bought: "Memory of all these GPUs together, as they are labelled",
            }[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._alignment(column)
        if role == JUDGE_ROLE:
            return row.gpu.id == self._judge
        if role == PILL_ROLE and USABLE < column < self.bought:
            return self._count(row, column)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(row, column)
        if role in (Qt.ItemDataRole.ToolTipRole, NAME_ROLE):
            return self.sentence(index.row(), column)
        return None

    def sentence(self, row: int, column: int) -> str:
        """What a cell tells, in words."""
        found, phase = self.rows[row], self.phase_at(column)
        if phase is not None:
            return answer_sentence(found.gpu, phase, found.answers.get(phase), self._unit)
        if column == GPU:
            return found.gpu.full_title
        if column == USABLE:
            return self._catalogue.resolve(found.gpu.id).capacities.note
        return programme_sentence(found, complete=self.is_complete(row), unit=self._unit)

    def as_text(self) -> str:
        """The table for other programs: one line a row, with tabs between cells."""
        columns = range(self.columnCount())
        head = [self._title(column) for column in columns]
        lines = [[self._text(row, column) for column in columns] for row in self.rows]
        return "".join("\t".join(cells) + "\n" for cells in (head, *lines))

    def _title(self, column: int) -> str:
        phase = self.phase_at(column)
        if phase is not None:
            return PHASE_SHORT_NAMES[phase]
        return {GPU: "GPU", USABLE: "Usable", self.whole: "All", self.bought: "Bought"}[column]

    @property
    def _arrow(self) -> str:
        return " ↑" if self.order == Qt.SortOrder.AscendingOrder else " ↓"

    def _fill(self) -> None:
        rows = [
            Row(gpu, {phase: found[gpu.id] for phase, found in self._answers.items() if gpu.id in found})
            for gpu in self._gpus
        ]
        known = [(self._value(row), row) for row in rows]
        falling = self.order == Qt.SortOrder.DescendingOrder
        first = sorted((item for item in known if item[0] is not None), key=lambda item: item[0], reverse=falling)
        self.rows = tuple(row for _, row in (*first, *(item for item in known if item[0] is None)))

    def _value(self, row: Row) -> Any:
        """What a row is sorted by; None stands last."""
        column = self.sorted_by
        if column == GPU:
            return row.gpu.title.casefold()
        if column == USABLE:
            return self._catalogue.resolve(row.gpu.id).capacities.usable_bytes
        if len(row.answers) < len(self.phases) and column >= self.whole:
            return None
        return (row.total_bytes if column == self.bought else self._count(row, column)) or None

    def _count(self, row: Row, column: int) -> int | None:
        """GPUs that one phase or all need; 0 where none helps, None where that is not known yet."""
        phase = self.phase_at(column)
        if phase is None:
            return (row.gpus or 0) if len(row.answers) == len(self.phases) > 0 else None
        answer = row.answers.get(phase)
        return None if answer is None else 0 if answer.best is None else answer.best.gpus

    def _text(self, row: Row, column: int) -> str:
        if column == GPU:
            return row.gpu.title
        usable = self._catalogue.resolve(row.gpu.id).capacities.usable_bytes
        if column == USABLE:
            return "unknown" if usable is None else format_size(usable, self._unit)
        phase = self.phase_at(column)
        if phase is not None:
            return pill_text(row.answers.get(phase), known=usable is not None)
        count = self._count(row, self.whole)
        if count is None:
            return NOT_YET
        if column == self.whole:
            return str(count) if count else "no"
        return format_size(row.total_bytes, self._unit, digits=0) if row.total_bytes else "–"

    def _alignment(self, column: int) -> Qt.AlignmentFlag:
        if column == GPU:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if USABLE < column < self.bought:
            return Qt.AlignmentFlag.AlignCenter
        return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
