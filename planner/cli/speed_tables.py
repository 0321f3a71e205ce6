"""Rough speeds for a terminal: one line for each phase, and the formulas behind them."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from planner.chart.names import PHASE_NAMES
from planner.chart.speed_words import (
    BOUND_BY,
    ROUGH,
    by_pass,
    cost_text,
    figure_text,
    formula_text,
    seconds_text,
    speed_line,
)
from planner.cli.console import stdout
from planner.engine.speed import Speed


def print_speeds(speeds: Iterable[Speed], *, formulas: bool = False) -> None:
    """Print how fast phases are at best; with `formulas`, what each bound is made of."""
    told = tuple(speeds)
    if not told:
        return
    console = stdout()
    console.print(f"{ROUGH}{'' if formulas else ' (--speed shows the formulas)'}:")
    for speed in told:
        console.print(f"  {escape(speed_line(speed))}", soft_wrap=True)
        if formulas:
            console.print(_table(speed))
            for figure in speed.figures:
                console.print(f"  {escape(figure_text(figure))} = {escape(figure.how)}", soft_wrap=True)
            for cost in speed.costs:
                console.print(f"  {escape(cost_text(cost))} = {escape(cost.how)}", soft_wrap=True)
            for note in speed.notes:
                console.print(f"  [yellow]note[/] {escape(note)}", soft_wrap=True)


def _table(speed: Speed) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold", title=PHASE_NAMES[speed.phase])
    table.add_column("Pass", overflow="fold")
    table.add_column("Takes", justify="right", no_wrap=True)
    table.add_column("Of", overflow="fold")
    table.add_column("Formula", overflow="fold")
    table.add_column("Source", overflow="fold")
    for name, work in by_pass(speed):
        takes = "unknown" if work.seconds is None else seconds_text(work.seconds)
        what = f"{escape(work.name)}\n[dim]{BOUND_BY[work.resource]}[/]"
        table.add_row(escape(name), takes, what, escape(formula_text(work)), escape(work.source))
    return table
