"""Several plans → ChartSpec: one phase of each as a bar, with what it needs more or less than the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.chart.bar_parts import axis_of, legend_of
from planner.chart.build import lifecycle_chart
from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.chart.numbers import size_text
from planner.chart.spec import ChartSpec
from planner.chart.text import one_line
from planner.engine.plan import PhaseName, PhasePlan, Plan
from planner.engine.term import COMPONENTS, Component
from planner.hardware import ChosenGpu
from planner.units import SizeUnit

MOST = 4
_NAMED = 3
"""Components of a difference that the subtitle names."""
_SHORT = 14


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the plans, under the name that it is compared by."""

    name: str
    plan: Plan


def compare_chart(
    compared: Sequence[Compared],
    phase: PhaseName,
    *,
    gpus: Sequence[ChosenGpu],
    judge: str,
    unit: SizeUnit = "GiB",
) -> ChartSpec | None:
    """A bar for each plan that has the phase, judged by the same GPU; None where none has it."""
    having = [(index, one) for index, one in enumerate(compared) if phase in one.plan.phases]
    if not having:
        return None
    base = having[0][1].plan.phases[phase]
    charts = [lifecycle_chart(_alone(one.plan, phase), gpus=gpus, judge=judge, unit=unit) for _, one in having]
    bars = tuple(
        replace(
            chart.bars[0],
            name=one_line(one.name),
            label=one_line(one.name),
            short_name=one_line(one.name)[:_SHORT],
            caption="" if one is having[0][1] else _signed(_total(one, phase) - base.peak.process_bytes, unit),
            moment=str(index),
        )
        for (index, one), chart in zip(having, charts, strict=True)
    )
    whole = charts[0]
    return replace(
        whole,
        title=f"{PHASE_NAMES[phase]}: {len(bars)} plans compared" if len(bars) > 1 else PHASE_NAMES[phase],
        subtitle=_moved(having[0][1], having[-1][1], phase, unit) if len(having) > 1 else whole.subtitle,
        bars=bars,
        axis=axis_of(bars, whole.capacities, "VRAM per GPU", unit),
        legend=legend_of(bars),
    )


def moved(before: PhasePlan, after: PhasePlan) -> Mapping[Component, int]:
    """Bytes of each component at the peak that one needs more than the other; together the difference of totals."""
    names = [name for name in COMPONENTS if name in before.components or name in after.components]
    changed = {name: after.components.get(name, 0) - before.components.get(name, 0) for name in names}
    return {name: size for name, size in changed.items() if size}


def _alone(plan: Plan, phase: PhaseName) -> Plan:
    return replace(plan, phases={phase: plan.phases[phase]})


def _total(one: Compared, phase: PhaseName) -> int:
    return one.plan.phases[phase].peak.process_bytes


def _moved(first: Compared, last: Compared, phase: PhaseName, unit: SizeUnit) -> str:
    """`Against “as planned”: optimizer states −8.4, logits & loss −9.1 GiB`"""
    changed = moved(first.plan.phases[phase], last.plan.phases[phase])
    largest = sorted(changed, key=lambda name: -abs(changed[name]))[:_NAMED]
    if not largest:
        return f"“{last.name}” needs the same as “{first.name}”"
    parts = ", ".join(f"{_lower(COMPONENT_NAMES[name])} {_signed(changed[name], unit)}" for name in largest)
    return one_line(f"“{last.name}” against “{first.name}”: {parts}")


def _lower(name: str) -> str:
    return name if name.split()[0].isupper() else name[:1].lower() + name[1:]


def _signed(size: int, unit: SizeUnit) -> str:
    """`+4.0 GiB`, `−8.4 GiB`, `±0.0 GiB`"""
    text = size_text(abs(size), unit)
    sign = "±" if not float(text.replace("\u202f", "").replace("<", "") or 0) else "+" if size > 0 else "−"
    return f"{sign}{text} {unit}"
