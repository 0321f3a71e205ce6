"""From the session's state to what the lifecycle chart shows."""

from planner.chart.build import lifecycle_chart
from planner.chart.captions import phase_captions
from planner.chart.spec import ChartSpec
from planner.gui.state import State
from planner.units import SizeUnit


def chart_of(state: State, unit: SizeUnit) -> ChartSpec | None:
    """The chart of a state; None while there is no plan at all."""
    if state.plan is None:
        return None
    captions = {**phase_captions(state.scenario.phases), **dict.fromkeys(state.stale, "last valid")}
    return lifecycle_chart(state.plan, gpus=state.gpus, judge=state.judge, captions=captions, unit=unit)
