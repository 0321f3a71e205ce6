"""A plan as a table for a terminal: a column per phase, and rows for what it needs and where that fits."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.cli.console import stdout
from planner.cli.planning import Planning
from planner.cli.verdicts import verdict_cell
from planner.engine.plan import PhasePlan, Plan
from planner.engine.term import COMPONENTS
from planner.hardware import ChosenGpu
from planner.units import SizeUnit, format_count, format_size


def print_plan(planning: Planning, unit: SizeUnit) -> None:
    """Print what each phase needs, whether it fits each GPU, and what the user should know besides."""
    console = stdout()
    plan = planning.plan
    title = escape(plan.name or "Plan")
    console.print(f"[bold]{title}[/]  {format_count(plan.model.parameters)} parameters; {unit} per GPU")
    console.print(plan_table(planning, unit))
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
        return format_size(count, unit, with_unit=False) if count else "–"

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
    for gpu in planning.gpus:
        verdicts = (phase.verdicts.get(gpu.id) for phase in plans)
        add(_gpu_label(gpu, planning.judge, unit), (verdict_cell(item, unit) if item else "" for item in verdicts))
    return table


def _gpu_label(gpu: ChosenGpu, judge: str, unit: SizeUnit) -> str:
    usable = gpu.capacities.usable_bytes
    size = "unknown" if usable is None else format_size(usable, unit, with_unit=False)
    return f"{escape(gpu.id)}{' (judge)' if gpu.id == judge else ''}\n  usable {size}"


def _phase_warnings(plan: Plan) -> list[str]:
    return [f"{PHASE_NAMES[name]}: {text}" for name, phase in plan.phases.items() for text in phase.warnings]
