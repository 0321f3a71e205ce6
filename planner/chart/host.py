"""Plan → ChartSpecs of what stands around the GPUs: RAM of a server by phase, and disks by phase and in all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.chart.bar_parts import axis_of, chip_of, legend_of, segments_of, verdict_text
from planner.chart.build import OWN_GPUS
from planner.chart.names import PHASE_LABELS, PHASE_NAMES, PHASE_SHORT_NAMES, ROLE_NAMES, ROLE_SHORT_NAMES
from planner.chart.numbers import size_text
from planner.chart.spec import WHOLE, Bar, BarName, CapacityLine, ChartSpec
from planner.chart.text import one_line
from planner.engine.plan import NO_ROOM, PHASES, UNNAMED, PhaseName, PhasePlan, Plan, Room, Verdict, programme
from planner.engine.surrounding_sums import host_components, programme_components, storage_components
from planner.engine.term import Component
from planner.units import SizeUnit

HOST_TITLE = "Host RAM per server by lifecycle phase"
STORAGE_TITLE = "Storage by lifecycle phase and in all"
WHOLE_NAME = "All phases"
SAFE_PERCENT = 80
"""How full disks should be at most (stas00/ml-engineering, storage)."""

FARTHEST_LINE = 8
"""A line this many times as high as the tallest bar is still drawn to scale."""
NO_SERVER = "no {what} stated: bars without a verdict"


def host_ram_chart(
    plan: Plan,
    *,
    heading: str | None = None,
    captions: Mapping[PhaseName, str] | None = None,
    unit: SizeUnit = "GiB",
) -> ChartSpec:
    """One bar per phase of what its processes hold on one server; the whisker adds the page cache that is wanted.

    Roles of reinforcement tuning that are on GPUs of their own have a bar each, as in the lifecycle chart.
    """
    room = room_of_plan(plan)
    bars = tuple(
        bar
        for name in PHASES
        if name in plan.phases
        for bar in _ram_bars(name, plan.phases[name], captions or {}, unit)
    )
    lines = _lines((("ram", "RAM", room.ram_bytes),), bars, unit)
    told = _judged(room, room.ram_bytes, "RAM", unit)
    whiskers = "Held by processes + page cache wanted, which whiskers show."
    return ChartSpec(
        title=HOST_TITLE,
        subtitle=_subtitle(plan.name if heading is None else heading, told),
        bars=bars,
        capacities=lines,
        axis=axis_of(bars, lines, "RAM per server", unit),
        legend=legend_of(bars),
        footnote=_footnote(whiskers if any(bar.has_band for bar in bars) else "", lines),
        resource="host_ram",
    )


def storage_chart(
    plan: Plan,
    *,
    heading: str | None = None,
    captions: Mapping[PhaseName, str] | None = None,
    unit: SizeUnit = "GiB",
) -> ChartSpec:
    """One bar per phase of what it stores, and one of all together, in which shared files count once."""
    room = room_of_plan(plan)
    what = "shared storage" if room.shared else "NVMe"
    disk = room.disk_bytes
    full = (("disk", what[:1].upper() + what[1:], disk),)
    safe = () if disk is None else (("safe", f"{SAFE_PERCENT}\u202f%", disk * SAFE_PERCENT // 100),)
    bars = [_disk_bar(name, plan.phases[name], captions or {}, unit) for name in PHASES if name in plan.phases]
    if len(bars) > 1:
        bars.append(_whole_bar(plan, unit))
    lines = _lines((*safe, *full), bars, unit)
    told = _judged(room, disk, what, unit)
    return ChartSpec(
        title=STORAGE_TITLE,
        subtitle=_subtitle(plan.name if heading is None else heading, told),
        bars=tuple(bars),
        capacities=lines,
        axis=axis_of(bars, lines, "Storage of the job", unit),
        legend=legend_of(bars),
        footnote=_footnote("", lines),
        resource="storage",
    )


def room_of_plan(plan: Plan) -> Room:
    """What the servers of a plan offer; the same for all of its phases."""
    return next((phase.room for phase in plan.phases.values()), NO_ROOM)


def _subtitle(heading: str, judged: str) -> str:
    return " · ".join(part for part in (one_line(heading), judged) if part)


def server_name(room: Room) -> str:
    """What a server is called in a sentence; one of which only figures are stated has no name of its own."""
    return "the server" if room.name == UNNAMED else one_line(room.name)


def _ram_bars(name: PhaseName, phase: PhasePlan, captions: Mapping[PhaseName, str], unit: SizeUnit) -> Iterator[Bar]:
    """The phase's own bar and those of its further groups of GPUs."""
    yield _ram_bar(name, phase, captions, unit)
    for role, plan in phase.groups.items():
        title = ROLE_NAMES[role]
        bar = _ram_bar(name, plan, {name: OWN_GPUS}, unit)
        yield replace(bar, group=role, name=title, label=title, short_name=ROLE_SHORT_NAMES[role])


def _ram_bar(name: PhaseName, phase: PhasePlan, captions: Mapping[PhaseName, str], unit: SizeUnit) -> Bar:
    total, cache = phase.host_ram_bytes, phase.page_cache_bytes
    verdict = phase.host_verdict
    told = [verdict_text(verdict, unit)] if verdict else []
    told += [f"{size_text(cache, unit)} {unit} of page cache wanted"] if cache else []
    return _bar(
        PHASE_NAMES[name],
        PHASE_LABELS[name],
        PHASE_SHORT_NAMES[name],
        host_components(phase),
        verdict,
        unit,
        phase=name,
        caption=one_line(captions.get(name, "")),
        high=total + cache,
        note="no host RAM",
        told="; ".join(told),
    )


def _disk_bar(name: PhaseName, phase: PhasePlan, captions: Mapping[PhaseName, str], unit: SizeUnit) -> Bar:
    verdict = phase.storage_verdict
    return _bar(
        PHASE_NAMES[name],
        PHASE_LABELS[name],
        PHASE_SHORT_NAMES[name],
        storage_components(phase),
        verdict,
        unit,
        phase=name,
        caption=one_line(captions.get(name, "")),
        note="nothing stored",
        told=_disk_text(verdict, unit),
    )


def _whole_bar(plan: Plan, unit: SizeUnit) -> Bar:
    verdict = programme(plan.phases).storage_verdict
    return _bar(
        WHOLE_NAME,
        WHOLE_NAME,
        "All",
        programme_components(plan.phases),
        verdict,
        unit,
        phase=WHOLE,
        note="nothing stored",
        told=_disk_text(verdict, unit),
    )


def _bar(
    name: str,
    label: str,
    short_name: str,
    sizes: Mapping[Component, int],
    verdict: Verdict | None,
    unit: SizeUnit,
    *,
    phase: BarName,
    note: str,
    told: str,
    caption: str = "",
    high: int | None = None,
) -> Bar:
    total = sum(sizes.values())
    full = "OOM" if high is not None else "full"
    return Bar(
        phase=phase,
        name=name,
        label=label,
        short_name=short_name,
        caption=caption,
        segments=segments_of(sizes, unit),
        total_bytes=total,
        total_label=size_text(total, unit),
        low_bytes=total,
        high_bytes=total if high is None else high,
        note="" if total else note,
        chip=chip_of(verdict, unit, full) if verdict and total else None,
        verdict=told,
        limit_bytes=verdict.capacity_bytes if verdict else None,
        whisker_label=f"+ {size_text(high - total, unit)}" if total and high is not None and high > total else "",
    )


def _disk_text(verdict: Verdict | None, unit: SizeUnit) -> str:
    return verdict_text(verdict, unit, "too large for the disks") if verdict else ""


def _lines(
    offers: tuple[tuple[str, str, int | None], ...], bars: Sequence[Bar], unit: SizeUnit
) -> tuple[CapacityLine, ...]:
    """From the smallest to the largest; the last, which is the whole of what is offered, judges.

    Servers often have far more than a plan needs: then bars keep their height, and one line lies beyond the axis.
    """
    reach = max((bar.top_bytes for bar in bars), default=0) * FARTHEST_LINE
    lines = tuple(
        CapacityLine(
            key, name, f"{size_text(size, unit)} {unit}", size, judge=key != "safe", beyond=bool(reach and size > reach)
        )
        for key, name, size in offers
        if size is not None
    )
    return tuple(line for line in lines if line.judge or not lines[-1].beyond)


def _footnote(text: str, lines: Sequence[CapacityLine]) -> str:
    beyond = "The line at the top, marked ↑, lies beyond the axis." if any(line.beyond for line in lines) else ""
    return " ".join(part for part in (text, beyond) if part)


def _judged(room: Room, size: int | None, what: str, unit: SizeUnit) -> str:
    if size is None:
        return f"{what} of {server_name(room)} is not known" if room.name else NO_SERVER.format(what=what)
    return f"judged against {server_name(room)} ({size_text(size, unit)} {unit} {what})"


def host_charts(
    plan: Plan,
    *,
    heading: str | None = None,
    captions: Mapping[PhaseName, str] | None = None,
    unit: SizeUnit = "GiB",
) -> tuple[ChartSpec, ChartSpec]:
    """Host RAM and storage, as the view of both shows them."""
    return (
        host_ram_chart(plan, heading=heading, captions=captions, unit=unit),
        storage_chart(plan, heading=heading, captions=captions, unit=unit),
    )
