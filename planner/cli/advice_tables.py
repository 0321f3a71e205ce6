"""Advice as tables for a terminal."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from planner.chart.names import PHASE_NAMES
from planner.cli.console import stdout
from planner.cli.verdicts import verdict_line
from planner.engine.advisor import Advice, Level, Purchase, Suggestion
from planner.engine.limits import Limit
from planner.engine.speed import Speed
from planner.scenario import declaration_at, issue_text
from planner.units import SizeUnit, format_size

DISTURBS: dict[Level, str] = {
    "unchanged": "[green]nothing[/]",
    "speed": "[cyan]speed[/]",
    "numerics": "[yellow]numerics[/]",
    "capability": "[red]capability[/]",
}

SAME_PACE = 0.005
"""Times that differ by less are told as the same."""


def print_advice(advice: Advice, limits: Iterable[Limit], unit: SizeUnit) -> None:
    """Print where a phase stands, what would help, and its largest sizes."""
    console = stdout()
    size = format_size(advice.before.process_bytes, unit)
    verdict = verdict_line(advice.before.verdict, unit)
    console.print(f"[bold]{PHASE_NAMES[advice.phase]}[/] on {escape(advice.gpu)}: {size}, {verdict}")
    if advice.suggestions:
        console.print(_table(advice, advice.suggestions, unit))
    elif advice.nearly:
        console.print("Nothing that was tried fits. Nearest:")
        console.print(_table(advice, advice.nearly, unit))
    if advice.purchase is not None:
        for line in _purchase_lines(advice.purchase, unit):
            console.print(line)
    for line in filter(None, (_limit_line(limit) for limit in limits)):
        console.print(line)
    console.print()


def _table(advice: Advice, suggestions: Iterable[Suggestion], unit: SizeUnit) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold", show_lines=False)
    table.add_column("Change", overflow="fold")
    table.add_column("Disturbs")
    table.add_column("Peak", justify="right", no_wrap=True)
    table.add_column("Verdict", overflow="fold")
    table.add_column("GPUs", justify="right")
    table.add_column("Host RAM", justify="right")
    table.add_column("At best", justify="right")
    table.add_column("Costs", overflow="fold")
    for item in suggestions:
        after = item.after
        table.add_row(
            escape("\n+ ".join(change.title for change in item.changes)),
            DISTURBS[item.level],
            f"→ {format_size(after.process_bytes, unit, with_unit=False)}",
            verdict_line(after.verdict, unit),
            _moved(str(advice.before.gpus), str(after.gpus)),
            _moved(format_size(advice.before.host_ram_bytes, unit), format_size(after.host_ram_bytes, unit)),
            _paced(advice.before.speed, after.speed),
            escape(" ".join(dict.fromkeys(change.costs for change in item.changes if not _free(change.costs))) or "–"),
        )
    return table


def _paced(before: Speed | None, after: Speed | None) -> str:
    """How much longer the same takes at best, roughly, and what bounds it; empty where nothing is known."""
    if before is None or after is None or not before.seconds:
        return ""
    longer = after.order[0] / before.order[0]
    return f"{longer:.2f} × the time" if abs(longer - 1) >= SAME_PACE else "same time"


def _moved(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _free(costs: str) -> bool:
    return costs.startswith("None")


def _purchase_lines(purchase: Purchase, unit: SizeUnit) -> Iterable[str]:
    if purchase.as_it_is is not None:
        yield f"As it is, the smallest GPU of the catalogue that holds it is {escape(purchase.as_it_is)}."
    else:
        yield "As it is, no single GPU of the catalogue holds it."
    if purchase.smallest is not None:
        least = format_size(purchase.smallest.after.process_bytes, unit)
        where = f"fits {escape(purchase.with_smallest)}" if purchase.with_smallest else "fits no GPU of the catalogue"
        yield f"The smallest need that was found is {least}: {escape(purchase.smallest.title)}; it {where}."


def _limit_line(limit: Limit) -> str | None:
    """`Largest micro-batch per GPU: 3 sequences`, and what stops it."""
    found = declaration_at(limit.path)
    if found is None or limit.bound in ("unknown", "range"):
        return None
    if limit.largest is None:
        return f"Largest {_lower(found.label)}: not even {limit.next_value} fits, all else as it is."
    why = f" ({issue_text(limit.refused)})" if limit.refused is not None else ""
    return f"Largest {_lower(found.label)}: {limit.largest} {found.unit}{escape(why)}"


def _lower(label: str) -> str:
    return label if label.split()[0].isupper() else label[:1].lower() + label[1:]
