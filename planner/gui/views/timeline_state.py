"""From the session's state to what the view of a step shows."""

from dataclasses import replace

from planner.chart.names import PHASE_NAMES, ROLE_NAMES
from planner.chart.spec import ChartSpec
from planner.chart.timeline import timeline_chart
from planner.engine.plan import PHASES, PhaseName
from planner.gui.state import State, ViewState
from planner.gui.views.chart_state import subtitle_of

Place = tuple[PhaseName, str]
"""A phase, and the role whose own GPUs are meant, or an empty text."""


def timeline_of(state: State, view: ViewState) -> ChartSpec | None:
    """The chart of the phase that is looked at; None where it has none."""
    if state.plan is None:
        return None
    chart = timeline_chart(state.plan, view.phase, gpus=state.gpus, judge=state.judge, group=view.group, unit=view.unit)
    if chart is None:
        return None
    last_valid = " · last valid figures" if view.phase in state.stale else ""
    return replace(chart, subtitle=subtitle_of(state, chart.judge) + last_valid)


def places_of(state: State) -> dict[Place, str]:
    """Every phase that is planned and needs VRAM, and the roles with GPUs of their own, by what they are called."""
    found: dict[Place, str] = {}
    for phase in PHASES:
        plan = state.plan.phases.get(phase) if state.plan else None
        if plan is not None and plan.peak.process_bytes:
            found[phase, ""] = PHASE_NAMES[phase]
        for role in plan.groups if plan is not None else ():
            found[phase, role] = f"{PHASE_NAMES[phase]} · {ROLE_NAMES[role]}"
    return found
