"""The servers around the GPUs: how many, how large, and what must stay free. Every change takes effect at once."""

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QVBoxLayout, QWidget

from planner.gui.forms.form import FieldGrid
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.widgets.choice_list import Choice
from planner.gui.widgets.properties import text_label
from planner.gui.widgets.search_popup import PickerButton
from planner.scenario.hardware import Hardware

FIELDS = ("gpus_per_node", "nodes", "headroom_percent", "host_ram_bytes", "nvme_bytes", "gpu_total_bytes")
NO_SERVER = "none of the catalogue"


class ServersDialog(QDialog):
    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Servers")
        self.setMinimumWidth(440)
        self._session = session
        self.server = PickerButton("Server", self._choices)
        self.server.chosen.connect(self._on_server)
        declared = {item.name: item for item in Hardware.declarations()}
        self._grid = FieldGrid([declared[name] for name in FIELDS], ("hardware",), session, "Hardware: ")
        caption = text_label(declared["node"].label, "label")
        caption.setBuddy(self.server)
        caption.setToolTip(declared["node"].help)
        picker = QGridLayout()
        picker.setHorizontalSpacing(8)
        picker.addWidget(caption, 0, 0)
        picker.addWidget(self.server, 0, 1)
        picker.setColumnStretch(0, 45)
        picker.setColumnStretch(1, 55)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(6)
        column.addLayout(picker)
        column.addWidget(self._grid)
        column.addStretch(1)
        column.addSpacing(8)
        column.addWidget(buttons)
        session.state_changed.connect(self._on_state)
        self._show()

    def _on_state(self, _state: State, _before: State) -> None:
        self._show()

    def _show(self) -> None:
        state = self._session.state
        node = state.scenario.hardware.node
        key = node if isinstance(node, str) else ""
        known = self._session.catalog.hardware.nodes.get(key)
        self.server.show_choice(key, known.name if known else (key or getattr(node, "name", NO_SERVER)))
        self._grid.refresh(state)

    def _choices(self) -> list[Choice]:
        nodes = self._session.catalog.hardware.nodes.values()
        return [
            Choice("", NO_SERVER),
            *(Choice(node.id, node.name, f"{node.gpu_count} × {node.gpu}", node.provider) for node in nodes),
        ]

    def _on_server(self, key: str) -> None:
        self._session.edit(("hardware", "node"), key or None)
