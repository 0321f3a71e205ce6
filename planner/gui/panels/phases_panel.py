"""The life of the model: which phases are planned, how each fares, and the form of the selected one."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from planner.chart.names import PHASE_NAMES
from planner.engine.plan import PHASES, PhaseName
from planner.gui.forms.form import Form
from planner.gui.session import Session
from planner.gui.state import State, ViewState
from planner.gui.theme import Theme
from planner.gui.verdicts import judged_text, verdict_colour
from planner.gui.widgets.flow_layout import FlowLayout
from planner.gui.widgets.phase_chip import PhaseChip
from planner.gui.widgets.properties import plain_label, text_label
from planner.scenario.phases import Phases

SHORT_TITLES: dict[PhaseName, str] = {
    "design": "Design",
    "preprocessing": "Preprocess",
    "training": "Train",
    "fine_tuning": "Fine-tune",
    "evaluation": "Evaluate",
    "serving": "Serve",
}


class PhasesPanel(QFrame):
    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self.setProperty("card", True)
        self._session = session
        self._theme = theme
        self._forms: dict[PhaseName, Form] = {}
        self._parts = {item.name: item.part for item in Phases.declarations()}
        self.chips = {phase: PhaseChip(SHORT_TITLES[phase], PHASE_NAMES[phase]) for phase in PHASES}
        self.off = plain_label()
        self.off.setProperty("role", "hint")
        self.off.setWordWrap(True)
        chips = QWidget()
        flow = FlowLayout(chips, spacing=3)
        for phase, chip in self.chips.items():
            flow.addWidget(chip)
            chip.selected.connect(lambda phase=phase: session.look_at(phase=phase, component=None))
            chip.switched.connect(lambda on, phase=phase: self._switch(phase, on))
        inside = QWidget()
        inside.setProperty("surface", "panel")
        self._column = QVBoxLayout(inside)
        self._column.setContentsMargins(0, 0, 2, 0)
        self._column.addWidget(self.off)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(inside)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 6, 6)
        column.setSpacing(6)
        column.addWidget(text_label("LIFECYCLE PHASES", "heading"))
        column.addWidget(chips)
        column.addWidget(scroll, 1)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(self._on_view)
        theme.changed.connect(lambda _tokens: self._show_chips(session.state))
        self._show()

    def form(self, phase: PhaseName) -> Form:
        """The form of a phase, built when it is first shown."""
        if phase not in self._forms:
            part = self._parts[phase]
            assert part is not None
            form = Form(part, ("phases", phase), self._session, f"{PHASE_NAMES[phase]}: ")
            self._forms[phase] = form
            self._column.addWidget(form)
        return self._forms[phase]

    def _switch(self, phase: PhaseName, on: bool) -> None:
        self._session.switch_phase(phase, on)
        self._session.look_at(phase=phase, component=None)

    def _on_view(self, view: ViewState, before: ViewState) -> None:
        if view.phase != before.phase:
            self._show()

    def _show(self) -> None:
        state, current = self._session.state, self._session.view.phase
        self._show_chips(state)
        on = getattr(state.scenario.phases, current) is not None
        self.off.setVisible(not on)
        if not on:
            self.off.setText(f"{PHASE_NAMES[current]} is not planned. Tick its box to plan it.")
        else:
            self.form(current).refresh(state)
        for phase, form in self._forms.items():
            form.setVisible(on and phase == current)

    def _show_chips(self, state: State) -> None:
        for phase, chip in self.chips.items():
            on = getattr(state.scenario.phases, phase) is not None
            colour = verdict_colour(state, phase, self._theme.tokens)
            chip.show_state(on, phase == self._session.view.phase, colour, judged_text(state, phase))
