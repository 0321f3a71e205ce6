"""From the session's state to what the charts of host RAM and storage show."""

from planner.chart.host import host_ram_chart, storage_chart
from planner.chart.spec import ChartSpec
from planner.gui.state import State
from planner.gui.views.chart_state import captions_of, model_of
from planner.units import SizeUnit


def host_ram_of(state: State, unit: SizeUnit) -> ChartSpec | None:
    """The chart of host RAM."""
    if state.plan is None:
        return None
    return host_ram_chart(state.plan, heading=model_of(state), captions=captions_of(state), unit=unit)


def storage_of(state: State, unit: SizeUnit) -> ChartSpec | None:
    """The chart of storage."""
    if state.plan is None:
        return None
    return storage_chart(state.plan, heading=model_of(state), captions=captions_of(state), unit=unit)


def host_charts_of(state: State, unit: SizeUnit) -> tuple[ChartSpec, ...]:
    """Both charts; none while there is no plan at all."""
    return tuple(chart for chart in (host_ram_of(state, unit), storage_of(state, unit)) if chart is not None)
