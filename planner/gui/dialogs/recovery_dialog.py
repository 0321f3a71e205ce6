"""Plans of a session that ended unexpectedly: to be opened again, or thrown away."""

from collections.abc import Sequence

from PySide6.QtCore import QDateTime, QLocale, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QListWidget, QVBoxLayout, QWidget

from planner.gui.journal import Lost
from planner.gui.widgets.properties import text_label


class RecoveryDialog(QDialog):
    recovered = Signal(object)
    """The `Lost` plan to open."""
    discarded = Signal(object)
    """The `Lost` plan to throw away."""

    def __init__(self, lost: Sequence[Lost], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Recover plans")
        self.setMinimumWidth(520)
        self._lost = list(lost)
        what = "A plan was" if len(lost) == 1 else f"{len(lost)} plans were"
        told = f"{what} edited and not saved when VRAM Planner ended unexpectedly. Open it again?"
        self.list = QListWidget()
        self.list.setAccessibleName("Plans that were not saved")
        for plan in self._lost:
            self.list.addItem(_line(plan))
        self.list.setCurrentRow(0)
        buttons = QDialogButtonBox()
        self.open_plan = buttons.addButton("&Open", QDialogButtonBox.ButtonRole.AcceptRole)
        self.discard = buttons.addButton("&Discard", QDialogButtonBox.ButtonRole.DestructiveRole)
        self.later = buttons.addButton("&Later", QDialogButtonBox.ButtonRole.RejectRole)
        self.later.setToolTip("Ask again at the next start")
        self.open_plan.setDefault(True)
        self.open_plan.clicked.connect(self._recover)
        self.discard.clicked.connect(self._discard)
        self.later.clicked.connect(self.reject)
        self.list.itemDoubleClicked.connect(lambda _item: self._recover())
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(10)
        column.addWidget(
            text_label(told if len(lost) == 1 else told.replace("Open it", "Open one"), "label", wrap=True)
        )
        column.addWidget(self.list)
        column.addWidget(buttons)

    def _recover(self) -> None:
        self.recovered.emit(self._lost[self.list.currentRow()])
        self.accept()

    def _discard(self) -> None:
        row = self.list.currentRow()
        self.discarded.emit(self._lost.pop(row))
        self.list.takeItem(row)
        if not self._lost:
            self.accept()


def _line(plan: Lost) -> str:
    """`Llama on four L40S · plan.vramplan · 12/1/26 1:20 PM`"""
    name = plan.scenario.name or (plan.path.stem if plan.path else "Untitled")
    moment = QDateTime.fromSecsSinceEpoch(int(plan.edited_at.timestamp()))
    when = QLocale().toString(moment, QLocale.FormatType.ShortFormat)
    return " · ".join(part for part in (name, plan.path.name if plan.path else "", when) if part)
