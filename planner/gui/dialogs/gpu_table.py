"""The list of the GPU dialog: name, vendor, memory in two readings, and year."""

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from planner.hardware import Gpu, HardwareCatalog
from planner.units import SizeUnit, format_size

_COLUMNS = ("GPU", "Vendor", "Memory", "Usable", "Year")
_NO_PARENT = QModelIndex()


class GpuTable(QAbstractTableModel):
    widths = ((1, 84), (2, 76), (3, 96), (4, 58))

    def __init__(self, catalogue: HardwareCatalog, unit: SizeUnit, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._catalogue = catalogue
        self._unit = unit
        self.gpus: tuple[Gpu, ...] = ()

    def show_gpus(self, gpus: tuple[Gpu, ...]) -> None:
        if gpus != self.gpus:
            self.beginResetModel()
            self.gpus = gpus
            self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(self.gpus)

    def columnCount(self, parent: QModelIndex | QPersistentModelIndex = _NO_PARENT) -> int:
        return 0 if parent.isValid() else len(_COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        return _alignment(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        gpu, column = self.gpus[index.row()], index.column()
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(gpu, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            note = self._catalogue.resolve(gpu.id).capacities.note if column == 3 else gpu.note
            return note or gpu.name
        return None

    def _text(self, gpu: Gpu, column: int) -> str:
        if column == 3:
            usable = self._catalogue.resolve(gpu.id).capacities.usable_bytes
            return "unknown" if usable is None else format_size(usable, self._unit)
        return (gpu.title, gpu.vendor, f"{gpu.memory.marketing_gb} GB", "", str(gpu.release_year))[column]


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column >= 2 else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter
