"""The line at the bottom: where the plan's peak lies, how sure it is, and when it was saved."""

from PySide6.QtWidgets import QStatusBar

from planner.chart.moments import moment_text
from planner.chart.names import PHASE_NAMES
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.widgets.properties import plain_label
from planner.gui.words import band_text


class StatusLine(QStatusBar):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.setSizeGripEnabled(False)
        self.peak = plain_label()
        self.peak.setAccessibleName("Peak")
        self.band = plain_label()
        self.band.setAccessibleName("Uncertainty")
        self.saved = plain_label()
        self.saved.setAccessibleName("Saved")
        self.addWidget(self.peak)
        self.addWidget(self.band)
        self.addPermanentWidget(self.saved)
        session.state_changed.connect(lambda state, _before: self._show(state))
        session.document_changed.connect(self._show_saved)
        self._show(session.state)
        self._show_saved()

    def _show(self, state: State) -> None:
        phases = state.plan.phases if state.plan else {}
        fullest = max(phases, key=lambda name: phases[name].peak.process_bytes, default=None)
        if fullest is None or not phases[fullest].peak.process_bytes:
            self.peak.setText("")
            self.band.setText("")
            return
        plan = phases[fullest]
        moment = plan.moments.get(plan.peak.moment)
        where = moment_text(plan.peak.moment, moment.instant if moment else "")
        self.peak.setText(f"Peak: {PHASE_NAMES[fullest].lower()}, {where}")
        self.band.setText(band_text(plan))

    def _show_saved(self) -> None:
        if self._session.dirty:
            self.saved.setText("Unsaved changes")
        elif self._session.saved_at:
            self.saved.setText(f"Saved {self._session.saved_at:%H:%M}")
        else:
            self.saved.setText("Opened" if self._session.path else "")
