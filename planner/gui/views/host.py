"""The view of what stands around the GPUs: RAM of a server and storage of the job, by phase, with their figures."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from planner.chart.host import room_of_plan
from planner.chart.spec import ChartSpec
from planner.gui.server_words import chosen_server, room_text, server_choices
from planner.gui.session import Session
from planner.gui.theme import Theme
from planner.gui.views.chart_card import ChartCard
from planner.gui.views.host_state import host_charts_of, host_ram_of, storage_of
from planner.gui.views.host_table import HostTable
from planner.gui.views.page_view import PageView
from planner.gui.views.table import FigureView
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.properties import text_label
from planner.gui.widgets.search_popup import PickerButton

CHART_WIDTH, CHART_HEIGHT = 520, 320
"""The least that a chart here is given: seven columns keep their words. What does not fit the window is scrolled to."""
_AROUND = 8
NOTHING_STATED = "No RAM stated: bars without a verdict"


class FollowingScrollArea(QScrollArea):
    """Brings the whole of a part into sight that the Tab key goes to, where Qt is content with a part of it."""

    def focusNextPrevChild(self, forward: bool) -> bool:
        moved = super().focusNextPrevChild(forward)
        inside, part = self.widget(), self.focusWidget()
        if moved and inside is not None and part is not None and inside.isAncestorOf(part):
            top = part.mapTo(inside, QPoint(0, 0)).y()
            for y in (top + part.height(), top):
                self.ensureVisible(0, y, 0, _AROUND)
        return moved


class HostView(PageView):
    """Two charts and a table below each other, under the choice of the server that judges."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self.ram = ChartCard(session, theme, host_ram_of, "host_ram", "Host RAM chart")
        self.storage = ChartCard(session, theme, storage_of, "storage", "Storage chart")
        self.table = FigureView(session, theme, HostTable(), host_charts_of, "Host RAM and storage")
        inside = QWidget()
        inside.setProperty("surface", "window")
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        for card in (self.ram, self.storage):
            card.setMinimumSize(CHART_WIDTH, CHART_HEIGHT)
            column.addWidget(card, 1)
        column.addWidget(self.table)
        scroll = FollowingScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inside)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(10)
        whole.addWidget(self._server_bar())
        whole.addWidget(scroll, 1)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        self._show()

    @property
    def charts(self) -> tuple[ChartSpec, ...]:
        return tuple(card.spec for card in (self.ram, self.storage) if card.spec is not None)

    def _server_bar(self) -> QFrame:
        """Which server judges, and what it offers."""
        bar = QFrame()
        bar.setProperty("card", True)
        self.server = PickerButton("Server that judges", lambda: server_choices(self._session.catalog))
        self.server.setMinimumWidth(110)
        self.server.chosen.connect(lambda key: self._session.edit(("hardware", "node"), key or None))
        caption = text_label("Server", "label")
        caption.setBuddy(self.server)
        self.offer = ElidedLabel()
        self.offer.setProperty("role", "hint")
        self.more = QPushButton("Edit…")
        self.more.setAccessibleName("Edit RAM and disks of the server")
        self.more.setToolTip("State the memory and disks of your own servers, and how many there are")
        self.more.clicked.connect(lambda: self.wanted.emit("servers"))
        row = QHBoxLayout(bar)
        row.setContentsMargins(12, 7, 8, 7)
        row.setSpacing(8)
        row.addWidget(caption)
        row.addWidget(self.server, 3)
        row.addWidget(self.offer, 4)
        row.addWidget(self.more)
        return bar

    def _show(self) -> None:
        state, unit = self._session.state, self._session.view.unit
        self.server.show_choice(*chosen_server(state, self._session.catalog))
        room = room_of_plan(state.plan) if state.plan else None
        self.offer.setText(room_text(room, state.scenario.hardware, unit) if room and room.name else NOTHING_STATED)
        self.offer.setToolTip("RAM of each server, and disks of all of them")
