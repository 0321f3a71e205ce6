"""How results look in a terminal."""

import sys

from rich.console import Console

from planner.engine.plan import Verdict, VerdictKind
from planner.units import SizeUnit, format_size

VERDICT_STYLES: dict[VerdictKind, str] = {"fits": "green", "tight": "yellow", "oom": "bold red", "unknown": "magenta"}
WIDTH_WITHOUT_TERMINAL = 140


def stdout() -> Console:
    """A console that does not squeeze tables to 80 columns when its output goes to a file."""
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, soft_wrap=False)


def verdict_text(verdict: Verdict, unit: SizeUnit) -> str:
    """A verdict in words, with by how much: `fits, 20.1 GiB free` or `OOM +3.2 GiB`."""
    if verdict.headroom_bytes is None:
        return f"unknown: {', '.join(verdict.missing)}" if verdict.missing else "unknown"
    size = format_size(abs(verdict.headroom_bytes), unit)
    if verdict.verdict == "oom":
        return f"OOM +{size}"
    if verdict.headroom_bytes < 0:
        return f"{verdict.verdict}, {size} over at the estimate"
    return f"{verdict.verdict}, {size} free"


def verdict_cell(verdict: Verdict, unit: SizeUnit) -> str:
    """The same with its colour, in rich's markup."""
    style = VERDICT_STYLES[verdict.verdict]
    return f"[{style}]{verdict_text(verdict, unit)}[/]"
