"""A fleet as a table for a terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from planner.chart.names import PHASE_NAMES
from planner.cli.console import stdout
from planner.engine.fleet import Answer, Row
from planner.units import SizeUnit, format_size


def print_fleet(rows: Sequence[Row], unit: SizeUnit) -> None:
    """Print how many GPUs each phase needs, and the layout of the phase that needs most."""
    phases = list(rows[0].answers) if rows else []
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    table.add_column("GPU", overflow="fold")
    for phase in phases:
        table.add_column(PHASE_NAMES[phase], justify="right")
    table.add_column("To buy", justify="right")
    table.add_column("Memory", justify="right", no_wrap=True)
    table.add_column("Needed most by", overflow="fold")
    for row in rows:
        table.add_row(
            escape(row.gpu.full_title),
            *(_count(answer) for answer in row.answers.values()),
            "–" if row.gpus is None else str(row.gpus),
            "–" if row.total_bytes is None else format_size(row.total_bytes, unit),
            escape(_binding(row)),
        )
    stdout().print(table)


def print_fronts(rows: Sequence[Row], unit: SizeUnit) -> None:
    """Print, for each GPU and phase, the layouts that none beats in GPUs, headroom and recomputation at once."""
    for row in rows:
        for phase, answer in row.answers.items():
            if len(answer.front) < 2:
                continue
            title = f"{PHASE_NAMES[phase]} on {row.gpu.full_title}"
            table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold", title=escape(title))
            table.title_justify = "left"
            table.add_column("GPUs", justify="right")
            table.add_column("Layout", overflow="fold")
            table.add_column("Peak", justify="right", no_wrap=True)
            table.add_column("Free", justify="right", no_wrap=True)
            for found in answer.front:
                sizes = (format_size(size, unit) for size in (found.process_bytes, found.headroom_bytes))
                table.add_row(str(found.gpus), escape(found.layout.text), *sizes)
            stdout().print(table)


def _count(answer: Answer) -> str:
    if answer.best is None:
        return f"[{'red' if answer.refusal is None else 'magenta'}]{answer.short}[/]"
    return f"[green]{answer.short}[/]" if answer.best.gpus == 1 else answer.short


def _binding(row: Row) -> str:
    """The phase that decides, with its layout, or why it cannot run."""
    if row.binding is None:
        return ""
    if row.gpus == 1:
        return "one GPU is enough"
    answer = row.answers[row.binding]
    return f"{PHASE_NAMES[row.binding]}: {answer.why if answer.best is None else answer.best.layout.text}"
