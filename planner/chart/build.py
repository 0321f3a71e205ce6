"""Plan → ChartSpec: the numbers and texts of the lifecycle chart. No pixels here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.chart.bar_parts import axis_of, chip_of, legend_of, segments_of, verdict_text
from planner.chart.names import (
    PHASE_LABELS,
    PHASE_NAMES,
    PHASE_SHORT_NAMES,
    ROLE_NAMES,
    ROLE_SHORT_NAMES,
)
from planner.chart.numbers import size_text
from planner.chart.spec import Bar, CapacityLine, ChartSpec
from planner.chart.text import one_line
from planner.engine.plan import PHASES, PhaseName, PhasePlan, Plan, Verdict
from planner.hardware import ChosenGpu
from planner.units import SizeUnit

OWN_GPUS = "own GPUs"
LIFECYCLE_TITLE = "Peak VRAM per GPU by lifecycle phase"


def lifecycle_chart(
    plan: Plan,
    *,
    gpus: Sequence[ChosenGpu],
    judge: str,
    title: str = LIFECYCLE_TITLE,
    subtitle: str | None = None,
    captions: Mapping[PhaseName, str] | None = None,
    footnote: str = "",
    unit: SizeUnit = "GiB",
) -> ChartSpec:
    """One bar per phase of `plan`, in the order of a model's life, against the usable memory of `gpus`.

    Roles of reinforcement tuning that are on GPUs of their own have a bar each, behind that of their phase.

    `judge` is the id of the GPU whose verdicts are flagged and above whose capacity bars are hatched; an id that is
    not among `gpus` flags nothing. `captions` gives some phases a second line (`planner.chart.captions`). Without a
    `subtitle` the chart names the plan and the judge.
    """
    capacities = _capacity_lines(plan, gpus, judge, unit)
    bars = tuple(
        bar
        for name in PHASES
        if name in plan.phases
        for bar in _bars(name, plan.phases[name], judge, capacities, one_line((captions or {}).get(name, "")), unit)
    )
    return ChartSpec(
        title=one_line(title),
        subtitle=one_line(_default_subtitle(plan, capacities) if subtitle is None else subtitle),
        bars=bars,
        capacities=capacities,
        axis=axis_of(bars, capacities, "VRAM per GPU", unit),
        legend=legend_of(bars),
        footnote=one_line(footnote),
    )


def _bars(
    name: PhaseName, phase: PhasePlan, judge: str, capacities: Sequence[CapacityLine], caption: str, unit: SizeUnit
) -> Iterator[Bar]:
    """The phase's own bar and those of its further groups."""
    yield _bar(name, phase, judge, capacities, caption, unit)
    for role, plan in phase.groups.items():
        title = ROLE_NAMES[role]
        bar = _bar(name, plan, judge, capacities, OWN_GPUS, unit)
        yield replace(bar, group=role, name=title, label=title, short_name=ROLE_SHORT_NAMES[role])


def _bar(
    name: PhaseName, phase: PhasePlan, judge: str, capacities: Iterable[CapacityLine], caption: str, unit: SizeUnit
) -> Bar:
    total = phase.peak.process_bytes
    verdict = phase.own_verdicts.get(judge)
    return Bar(
        phase=name,
        name=PHASE_NAMES[name],
        label=PHASE_LABELS[name],
        short_name=PHASE_SHORT_NAMES[name],
        caption=caption,
        segments=segments_of(phase.components, unit),
        total_bytes=total,
        total_label=size_text(total, unit),
        low_bytes=phase.peak.low_bytes,
        high_bytes=phase.peak.high_bytes,
        note="" if total else ("host RAM only" if phase.host_ram_bytes else "no VRAM"),
        chip=chip_of(verdict, unit) if verdict else None,
        verdict=verdict_text(verdict, unit) + _budget_text(verdict, capacities, unit) if verdict else "",
        limit_bytes=verdict.capacity_bytes if verdict else None,
    )


def _budget_text(verdict: Verdict, capacities: Iterable[CapacityLine], unit: SizeUnit) -> str:
    """Explains a limit below the judge's line: a serving engine takes only its share of a GPU."""
    limit = verdict.capacity_bytes
    if limit is None or not any(line.judge and limit < line.capacity_bytes for line in capacities):
        return ""
    return f"; this phase gets {size_text(limit, unit)} {unit} of the GPU"


def _capacity_lines(plan: Plan, gpus: Sequence[ChosenGpu], judge: str, unit: SizeUnit) -> tuple[CapacityLine, ...]:
    lines: dict[str, CapacityLine] = {}
    for gpu in gpus:
        capacity = _judged_capacity(plan, gpu.id) or gpu.capacities.usable_bytes
        if capacity is not None:
            size = f"{size_text(capacity, unit)} {unit}"
            note = one_line(gpu.capacities.note)
            lines[gpu.id] = CapacityLine(gpu.id, one_line(gpu.label), size, capacity, gpu.id == judge, note)
    return tuple(sorted(lines.values(), key=lambda line: line.capacity_bytes))


def _judged_capacity(plan: Plan, gpu: str) -> int | None:
    """What verdicts compare with on this GPU: its usable memory after headroom and overrides of the scenario.

    Serving is left out where another phase answers, since its engine's budget is only a share of the GPU.
    """
    judged = [
        verdict.capacity_bytes
        for name, phase in plan.phases.items()
        if name != "serving" and (verdict := phase.own_verdicts.get(gpu)) and verdict.capacity_bytes is not None
    ]
    return max(judged, default=None)


def _default_subtitle(plan: Plan, capacities: Iterable[CapacityLine]) -> str:
    judged = [f"judged against {line.name} ({line.size_label} usable)" for line in capacities if line.judge]
    return " · ".join([plan.name, *judged])
