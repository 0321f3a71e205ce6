"""A GPU that is not in the catalogue: a name, the memory software can use, and how many."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QLineEdit, QPushButton

from planner.gui.gpu_entries import own_card
from planner.gui.widgets.number_box import NumberBox
from planner.gui.widgets.properties import text_label
from planner.scenario import ScenarioError, issue_text


class OwnCard(QFrame):
    """Any size; `chosen` carries the entry for the scenario."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("card", True)
        self.name = QLineEdit("My GPU")
        self.name.setAccessibleName("Name of the card")
        self.memory = NumberBox(whole=False, minimum=0.01, maximum=1_000_000, step=1, unit="GiB")
        self.memory.setAccessibleName("Memory of the card")
        self.memory.setToolTip("Memory that software can use, as torch.cuda.mem_get_info reports it")
        self.memory.set_value(24.0)
        self.count = NumberBox(minimum=1, maximum=1_000_000, step=1, unit="cards")
        self.count.setAccessibleName("Number of cards")
        self.count.set_value(1)
        self.add = QPushButton("Add &own card")
        self.add.setAutoDefault(False)
        self.add.clicked.connect(self._add)
        self.message = text_label("", "error", wrap=True)
        self.message.hide()
        grid = QGridLayout(self)
        grid.setContentsMargins(12, 10, 12, 10)
        grid.setHorizontalSpacing(8)
        grid.addWidget(text_label("A CARD OF YOUR OWN", "heading"), 0, 0, 1, 4)
        for column, (label, widget) in enumerate(
            (("&Name", self.name), ("&Memory", self.memory), ("N&umber", self.count))
        ):
            caption = QLabel(label)
            caption.setProperty("role", "hint")
            caption.setBuddy(widget)
            grid.addWidget(caption, 1, column)
            grid.addWidget(widget, 2, column)
        grid.addWidget(self.add, 2, 3)
        grid.addWidget(self.message, 3, 0, 1, 4)
        grid.setColumnStretch(0, 2)
        grid.setColumnStretch(1, 1)
        grid.setColumnStretch(2, 1)

    def _add(self) -> None:
        try:
            entry = own_card(self.name.text().strip(), float(self.memory.value() or 0), int(self.count.value() or 1))
        except ScenarioError as error:
            self.message.setText(" ".join(issue_text(issue) for issue in error.issues) or error.message)
            self.message.show()
            return
        self.message.hide()
        self.chosen.emit(entry)
