"""From the session's state to what the lifecycle chart shows."""

from dataclasses import replace

from planner.chart.build import lifecycle_chart
from planner.chart.captions import phase_captions
from planner.chart.spec import CapacityLine, ChartSpec
from planner.engine.plan import PhaseName
from planner.gui.state import State
from planner.units import SizeUnit


def chart_of(state: State, unit: SizeUnit) -> ChartSpec | None:
    """The chart of a state; None while there is no plan at all."""
    if state.plan is None:
        return None
    chart = lifecycle_chart(state.plan, gpus=state.gpus, judge=state.judge, captions=captions_of(state), unit=unit)
    return replace(chart, subtitle=subtitle_of(state, chart.judge))


def charts_of(state: State, unit: SizeUnit) -> tuple[ChartSpec, ...]:
    """The chart where there is one, as a table copies it."""
    chart = chart_of(state, unit)
    return () if chart is None else (chart,)


def captions_of(state: State) -> dict[PhaseName, str]:
    """The second lines under bars: what of a phase's workload, or that its figures are not of now."""
    return {**phase_captions(state.scenario.phases), **dict.fromkeys(state.stale, "last valid")}


def model_of(state: State) -> str:
    """The model's name without its owner."""
    return state.spec.name.rpartition("/")[2] if state.spec else ""


def subtitle_of(state: State, judge: CapacityLine | None) -> str:
    """`Llama-3.1-8B · judged against L40S (44.4 GiB usable)`: the model, whatever the plan is called."""
    judged = f"judged against {judge.name} ({judge.size_label} usable)" if judge else ""
    return " · ".join(part for part in (model_of(state), judged) if part)
