"""The view of one phase's step: memory over its moments against the GPUs, with the figures as a table."""

from typing import Any

from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QVBoxLayout

from planner.chart.names import PHASE_NAMES
from planner.chart.spec import ChartSpec
from planner.gui.session import Session
from planner.gui.state import State, ViewState
from planner.gui.theme import Theme
from planner.gui.views.chart_card import ChartCard
from planner.gui.views.lifecycle import notice
from planner.gui.views.moment_table import MomentTable
from planner.gui.views.page_view import PageView
from planner.gui.views.table import FigureView
from planner.gui.views.timeline_state import places_of, timeline_of
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.properties import text_label

CHART_NAME = "Step timeline chart"
_HINT = "Click a band for its formulas at that moment"


class StepCard(ChartCard):
    """The chart; what is looked at says of which phase."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__(session, theme, lambda state, _unit: timeline_of(state, session.view), "vram", CHART_NAME)

    def notice(self, state: State) -> str:
        phase = self._session.view.phase
        told = notice(state)
        if state.plan is not None and timeline_of(state, self._session.view) is None and not told:
            planned = phase in state.plan.phases
            return f"{PHASE_NAMES[phase]} {'needs no VRAM' if planned else 'is not planned'}: choose another phase."
        return told

    def key_of(self, view: ViewState) -> str | None:
        return view.moment or None

    def looks_at(self, key: str) -> dict[str, Any]:
        view = self._session.view
        return {"phase": view.phase, "group": view.group, "moment": key}


class TimelineView(PageView):
    """The choice of a phase, its chart, and the table below."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self.card = StepCard(session, theme)
        self.table = FigureView(
            session,
            theme,
            MomentTable(session),
            lambda _state, _unit: self.charts,
            "Figures of each moment",
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addWidget(self._phase_bar())
        column.addWidget(self.card, 1)
        column.addWidget(self.table)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        self._show()

    @property
    def charts(self) -> tuple[ChartSpec, ...]:
        return (self.card.spec,) if self.card.spec else ()

    def _phase_bar(self) -> QFrame:
        bar = QFrame()
        bar.setProperty("card", True)
        self.phase = QComboBox()
        self.phase.setAccessibleName("Phase of the timeline")
        self.phase.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.phase.activated.connect(self._on_phase)
        caption = text_label("Phase", "label")
        caption.setBuddy(self.phase)
        hint = ElidedLabel()
        hint.setProperty("role", "hint")
        hint.setText(_HINT)
        row = QHBoxLayout(bar)
        row.setContentsMargins(12, 7, 8, 7)
        row.setSpacing(8)
        row.addWidget(caption)
        row.addWidget(self.phase)
        row.addWidget(hint, 1)
        return bar

    def _show(self) -> None:
        places = places_of(self._session.state)
        names = [self.phase.itemText(index) for index in range(self.phase.count())]
        if names != list(places.values()):
            self.phase.clear()
            for place, name in places.items():
                self.phase.addItem(name, place)
        view = self._session.view
        looked_at = (view.phase, view.group)
        self.phase.setCurrentIndex(list(places).index(looked_at) if looked_at in places else -1)
        self.phase.setPlaceholderText(PHASE_NAMES[view.phase])

    def _on_phase(self, index: int) -> None:
        phase, group = self.phase.itemData(index)
        self._session.look_at(phase=phase, group=group, component=None)
