"""Verdicts in the words and colours of a terminal."""

from planner.chart.names import ROLE_NAMES
from planner.engine.plan import Verdict, VerdictKind
from planner.units import SizeUnit, format_size

NEW_LINE = "\n"
STYLES: dict[VerdictKind, str] = {"fits": "green", "tight": "yellow", "oom": "bold red", "unknown": "magenta"}


def verdict_text(verdict: Verdict, unit: SizeUnit, *, separator: str = ", ", with_unit: bool = True) -> str:
    """A verdict with by how much: `fits, 20.1 GiB free` or `OOM +3.2 GiB`."""
    if verdict.headroom_bytes is None:
        return f"unknown: {', '.join(verdict.missing)}" if verdict.missing else "unknown"
    size = format_size(abs(verdict.headroom_bytes), unit, with_unit=with_unit)
    beyond = verdict.headroom_bytes < 0
    if verdict.verdict == "oom":
        return f"OOM +{size}" if beyond else "OOM"
    return f"{verdict.verdict}{separator}{size} {'beyond' if beyond else 'free'}"


def verdict_cell(verdict: Verdict, unit: SizeUnit) -> str:
    """The same in two lines and in its colour, in rich's markup, for a table that names the unit elsewhere."""
    return f"[{STYLES[verdict.verdict]}]{verdict_text(verdict, unit, separator=NEW_LINE, with_unit=False)}[/]"


def verdict_line(verdict: Verdict, unit: SizeUnit) -> str:
    """The same in one coloured line with its unit, and the role whose GPUs decide where it is not the policy."""
    group = f" ({ROLE_NAMES[verdict.group].lower()})" if verdict.group else ""
    return f"[{STYLES[verdict.verdict]}]{verdict_text(verdict, unit)}{group}[/]"
