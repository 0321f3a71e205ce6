"""Verdicts in words and colours, the same in the phase switches, the table and the *Why?* panel."""

from dataclasses import replace

from planner.chart.names import PHASE_NAMES, ROLE_NAMES
from planner.engine.plan import PhaseName, Verdict
from planner.gui.state import State
from planner.gui.tokens import Tokens
from planner.units import BYTES_PER_UNIT, SizeUnit, format_size


def judged(state: State, phase: PhaseName) -> Verdict | None:
    """The verdict of the judging GPU on a phase, if both are planned."""
    if state.plan is None or phase not in state.plan.phases:
        return None
    return state.plan.phases[phase].verdicts.get(state.judge)


def verdict_colour(state: State, phase: PhaseName, tokens: Tokens) -> str:
    """The colour of the dot beside a phase's name."""
    verdict = judged(state, phase)
    if verdict is None or needs_nothing(state, phase) or phase in state.stale:
        return tokens.none_dot
    colours = {"fits": tokens.ok, "tight": tokens.warn_dot, "oom": tokens.bad, "unknown": tokens.none_dot}
    return colours[verdict.verdict]


def judged_text(state: State, phase: PhaseName) -> str:
    """The verdict on a phase as a tooltip says it."""
    if getattr(state.scenario.phases, phase) is None:
        return f"{PHASE_NAMES[phase]} is not planned"
    if phase in state.stale:
        return "Something is wrong in this phase's settings"
    if needs_nothing(state, phase):
        return "Needs no GPU memory"
    verdict = judged(state, phase)
    return {
        "fits": "Fits the judging GPU",
        "tight": "Tight on the judging GPU",
        "oom": "Runs out of memory on the judging GPU",
        "unknown": "A needed fact is missing",
    }.get(verdict.verdict if verdict else "", "Not judged")


def needs_nothing(state: State, phase: PhaseName) -> bool:
    """Whether a phase lives in host memory alone."""
    return bool(state.plan and phase in state.plan.phases and state.plan.phases[phase].peak.process_bytes == 0)


def verdict_sentence(verdict: Verdict, gpu: str, unit: SizeUnit, usable_bytes: int | None = None) -> str:
    """`Too large for L40S by 14.7 GiB: it offers 44.4 GiB.` A phase may get less than the `usable_bytes` of a GPU.

    Where another group of GPUs than the policy's decides, its role comes first.
    """
    if verdict.group:
        own = verdict_sentence(replace(verdict, group=""), gpu, unit, usable_bytes)
        return f"{ROLE_NAMES[verdict.group]}: {own[0].lower()}{own[1:]}"
    if verdict.verdict == "unknown" or verdict.capacity_bytes is None or verdict.headroom_bytes is None:
        missing = ", ".join(verdict.missing) or "a needed fact"
        return f"Whether it fits {gpu} is unknown: {missing} is missing."
    capacity = format_size(verdict.capacity_bytes, unit)
    by = format_size(abs(verdict.headroom_bytes), unit)
    if verdict.verdict == "fits":
        return f"Fits {gpu}: {by} of {capacity} stay free."
    if verdict.verdict == "tight":
        side = "leaves" if verdict.headroom_bytes >= 0 else "exceeds it by"
        return f"Tight on {gpu}: the estimate {side} {by} of {capacity}, which is within its uncertainty."
    needed = f" {verdict.gpus_needed} of them would do." if verdict.gpus_needed and verdict.gpus_needed > 1 else ""
    whole = usable_bytes is None or verdict.capacity_bytes >= usable_bytes
    offer = f"it offers {capacity}" if whole else f"this phase gets {capacity} of it"
    return f"Too large for {gpu} by {by}: {offer}.{needed}"


def chip_text(verdict: Verdict, unit: SizeUnit) -> str:
    """The verdict as the table says it: `33 % free`, `tight 9 %`, `OOM +14.7`, `unknown`."""
    capacity, headroom = verdict.capacity_bytes, verdict.headroom_bytes
    if verdict.verdict == "unknown" or capacity is None or headroom is None:
        return "OOM" if verdict.verdict == "oom" else verdict.verdict
    share = round(100 * headroom / capacity) if capacity else 0
    if verdict.verdict == "fits":
        return f"{share}\u202f% free"
    if verdict.verdict == "tight":
        return f"tight {share}\u202f%".replace("-", "−")
    return f"OOM +{format_size(-headroom, unit, with_unit=False)}" if headroom < 0 else "OOM"


def short_chip_text(verdict: Verdict, unit: SizeUnit) -> str:
    """The same where room is scarce: `33 %`, `±9 %`, `+14.7`, `+2522`, `?`; the colour says the rest."""
    text = chip_text(verdict, unit)
    if text.startswith("OOM +") and verdict.headroom_bytes is not None:
        large = -verdict.headroom_bytes >= 999.5 * BYTES_PER_UNIT[unit]
        return f"+{format_size(-verdict.headroom_bytes, unit, digits=0 if large else 1, with_unit=False)}"
    for long, short in ((" free", ""), ("tight −", "−"), ("tight ", "±"), ("unknown", "?")):
        text = text.replace(long, short)
    return text


def chip_colours(verdict: Verdict, tokens: Tokens) -> tuple[str, str]:
    """Background and text colour of a verdict."""
    return {
        "fits": (tokens.ok_soft, tokens.ok),
        "tight": (tokens.warn_soft, tokens.warn),
        "oom": (tokens.bad_soft, tokens.bad),
        "unknown": (tokens.none_soft, tokens.none),
    }[verdict.verdict]
