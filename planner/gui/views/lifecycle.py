"""The lifecycle view: one stacked bar per phase against the capacities of the chosen GPUs."""

from planner.chart.names import PHASE_NAMES
from planner.engine.plan import PHASES
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.theme import Theme
from planner.gui.views.chart_card import ChartCard
from planner.gui.views.chart_state import chart_of
from planner.gui.views.painted_chart import CHART_NAME


class LifecycleView(ChartCard):
    """The card with the chart, and a notice above it while something is wrong."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__(session, theme, chart_of, "vram", CHART_NAME)

    def notice(self, state: State) -> str:
        return notice(state)


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
