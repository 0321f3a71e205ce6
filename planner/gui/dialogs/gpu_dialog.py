"""Choosing GPUs: search, vendor and memory filters, MIG slices, and a card of one's own."""

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from planner.gui.dialogs.gpu_table import GpuTable
from planner.gui.dialogs.machine_gpus import MachineGpus
from planner.gui.dialogs.own_card import OwnCard
from planner.gui.forms.editors import QuietComboBox
from planner.gui.icons import icon
from planner.gui.widgets.properties import text_label
from planner.hardware import Gpu, HardwareCatalog
from planner.units import SizeUnit

MEMORY_STEPS_GB = (8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256)
WHOLE = "Whole GPU"


class GpuDialog(QDialog):
    """Stays open while GPUs are added; `chosen` carries an entry for the scenario."""

    chosen = Signal(object)

    def __init__(self, catalogue: HardwareCatalog, unit: SizeUnit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Add GPUs")
        self.resize(760, 600)
        self._catalogue = catalogue
        self.table = GpuTable(catalogue, unit, self)
        self.search = QLineEdit()
        self.search.setAccessibleName("Search GPUs")
        self.search.setPlaceholderText("Search by name, architecture or id")
        self.search.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.search.setClearButtonEnabled(True)
        self.vendor = self._combo("Vendor", ("All vendors", *catalogue.vendors))
        self.memory = self._combo("Memory", ("Any memory", *(f"≥ {size} GB" for size in MEMORY_STEPS_GB)))
        self.view = self._table_view()
        self.part = self._combo("Part of the GPU", (WHOLE,))
        self.part.setToolTip("A slice of the GPU (MIG), or the memory size of a machine with unified memory")
        self.added = text_label("", "hint", wrap=True)
        self.added.setAccessibleName("Added")
        self.add = QPushButton("&Add to comparison")
        self.add.setDefault(True)
        self.own_card = OwnCard()
        self.machine = MachineGpus(catalogue.gpus.values(), unit)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        self._lay_out(buttons)
        self.search.textChanged.connect(self._filter)
        self.vendor.currentIndexChanged.connect(self._filter)
        self.memory.currentIndexChanged.connect(self._filter)
        self.view.selectionModel().currentChanged.connect(self._on_current)
        self.view.doubleClicked.connect(self._add)
        self.add.clicked.connect(self._add)
        self.own_card.chosen.connect(self._take)
        self.machine.chosen.connect(self._take)
        self._filter()

    def _lay_out(self, buttons: QDialogButtonBox) -> None:
        grid = QGridLayout()
        grid.setSpacing(8)
        grid.addWidget(self.search, 0, 0)
        grid.addWidget(self.vendor, 0, 1)
        grid.addWidget(self.memory, 0, 2)
        grid.setColumnStretch(0, 1)
        pick = QGridLayout()
        pick.setSpacing(8)
        pick.addWidget(self.added, 0, 0)
        pick.addWidget(QLabel("Part"), 0, 1)
        pick.addWidget(self.part, 0, 2)
        pick.addWidget(self.add, 0, 3)
        pick.setColumnStretch(0, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(10)
        column.addLayout(grid)
        column.addWidget(self.view, 1)
        column.addLayout(pick)
        column.addWidget(self.machine)
        column.addWidget(self.own_card)
        column.addWidget(buttons)

    def _filter(self) -> None:
        vendor = self.vendor.currentText() if self.vendor.currentIndex() > 0 else None
        memory = MEMORY_STEPS_GB[self.memory.currentIndex() - 1] if self.memory.currentIndex() > 0 else None
        self.table.show_gpus(self._catalogue.search(self.search.text(), vendor, memory))
        found = self.table.rowCount() > 0
        self.view.setCurrentIndex(self.table.index(0, 0) if found else QModelIndex())
        self.added.setText(
            "" if found else "No GPU like this in the catalogue. Describe it below as a card of your own."
        )
        self._on_current()

    def _on_current(self) -> None:
        gpu = self._current()
        self.part.clear()
        self.part.addItem(WHOLE)
        if gpu is not None:
            self.part.addItems(list(gpu.variants))
        self.part.setEnabled(self.part.count() > 1)
        self.add.setEnabled(gpu is not None)

    def _current(self) -> Gpu | None:
        row = self.view.currentIndex().row()
        return self.table.gpus[row] if 0 <= row < len(self.table.gpus) else None

    def _add(self) -> None:
        gpu = self._current()
        if gpu is not None:
            part = self.part.currentText()
            self._take(gpu.id if self.part.currentIndex() <= 0 else f"{gpu.id}/{part}")

    def _take(self, entry: object) -> None:
        self.chosen.emit(entry)
        name = self._catalogue.resolve(entry).name if isinstance(entry, str) else getattr(entry, "name", "")
        self.added.setText(f"Added {name}.")

    def _combo(self, name: str, texts: tuple[str, ...]) -> QComboBox:
        combo = QuietComboBox()
        combo.setAccessibleName(name)
        combo.addItems(list(texts))
        combo.setMinimumContentsLength(11)
        return combo

    def _table_view(self) -> QTableView:
        view = QTableView()
        view.setModel(self.table)
        view.setAccessibleName("GPUs")
        view.setProperty("plain", True)
        view.setShowGrid(False)
        view.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        view.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        view.setTabKeyNavigation(False)
        view.verticalHeader().hide()
        view.verticalHeader().setDefaultSectionSize(27)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = view.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultSectionSize(92)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, width in self.table.widths:
            view.setColumnWidth(column, width)
        return view
