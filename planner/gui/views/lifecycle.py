"""The lifecycle view: one stacked bar per phase against the capacities of the chosen GPUs.

The first picture comes from the painter of exports, so that it is there before pyqtgraph is loaded, which takes longer
than everything else at the start. The plot, with tooltips, clicks and keys, then takes its place, in the same geometry.
"""

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QStackedLayout, QVBoxLayout, QWidget

from planner.chart.names import PHASE_NAMES
from planner.chart.spec import ChartSpec
from planner.chart.table import chart_description
from planner.engine.plan import PHASES, PhaseName
from planner.engine.term import Component
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.theme import Theme
from planner.gui.views.chart_state import chart_of
from planner.gui.views.painted_chart import CHART_NAME, PaintedChart
from planner.gui.views.screen_style import screen_style
from planner.gui.widgets.properties import plain_label

if TYPE_CHECKING:
    from planner.gui.views.lifecycle_plot import LifecyclePlot

_PLOT_DELAY_MS = 30
"""What is on screen first may be used before the import of pyqtgraph stops everything for a moment."""


class LifecycleView(QFrame):
    """The card with the chart, and a notice above it while something is wrong."""

    first_painted = Signal()

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self.setProperty("card", True)
        self.setMinimumSize(420, 260)
        self._session = session
        self._theme = theme
        self.spec: ChartSpec | None = None
        self.plot: LifecyclePlot | None = None
        self._notice = plain_label()
        self._notice.setProperty("role", "notice")
        self._notice.setWordWrap(True)
        self._notice.setAccessibleName("Notice")
        self._notice.hide()
        self._picture = PaintedChart(theme)
        self._picture.painted.connect(self._on_first_painting, Qt.ConnectionType.SingleShotConnection)
        self._stack = QStackedLayout()
        self._stack.addWidget(self._picture)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(0)
        column.addWidget(self._notice)
        column.addLayout(self._stack)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        theme.changed.connect(lambda _tokens: self._restyle())
        self._show()

    def load_plot(self) -> "LifecyclePlot":
        """Put the pyqtgraph plot in place of the first picture; imported here because it takes long."""
        if self.plot is None:
            from planner.gui.views.lifecycle_plot import LifecyclePlot

            self.plot = LifecyclePlot(screen_style(self._theme.tokens))
            self.plot.setAccessibleName(CHART_NAME)
            self.plot.picked.connect(self._on_picked)
            self._stack.addWidget(self.plot)
            QWidget.setTabOrder(self._picture, self.plot)
            self._picture.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            self._stack.setCurrentWidget(self.plot)
            self._show()
        return self.plot

    def _on_first_painting(self) -> None:
        self.first_painted.emit()
        QTimer.singleShot(_PLOT_DELAY_MS, self.load_plot)

    def _show(self) -> None:
        state, view = self._session.state, self._session.view
        self._show_notice(state)
        spec = chart_of(state, view.unit)
        if spec != self.spec:
            self.spec = spec
            self.setAccessibleDescription(chart_description(spec) if spec else "")
        if self.plot is None:
            self._picture.spec = spec
            self._picture.update()
        else:
            self.plot.show_chart(spec)
            self.plot.select(view.phase, view.component)

    def _show_notice(self, state: State) -> None:
        text = notice(state)
        self._notice.setText(text)
        self._notice.setVisible(bool(text))

    def _restyle(self) -> None:
        if self.plot is not None:
            self.plot.set_style(screen_style(self._theme.tokens))
        self._picture.update()

    def _on_picked(self, phase: PhaseName, component: Component | None) -> None:
        self._session.look_at(phase=phase, component=component)


def notice(state: State) -> str:
    """Why the chart does not show all that was asked for; empty when it does."""
    if state.problem:
        return f"{state.problem} The chart shows the last valid figures." if state.plan else state.problem
    told = []
    for phase in PHASES:
        if phase in state.wrong_phases:
            shown = "shows its last valid figures" if phase in state.stale else "is left out"
            told.append(f"{PHASE_NAMES[phase]} {shown}: {state.first_error(phase)}")
    return "\n".join(told)
