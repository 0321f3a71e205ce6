"""The GPUs to compare: several, one of which judges."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from planner.gui.gpu_entries import GpuEntry, count_of, with_count
from planner.gui.icons import icon
from planner.gui.panels.gpu_row import GpuRow
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.widgets.properties import text_label

ROW_HEIGHT = 46
ROWS_SHOWN = 4


class GpuPanel(QFrame):
    add_wanted = Signal()
    servers_wanted = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setProperty("card", True)
        self._session = session
        self._rows: list[GpuRow] = []
        self._judges = QButtonGroup(self)
        add = QPushButton("&Add")
        add.setProperty("flat", True)
        add.setIcon(icon("plus"))
        add.setAccessibleName("Add GPUs")
        add.setToolTip("Choose GPUs to compare, or describe one of your own")
        add.clicked.connect(self.add_wanted)
        heading = QHBoxLayout()
        heading.addWidget(text_label("GPUS TO COMPARE", "heading"))
        heading.addStretch(1)
        servers = QPushButton("Ser&vers…")
        servers.setProperty("flat", True)
        servers.setAccessibleName("Servers")
        servers.setToolTip("How many servers there are, their memory, and how much of each GPU must stay free")
        servers.clicked.connect(self.servers_wanted)
        heading.addWidget(servers)
        heading.addWidget(add)
        self._list = QWidget()
        self._list.setProperty("surface", "panel")
        self._column = QVBoxLayout(self._list)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self._list)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 8)
        column.setSpacing(2)
        column.addLayout(heading)
        column.addWidget(self._scroll)
        session.state_changed.connect(self._on_state)
        session.view_changed.connect(lambda view, before: self._show() if view.unit != before.unit else None)
        self._show()

    def add(self, entry: GpuEntry) -> None:
        """Put one more GPU at the end of the list."""
        entries = (*self._session.state.scenario.hardware.gpus, entry)
        self._replace(entries, "Add GPU")

    def _on_state(self, state: State, before: State) -> None:
        if state.scenario.hardware != before.scenario.hardware or state.gpus is not before.gpus:
            self._show()

    def _show(self) -> None:
        state, unit = self._session.state, self._session.view.unit
        while len(self._rows) > len(state.gpus):
            row = self._rows.pop()
            self._judges.removeButton(row.judge)
            self._column.removeWidget(row)
            row.setParent(None)
            row.deleteLater()
        while len(self._rows) < len(state.gpus):
            self._add_row(len(self._rows))
        for row, gpu in zip(self._rows, state.gpus, strict=True):
            row.show_gpu(gpu, gpu.id == state.judge, len(state.gpus) > 1, unit)
        self._scroll.setFixedHeight(ROW_HEIGHT * min(max(len(self._rows), 1), ROWS_SHOWN))

    def _add_row(self, index: int) -> None:
        row = GpuRow()
        row.judged.connect(lambda: self._judge(index))
        row.counted.connect(lambda count: self._count(index, count))
        row.removed.connect(lambda: self._remove(index))
        self._judges.addButton(row.judge)
        self._rows.append(row)
        self._column.addWidget(row)

    def _judge(self, index: int) -> None:
        gpu = self._session.state.gpus[index]
        self._session.edit(("hardware", "judge"), gpu.id)

    def _count(self, index: int, count: int | None) -> None:
        entries = list(self._session.state.scenario.hardware.gpus)
        if count_of(entries[index]) != count:
            entries[index] = with_count(entries[index], count)
            self._replace(tuple(entries), "Set number of GPUs", f"gpu-count-{index}")

    def _remove(self, index: int) -> None:
        state = self._session.state
        entries = state.scenario.hardware.gpus
        hardware = {"gpus": (*entries[:index], *entries[index + 1 :])}
        scenario = state.scenario
        if scenario.hardware.judge == state.gpus[index].id:
            scenario = scenario.with_value(("hardware", "judge"), None)
        scenario = scenario.with_value(("hardware", "gpus"), hardware["gpus"])
        self._session.replace(scenario, f"Remove {state.gpus[index].name}")

    def _replace(self, entries: tuple[GpuEntry, ...], text: str, key: str = "") -> None:
        scenario = self._session.state.scenario.with_value(("hardware", "gpus"), entries)
        self._session.replace(scenario, text, key)
