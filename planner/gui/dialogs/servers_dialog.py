"""The servers around the GPUs: how many, how large, and what must stay free. Every change takes effect at once."""

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QVBoxLayout, QWidget

from planner.gui.forms.form import FieldGrid
from planner.gui.server_words import chosen_server, server_choices
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.widgets.properties import text_label
from planner.gui.widgets.search_popup import PickerButton
from planner.scenario.hardware import Hardware

FIELDS = (
    "gpus_per_node",
    "nodes",
    "headroom_percent",
    "host_ram_bytes",
    "nvme_bytes",
    "shared_storage_bytes",
    "gpu_total_bytes",
    "network_gbit_per_s",
    "price_per_gpu_hour",
    "currency",
)


class ServersDialog(QDialog):
    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Servers")
        self.setMinimumWidth(440)
        self._session = session
        self.server = PickerButton("Server", lambda: server_choices(session.catalog))
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
        self.server.show_choice(*chosen_server(state, self._session.catalog))
        self._grid.refresh(state)

    def _on_server(self, key: str) -> None:
        self._session.edit(("hardware", "node"), key or None)
