"""Exploration → ChartSpec: what a phase needs over the values of one field, as a curve against the GPUs."""

from collections.abc import Sequence
from dataclasses import replace

from planner.chart.bar_parts import axis_of
from planner.chart.build import lifecycle_chart
from planner.chart.captions import short_count
from planner.chart.names import PHASE_NAMES
from planner.chart.numbers import size_text
from planner.chart.spec import Bar, CapacityLine, ChartSpec, Chip, Crossing
from planner.engine.explore import Exploration, Point
from planner.engine.plan import Plan, VerdictKind
from planner.hardware import ChosenGpu
from planner.units import SizeUnit

_FAR = 1.6
"""Points that need so many times the largest GPU say nothing more; the first of them is kept."""
_WORDS: dict[VerdictKind, str] = {"fits": "fits", "tight": "tight", "oom": "out of memory", "unknown": "unknown"}
FOOTNOTE = "Dot: fits the judge · ring: tight · cross: out of memory. The area is the uncertainty."


def explore_chart(
    found: Exploration,
    plan: Plan,
    label: str,
    own: int,
    *,
    gpus: Sequence[ChosenGpu],
    judge: str,
    unit: SizeUnit = "GiB",
) -> ChartSpec | None:
    """One point per value, the plan's `own` marked, and the largest that fits each GPU; None without any point.

    `label` is what the field is called in forms.
    """
    phase = plan.phases.get(found.phase)
    if phase is None or not found.points:
        return None
    whole = lifecycle_chart(replace(plan, phases={found.phase: phase}), gpus=gpus, judge=judge, unit=unit)
    names = {line.gpu: line for line in whole.capacities}
    points = _near(found.points, own, max((line.capacity_bytes for line in whole.capacities), default=0))
    bars = tuple(_bar(found, point, label, unit) for point in points)
    left_out = ""
    if found.refused:
        left_out = f" Not allowed here: {', '.join(map(short_count, found.refused))}."
    return replace(
        whole,
        title=f"{PHASE_NAMES[found.phase]}: VRAM per GPU by {label}",
        bars=bars,
        axis=axis_of(bars, whole.capacities, "VRAM per GPU", unit),
        legend=(),
        footnote=FOOTNOTE + left_out,
        kind="curve",
        crossings=_crossings(found, {bar.key for bar in bars}, names),
        current=str(own),
    )


def _crossings(found: Exploration, keys: set[str], lines: dict[str, CapacityLine]) -> tuple[Crossing, ...]:
    return tuple(
        Crossing(
            str(one.largest), lines[one.gpu].capacity_bytes, f"max {short_count(one.largest)} on {lines[one.gpu].name}"
        )
        for one in found.limits
        if one.largest is not None and one.bound == "memory" and str(one.largest) in keys and one.gpu in lines
    )


def _near(points: Sequence[Point], own: int, largest: int) -> list[Point]:
    """Points up to the first that is far beyond every GPU, or to the plan's own."""
    beyond = (index for index, point in enumerate(points) if largest and point.process_bytes > _FAR * largest)
    last = next(beyond, len(points) - 1)
    return [point for index, point in enumerate(points) if index <= last or point.value == own]


def _bar(found: Exploration, point: Point, label: str, unit: SizeUnit) -> Bar:
    value = short_count(point.value)
    verdict = point.verdict
    return Bar(
        phase=found.phase,
        name=f"{label} {value}",
        label=value,
        short_name=value,
        caption="",
        segments=(),
        total_bytes=point.process_bytes,
        total_label=size_text(point.process_bytes, unit),
        low_bytes=point.low_bytes,
        high_bytes=point.high_bytes,
        note="",
        chip=None if verdict == "fits" else Chip(verdict, _WORDS[verdict], _WORDS[verdict]),
        verdict=_WORDS[verdict],
        limit_bytes=None,
        moment=str(point.value),
    )
