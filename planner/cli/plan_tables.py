"""A plan as tables for a terminal."""

from rich.markup import escape
from rich.table import Table

from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.cli.console import stdout
from planner.cli.planning import Planning
from planner.cli.verdicts import verdict_cell
from planner.engine.plan import PhasePlan, Plan
from planner.engine.term import COMPONENTS, Component
from planner.units import SizeUnit, format_count, format_size


def print_plan(planning: Planning, unit: SizeUnit) -> None:
    """Print what each phase needs, whether it fits each GPU, and what the user should know besides."""
    console = stdout()
    plan = planning.plan
    console.print(f"[bold]{escape(plan.name)}[/]  {format_count(plan.model.parameters)} parameters")
    console.print(needs_table(plan, unit))
    console.print(verdicts_table(planning, unit))
    told: set[str] = set()
    for text in (*planning.warnings, *_phase_warnings(plan)):
        if text not in told:
            told.add(text)
            console.print(f"[yellow]note[/] {escape(text)}")


def needs_table(plan: Plan, unit: SizeUnit) -> Table:
    """Per phase: the peak, its band, and what it consists of; only components that some phase has."""
    used = [name for name in COMPONENTS if any(phase.components.get(name) for phase in plan.phases.values())]
    table = Table(title=f"Memory per GPU at the peak, {unit}", title_justify="left", title_style="bold")
    table.add_column("Phase", no_wrap=True)
    table.add_column("Peak", justify="right", style="bold")
    table.add_column("Low to high", justify="right", no_wrap=True)
    table.add_column("At")
    for component in used:
        table.add_column(COMPONENT_NAMES[component], justify="right")
    table.add_column("Host RAM", justify="right")
    table.add_column("Storage", justify="right")
    for name, phase in plan.phases.items():
        table.add_row(PHASE_NAMES[name], *_needs(phase, used, unit))
    return table


def _needs(phase: PhasePlan, used: list[Component], unit: SizeUnit) -> list[str]:
    peak = phase.peak

    def size(count: int) -> str:
        return format_size(count, unit, with_unit=False) if count else "–"

    return [
        size(peak.process_bytes),
        f"{size(peak.low_bytes)} – {size(peak.high_bytes)}",
        peak.moment.replace("_", " "),
        *(size(phase.components.get(name, 0)) for name in used),
        size(phase.host_ram_bytes),
        size(phase.storage_bytes),
    ]


def verdicts_table(planning: Planning, unit: SizeUnit) -> Table:
    """Per phase and GPU: whether it fits and by how much; the judging GPU is marked."""
    phases = planning.plan.phases
    gpus = list(dict.fromkeys(gpu for phase in phases.values() for gpu in phase.verdicts))
    table = Table(title="Does it fit?", title_justify="left", title_style="bold")
    table.add_column("Phase", no_wrap=True)
    for gpu in gpus:
        capacity = next(phase.verdicts[gpu].capacity_bytes for phase in phases.values() if gpu in phase.verdicts)
        usable = f"\n{format_size(capacity, unit)} usable" if capacity is not None else ""
        table.add_column(f"{gpu}{' (judge)' if gpu == planning.judge else ''}{usable}")
    for name, phase in phases.items():
        cells = (verdict_cell(phase.verdicts[gpu], unit) if gpu in phase.verdicts else "" for gpu in gpus)
        table.add_row(PHASE_NAMES[name], *cells)
    return table


def _phase_warnings(plan: Plan) -> list[str]:
    return [f"{PHASE_NAMES[name]}: {text}" for name, phase in plan.phases.items() for text in phase.warnings]
