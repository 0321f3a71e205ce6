"""A sweep as a table for a terminal: every configuration of a small one, the counts of a large one."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from planner.chart.names import PHASE_NAMES
from planner.cli.axes import axis_name
from planner.cli.console import stdout
from planner.cli.verdicts import STYLES
from planner.engine.plan import PhaseName
from planner.engine.sweep import FITS, OOM, REFUSED, TIGHT, UNKNOWN, VERDICTS, Axis, Block
from planner.scenario import issue_text
from planner.units import SizeUnit, format_size

MOST_ROWS = 100
"""More configurations than these are counted, not listed."""


def print_sweep(blocks: Iterable[Block], axes: Sequence[Axis], phase: PhaseName, unit: SizeUnit) -> None:
    """Print what each configuration needs, or how many fit for each choice."""
    coming = iter(blocks)
    first: list[Block] = []
    while sum(map(len, first)) <= MOST_ROWS and (more := list(islice(coming, 1))):
        first += more
    few = sum(map(len, first)) <= MOST_ROWS
    table = _listed(first, axes, unit) if few else _counted(chain(first, coming), axes, unit)
    console = stdout()
    console.print(f"[bold]{PHASE_NAMES[phase]}[/]  {unit} per GPU")
    console.print(table)


def _listed(blocks: Iterable[Block], axes: Sequence[Axis], unit: SizeUnit) -> Table:
    table = _table([axis_name(axis.path) for axis in axes], ("Peak", "Low to high", "Verdict"))
    for block in blocks:
        for index, code in enumerate(block.verdicts):
            values = [
                str(block.points[axis.path][index] if axis.path in block.points else block.choices[axis.path])
                for axis in axes
            ]
            table.add_row(*map(escape, values), *_figures(block, index, int(code), unit))
    return table


def _figures(block: Block, index: int, code: int, unit: SizeUnit) -> tuple[str, str, str]:
    if code == REFUSED:
        why = issue_text(block.refusal) if block.refusal else "a rule refuses this size"
        return "–", "–", f"[magenta]refused[/]: {escape(why)}"
    low, peak, high = (
        format_size(int(figure[index]), unit, with_unit=False)
        for figure in (block.low_bytes, block.process_bytes, block.high_bytes)
    )
    return peak, f"{low} – {high}", _verdict(code)


def _counted(blocks: Iterable[Block], axes: Sequence[Axis], unit: SizeUnit) -> Table:
    """For each choice: how many configurations get each verdict, and the range of their needs."""
    paths = [axis.path for axis in axes]
    found: dict[tuple[str, ...], np.ndarray] = {}
    needs: dict[tuple[str, ...], tuple[int, int]] = {}
    chosen: list[str] = []
    for block in blocks:
        shown = [path for path in paths if path in block.choices]
        chosen = [axis_name(path) for path in shown]
        key = tuple(str(block.choices[path]) for path in shown)
        found[key] = found.get(key, 0) + np.bincount(block.verdicts, minlength=len(VERDICTS))
        allowed = block.process_bytes[block.verdicts != REFUSED]
        if len(allowed):
            low, high = needs.get(key, (int(allowed.min()), int(allowed.max())))
            needs[key] = min(low, int(allowed.min())), max(high, int(allowed.max()))
    titles = ("Configurations", *(_verdict(code) for code in (FITS, TIGHT, OOM, UNKNOWN, REFUSED)), "Peaks")
    table = _table(chosen, titles)
    for key, counts in found.items():
        numbers = [str(int(counts[code]) or "") for code in (FITS, TIGHT, OOM, UNKNOWN, REFUSED)]
        ends = (format_size(size, unit, with_unit=False) for size in needs.get(key, ()))
        table.add_row(*map(escape, key), str(int(counts.sum())), *numbers, " – ".join(ends))
    return table


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    for title in left:
        table.add_column(escape(title), overflow="fold")
    for title in right:
        table.add_column(title, justify="left" if title == "Verdict" else "right", overflow="fold")
    return table


def _verdict(code: int) -> str:
    name = VERDICTS[code]
    return f"[{STYLES.get(name, 'magenta')}]{name.upper() if name == 'oom' else name}[/]"
