"""Verdicts in the words and colours of a terminal."""

from planner.engine.plan import Verdict, VerdictKind
from planner.units import SizeUnit, format_size

STYLES: dict[VerdictKind, str] = {"fits": "green", "tight": "yellow", "oom": "bold red", "unknown": "magenta"}


def verdict_text(verdict: Verdict, unit: SizeUnit) -> str:
    """A verdict with by how much: `fits, 20.1 GiB free` or `OOM +3.2 GiB`."""
    if verdict.headroom_bytes is None:
        return f"unknown: {', '.join(verdict.missing)}" if verdict.missing else "unknown"
    size = format_size(abs(verdict.headroom_bytes), unit)
    if verdict.verdict == "oom":
        return f"OOM +{size}" if verdict.headroom_bytes < 0 else "OOM"
    return f"{verdict.verdict}, {size} {'beyond' if verdict.headroom_bytes < 0 else 'free'}"


def verdict_cell(verdict: Verdict, unit: SizeUnit) -> str:
    """The same with its colour, in rich's markup."""
    return f"[{STYLES[verdict.verdict]}]{verdict_text(verdict, unit)}[/]"
