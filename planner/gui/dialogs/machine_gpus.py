"""The GPUs of this machine, offered as they are or with the memory that is free now; hidden where there are none."""

from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton

from planner.gui.gpu_entries import own_card
from planner.gui.tasks import Task
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.properties import text_label
from planner.hardware import Gpu
from planner.hardware.machine import LocalGpu, local_gpus
from planner.units import GIB, SizeUnit, format_size

MOST_SHOWN = 4


class MachineGpus(QFrame):
    """Asks the driver beside the window; `chosen` carries an entry for the scenario."""

    chosen = Signal(object)

    def __init__(self, gpus: Iterable[Gpu], unit: SizeUnit) -> None:
        super().__init__()
        self.setProperty("card", True)
        self._unit = unit
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 10, 12, 10)
        self._grid.setHorizontalSpacing(8)
        self._grid.addWidget(text_label("THIS MACHINE", "heading"), 0, 0, 1, 3)
        self._grid.setColumnStretch(0, 1)
        self.hide()
        known = tuple(gpus)
        self._task = Task(lambda _tell, _cancelled: local_gpus(known), self)
        self._task.done.connect(self._show)
        self._task.start()

    def _show(self, found: object) -> None:
        """One line for each; of equal cards that are free alike one is enough."""
        assert isinstance(found, tuple)
        for row, card in enumerate(found[:MOST_SHOWN], start=1):
            self._add_row(row, card)
        self.setVisible(bool(found))

    def _add_row(self, row: int, card: LocalGpu) -> None:
        free, usable = format_size(card.free_bytes, self._unit), format_size(card.usable_bytes, self._unit)
        text = ElidedLabel()
        text.setText(f"{card.index}: {card.name} · {free} of {usable} free now")
        whole = self._button("Add", f"Add {card.name}", row, 1)
        whole.clicked.connect(lambda: self.chosen.emit(card.id or self._own(card, card.usable_bytes, "")))
        now = self._button("Add what is free", f"Add what is free of {card.name}", row, 2)
        now.clicked.connect(lambda: self.chosen.emit(self._own(card, card.free_bytes, ", free now")))
        now.setEnabled(card.free_bytes >= GIB // 100)
        self._grid.addWidget(text, row, 0)

    def _button(self, text: str, name: str, row: int, column: int) -> QPushButton:
        button = QPushButton(text)
        button.setAutoDefault(False)
        button.setAccessibleName(name)
        self._grid.addWidget(button, row, column)
        return button

    @staticmethod
    def _own(card: LocalGpu, size: int, what: str) -> object:
        return own_card(f"{card.name}{what}", round(size / GIB, 2), 1)
