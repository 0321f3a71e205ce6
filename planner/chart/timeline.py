"""Plan → ChartSpec: the memory of one phase over the moments of its step. No pixels here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.chart.bar_parts import axis_of, chip_of, legend_of, segments_of, verdict_text
from planner.chart.build import lifecycle_chart
from planner.chart.moments import moment_name
from planner.chart.names import PHASE_NAMES, ROLE_NAMES
from planner.chart.numbers import size_text
from planner.chart.spec import Bar, ChartSpec
from planner.chart.text import one_line
from planner.engine.plan import Moment, PhaseName, PhasePlan, Plan, Verdict
from planner.engine.term import Component
from planner.hardware import ChosenGpu
from planner.units import SizeUnit

FOOTNOTE = "Overhead is that of the peak throughout: what the allocator reserves is kept between moments."


def timeline_chart(
    plan: Plan,
    phase: PhaseName,
    *,
    gpus: Sequence[ChosenGpu],
    judge: str,
    group: str = "",
    subtitle: str | None = None,
    unit: SizeUnit = "GiB",
) -> ChartSpec | None:
    """One step per moment of `phase`, in their order, against the usable memory of `gpus`; None without any VRAM.

    `group` is the role whose own GPUs are shown, where the phase has such. Each moment is shown at the instant that
    needs most, and only the peak has a band and a verdict.
    """
    chosen = plan_of(plan, phase, group)
    if chosen is None or not chosen.peak.process_bytes:
        return None
    verdict = chosen.own_verdicts.get(judge)
    whole = lifecycle_chart(replace(plan, phases={phase: chosen}), gpus=gpus, judge=judge, unit=unit)
    bars = tuple(_step(phase, chosen, moment, verdict, unit) for moment in chosen.moments.values())
    who = f"{PHASE_NAMES[phase]} · {ROLE_NAMES[group]}" if group else PHASE_NAMES[phase]
    return replace(
        whole,
        title=f"VRAM per GPU over a step: {who}",
        subtitle=whole.subtitle if subtitle is None else one_line(subtitle),
        bars=bars,
        axis=axis_of(bars, whole.capacities, "VRAM per GPU", unit),
        legend=legend_of(bars),
        footnote=FOOTNOTE,
        kind="steps",
    )


def plan_of(plan: Plan, phase: PhaseName, group: str = "") -> PhasePlan | None:
    """The figures of a phase, or of the GPUs that one of its roles has of its own."""
    found = plan.phases.get(phase)
    return found.groups.get(group) if found is not None and group else found


def components_at(plan: PhasePlan, moment: Moment) -> Mapping[Component, int]:
    """What is held at a moment, the overhead of the peak included."""
    if moment.name == plan.peak.moment:
        return plan.components
    return {**moment.components, "overhead": plan.components.get("overhead", 0)}


def _step(phase: PhaseName, plan: PhasePlan, moment: Moment, verdict: Verdict | None, unit: SizeUnit) -> Bar:
    components = components_at(plan, moment)
    total = sum(components.values())
    peak = moment.name == plan.peak.moment
    return Bar(
        phase=phase,
        name=moment_name(moment.name),
        label=moment_name(moment.name),
        short_name=moment_name(moment.name, short=True),
        caption="",
        segments=segments_of(components, unit),
        total_bytes=total,
        total_label=size_text(total, unit),
        low_bytes=plan.peak.low_bytes if peak else total,
        high_bytes=plan.peak.high_bytes if peak else total,
        note="" if total else "no VRAM",
        chip=chip_of(verdict, unit) if verdict and peak else None,
        verdict=verdict_text(verdict, unit) if verdict and peak else "",
        limit_bytes=verdict.capacity_bytes if verdict else None,
        moment=moment.name,
        peak=peak,
    )
