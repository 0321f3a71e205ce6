"""Which GPU types of the catalogue the fleet shows."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QWidget

from planner.gui.dialogs.gpu_dialog import MEMORY_STEPS_GB
from planner.gui.forms.editors import QuietComboBox
from planner.gui.icons import icon
from planner.hardware import Gpu, HardwareCatalog
from planner.hardware.gpus import SEGMENTS

_YEARS_BACK = 8
_KINDS = {
    "data-centre": "Data centre",
    "workstation": "Workstation",
    "consumer": "Consumer",
    "laptop": "Laptop",
    "unified": "Unified memory",
    "embedded": "Embedded",
    "cloud": "Cloud only",
}


class FleetFilter(QWidget):
    """Words, vendor, memory, kind of card and year; everything that is left at its first entry lets all through."""

    changed = Signal()

    def __init__(self, catalogue: HardwareCatalog) -> None:
        super().__init__()
        self._catalogue = catalogue
        newest = max(gpu.release_year for gpu in catalogue.gpus.values())
        self._years = tuple(range(newest, newest - _YEARS_BACK, -1))
        self.search = QLineEdit()
        self.search.setAccessibleName("Search the fleet")
        self.search.setPlaceholderText("Name or id")
        self.search.setMinimumWidth(116)
        self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self.changed)
        self.vendor = self._combo("Fleet vendor", ("All vendors", *catalogue.vendors), 7)
        self.memory = self._combo("Fleet memory", ("Any memory", *(f"≥ {size} GB" for size in MEMORY_STEPS_GB)), 7)
        self.kind = self._combo("Fleet kind", ("All kinds", *(_KINDS[segment] for segment in SEGMENTS)), 7)
        self.year = self._combo("Fleet release", ("Any year", *(f"since {year}" for year in self._years)), 7)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self.search, 1)
        for combo in (self.vendor, self.memory, self.kind, self.year):
            row.addWidget(combo)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """What passes, best match first."""
        vendor = self.vendor.currentText() if self.vendor.currentIndex() > 0 else None
        memory = MEMORY_STEPS_GB[self.memory.currentIndex() - 1] if self.memory.currentIndex() > 0 else None
        kind = SEGMENTS[self.kind.currentIndex() - 1] if self.kind.currentIndex() > 0 else None
        since = self._years[self.year.currentIndex() - 1] if self.year.currentIndex() > 0 else 0
        found = self._catalogue.search(self.search.text(), vendor, memory)
        return tuple(gpu for gpu in found if kind in (None, gpu.segment) and gpu.release_year >= since)

    def _combo(self, name: str, texts: tuple[str, ...], characters: int) -> QComboBox:
        combo = QuietComboBox()
        combo.setAccessibleName(name)
        combo.addItems(list(texts))
        combo.setMinimumContentsLength(characters)
        longest = max(combo.fontMetrics().horizontalAdvance(text) for text in texts)
        combo.view().setMinimumWidth(longest + 48)
        combo.currentIndexChanged.connect(self.changed)
        return combo
