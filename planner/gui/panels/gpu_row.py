"""One GPU of the list: whether it judges, its name and usable memory, how many of it, and a button to remove it."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QToolButton, QWidget

from planner.gui.icons import icon
from planner.gui.widgets.elided_label import ElidedLabel, ElidedRadioButton
from planner.gui.widgets.number_box import NumberBox
from planner.units import SizeUnit, format_size

if TYPE_CHECKING:
    from planner.hardware import ChosenGpu

_BASIS = {"unverified": "not verified", "fallback": "estimated", "custom": "as entered", "unknown": "not known"}


class GpuRow(QWidget):
    judged = Signal()
    counted = Signal(object)
    removed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.judge = ElidedRadioButton("")
        self.judge.clicked.connect(lambda _checked: self.judged.emit())
        self._memory = ElidedLabel()
        self._memory.setProperty("role", "hint")
        self.count = NumberBox(minimum=1, maximum=1_000_000, step=1, nullable=True, empty_text="auto")
        self.count.setMinimumWidth(0)
        self.count.setFixedWidth(58)
        self.count.edited.connect(self.counted)
        self.remove = QToolButton()
        self.remove.setProperty("flat", True)
        self.remove.setIcon(icon("close"))
        self.remove.clicked.connect(lambda _checked: self.removed.emit())
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 1, 0, 3)
        grid.setHorizontalSpacing(5)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(0, 1)
        grid.addWidget(self.judge, 0, 0)
        grid.addWidget(QLabel("×"), 0, 1)
        grid.addWidget(self.count, 0, 2)
        grid.addWidget(self.remove, 0, 3)
        grid.addWidget(self._memory, 1, 0, 1, 4)
        self._memory.setContentsMargins(23, 0, 0, 0)

    def show_gpu(self, gpu: "ChosenGpu", judges: bool, removable: bool, unit: SizeUnit) -> None:
        capacity = gpu.capacities
        size = "unknown size" if capacity.usable_bytes is None else f"{format_size(capacity.usable_bytes, unit)} usable"
        basis = _BASIS.get(capacity.usable_basis, "")
        self.judge.set_full_text(short_name(gpu))
        self.judge.setChecked(judges)
        self.judge.setAccessibleName(f"Judge by {gpu.name}")
        self.judge.setAccessibleDescription(f"{size}. Verdicts in the chart are against the GPU that judges.")
        self._memory.setText(" · ".join(part for part in ("judge" if judges else "", size, basis) if part))
        self._memory.setToolTip(capacity.note or "")
        self.count.set_value(gpu.count)
        self.count.setAccessibleName(f"Number of {gpu.name}")
        self.count.setToolTip(f"How many {gpu.name} there are. Empty: as many as the node has.")
        self.remove.setEnabled(removable)
        self.remove.setAccessibleName(f"Remove {gpu.name}")
        self.remove.setToolTip(f"Remove {gpu.name}")


def short_name(gpu: "ChosenGpu") -> str:
    """The name without its vendor, which the list has no room for."""
    return gpu.name.removeprefix(f"{gpu.gpu.vendor} ") if gpu.gpu else gpu.name
