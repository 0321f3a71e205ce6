"""From the session's state to what the lifecycle chart shows."""

from planner.chart.build import lifecycle_chart
from planner.chart.captions import phase_captions
from planner.chart.labels import Sizes
from planner.chart.paint.style import ChartStyle
from planner.chart.palette import DARK, LIGHT
from planner.chart.spec import ChartSpec
from planner.gui.state import State
from planner.gui.tokens import Tokens
from planner.units import SizeUnit

SCREEN_SIZES = Sizes(
    title=14, subtitle=12, legend=12, tick=11, phase=12, total=12, chip=11, note=11, capacity=11, footnote=11
)


def chart_of(state: State, unit: SizeUnit) -> ChartSpec | None:
    """The chart of a state; None while there is no plan at all."""
    if state.plan is None:
        return None
    captions = {**phase_captions(state.scenario.phases), **dict.fromkeys(state.stale, "last valid")}
    return lifecycle_chart(state.plan, gpus=state.gpus, judge=state.judge, captions=captions, unit=unit)


def screen_style(tokens: Tokens) -> ChartStyle:
    """The chart in the theme's palette, on the card's own background."""
    return ChartStyle(palette=DARK if tokens.dark else LIGHT, transparent=True, sizes=SCREEN_SIZES)
