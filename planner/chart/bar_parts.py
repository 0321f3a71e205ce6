"""What bars of any resource are made of: segments, verdicts in words, the axis and the legend."""

from collections.abc import Iterable, Mapping, Sequence

from planner.chart.names import COMPONENT_NAMES
from planner.chart.numbers import axis_ticks, size_text
from planner.chart.palette import COMPONENT_COLOURS, COMPONENT_PATTERNS
from planner.chart.spec import Axis, Bar, CapacityLine, Chip, LegendEntry, Segment
from planner.engine.plan import Verdict
from planner.engine.term import HOST_COMPONENTS, Component
from planner.units import GIB, SizeUnit

_ROOM_ABOVE_CHIP = 1.24  # bar ÷ axis when a total and a chip stand above the tallest bar
_ROOM_ABOVE_TOTAL = 1.12
_ROOM_ABOVE_LINE = 1.08


def segments_of(sizes: Mapping[Component, int], unit: SizeUnit) -> tuple[Segment, ...]:
    """The components of a bar, stacked in their order."""
    segments: list[Segment] = []
    start = 0
    for component in HOST_COMPONENTS:
        size = sizes.get(component, 0)
        if size > 0:
            label = f"{size_text(size, unit)} {unit}"
            segments.append(Segment(component, COMPONENT_NAMES[component], start, size, label))
            start += size
    return tuple(segments)


def chip_of(verdict: Verdict, unit: SizeUnit, full: str = "OOM") -> Chip | None:
    """What is flagged above a bar; nothing where it fits. `full` is what too much of this is called."""
    headroom = verdict.headroom_bytes
    missing = f"+{size_text(-headroom, unit)}" if headroom is not None and headroom < 0 else ""
    if verdict.verdict == "oom":
        return Chip("oom", f"{full} {missing}".strip(), missing or full)
    if verdict.verdict == "tight":
        return Chip("tight", "tight", "tight")
    return Chip("unknown", "unknown", "?") if verdict.verdict == "unknown" else None


def verdict_text(verdict: Verdict, unit: SizeUnit, full: str = "out of memory") -> str:
    """A verdict with by how much, without a full stop."""
    if verdict.verdict == "unknown":
        return "unknown" + (f": {', '.join(verdict.missing)} is not known" if verdict.missing else "")
    if verdict.headroom_bytes is None:
        return full if verdict.verdict == "oom" else verdict.verdict
    by = f"{size_text(abs(verdict.headroom_bytes), unit)} {unit}"
    beyond = verdict.headroom_bytes < 0
    if verdict.verdict == "oom":
        return f"{full} by {by}" if beyond else full
    return f"{verdict.verdict}, {by} {'beyond' if beyond else 'free'}"


def axis_of(bars: Iterable[Bar], capacities: Sequence[CapacityLine], what: str, unit: SizeUnit) -> Axis:
    """An axis with room for every bar, what stands above it, and every line; `what` says what it measures."""
    above = _ROOM_ABOVE_CHIP if any(line.beyond for line in capacities) else _ROOM_ABOVE_TOTAL
    needed = [bar.top_bytes * (_ROOM_ABOVE_CHIP if bar.chip else above) for bar in bars]
    needed += [line.capacity_bytes * _ROOM_ABOVE_LINE for line in capacities if not line.beyond]
    maximum = round(max(needed, default=0)) or GIB
    return Axis(f"{what} ({unit})", unit, axis_ticks(maximum, unit), maximum)


def legend_of(bars: Sequence[Bar]) -> tuple[LegendEntry, ...]:
    """The components that occur, in the order of the stack."""
    present = {segment.component for bar in bars for segment in bar.segments}
    return tuple(
        LegendEntry(component, COMPONENT_NAMES[component], COMPONENT_COLOURS[component], COMPONENT_PATTERNS[component])
        for component in HOST_COMPONENTS
        if component in present
    )
