"""A plan as a table for a terminal: a column per phase, and rows for what it needs and where that fits."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.cli.console import stdout
from planner.cli.planning import Planning
from planner.cli.verdicts import verdict_cell
from planner.engine.plan import PhasePlan, Plan, Room, Verdict, programme
from planner.engine.term import COMPONENTS
from planner.hardware import ChosenGpu
from planner.units import SizeUnit, format_count, format_size


def print_plan(planning: Planning, unit: SizeUnit, *, host: bool = False) -> None:
    """Print what each phase needs, whether it fits, and what the user should know besides.

    `host` adds the parts of host RAM and storage.
    """
    console = stdout()
    plan = planning.plan
    title = escape(plan.name or "Plan")
    console.print(f"[bold]{title}[/]  {format_count(plan.model.parameters)} parameters; {unit} per GPU")
    console.print(plan_table(planning, unit))
    if host:
        console.print(parts_table(plan, unit))
    console.print(programme_line(plan, unit))
    for text in dict.fromkeys((*planning.warnings, *_phase_warnings(plan))):
        console.print(f"[yellow]note[/] {escape(text)}")


def plan_table(planning: Planning, unit: SizeUnit) -> Table:
    """The table itself; only components that some phase has."""
    phases = planning.plan.phases
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    table.add_column("")
    for name in phases:
        table.add_column(PHASE_NAMES[name], justify="right", overflow="fold")

    def add(label: str, cells: Iterable[str], *, style: str = "", end: bool = False) -> None:
        table.add_row(label, *cells, style=style, end_section=end)

    def size(count: int) -> str:
        return _size(count, unit)

    def band(phase: PhasePlan) -> str:
        peak = phase.peak
        return f"{size(peak.low_bytes)} – {size(peak.high_bytes)}" if peak.process_bytes else "–"

    plans = phases.values()
    for component in COMPONENTS:
        if any(phase.components.get(component) for phase in plans):
            add(COMPONENT_NAMES[component], (size(phase.components.get(component, 0)) for phase in plans))
    add("Peak", (size(phase.peak.process_bytes) for phase in plans), style="bold")
    add("  low to high", map(band, plans))
    add("  reached in", (phase.peak.moment.replace("_", " ") for phase in plans), end=True)
    add("Host RAM", (size(phase.host_ram_bytes) for phase in plans))
    add("Storage", (size(phase.storage_bytes) for phase in plans), end=True)

    def judged(label: str, verdicts: Iterable[Verdict | None]) -> None:
        cells = [verdict_cell(item, unit) if item else "" for item in verdicts]
        if any(cells):
            add(label, cells)

    for gpu in planning.gpus:
        judged(_gpu_label(gpu, planning.judge, unit), [phase.verdicts.get(gpu.id) for phase in plans])
    ram, disks = _room_labels(next((phase.room for phase in plans), Room()), unit)
    judged(ram, [phase.host_verdict for phase in plans])
    judged(disks, [phase.storage_verdict for phase in plans])
    return table


def parts_table(plan: Plan, unit: SizeUnit) -> Table:
    """What host RAM of each server and storage of the whole job are made of, a column per phase."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    table.add_column("")
    for name in plan.phases:
        table.add_column(PHASE_NAMES[name], justify="right", overflow="fold")
    plans = tuple(plan.phases.values())
    rooms = (("Host RAM", [phase.host_ram for phase in plans]), ("Storage", [phase.storage for phase in plans]))
    for title, parts in rooms:
        table.add_row(title, *(_size(sum(found.values()), unit) for found in parts), style="bold")
        names = list(dict.fromkeys(name for found in parts for name in found))
        for part in names:
            cells = (_size(found.get(part, 0), unit) for found in parts)
            table.add_row(f"  {escape(part)}", *cells, end_section=part == names[-1])
    return table


def programme_line(plan: Plan, unit: SizeUnit) -> str:
    """Host RAM and disks of all phases together, as one cluster is bought for them."""
    whole = programme(plan.phases)
    stored, bought = (format_size(size, unit) for size in (whole.storage_bytes, whole.required_storage_bytes))
    return (
        f"All phases: {format_size(whole.host_ram_bytes, unit)} of RAM in each server, {stored} on disk; "
        f"file systems of {bought} or more, as only four fifths can be relied on"
    )


def _size(count: int, unit: SizeUnit) -> str:
    return format_size(count, unit, with_unit=False) if count else "–"


def _room_labels(room: Room, unit: SizeUnit) -> tuple[str, str]:
    """Of the rows for the RAM and the disks of a plan's servers."""
    name = escape(room.name)
    disks = "shared storage" if room.shared else "disks of all servers"
    ram, disk = ("unknown" if size is None else _size(size, unit) for size in (room.ram_bytes, room.disk_bytes))
    return f"{name}\n  RAM {ram}", f"{name}\n  {disks} {disk}"


def _gpu_label(gpu: ChosenGpu, judge: str, unit: SizeUnit) -> str:
    usable = gpu.capacities.usable_bytes
    size = "unknown" if usable is None else format_size(usable, unit, with_unit=False)
    return f"{escape(gpu.id)}{' (judge)' if gpu.id == judge else ''}\n  usable {size}"


def _phase_warnings(plan: Plan) -> list[str]:
    return [f"{PHASE_NAMES[name]}: {text}" for name, phase in plan.phases.items() for text in phase.warnings]
