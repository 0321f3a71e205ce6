"""Rough speeds in words: always at best, with what bounds them."""

from collections.abc import Iterable

from planner.chart.names import PHASE_NAMES
from planner.engine.speed import Figure, Resource, Speed, Work
from planner.engine.term import Factor

BOUND_BY: dict[Resource, str] = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "interconnect": "links between GPUs",
    "network": "the network",
    "host link": "the link to the server",
}
ROUGH = "Rough speed at best, from peak rates; tuned software reaches a third to a half of it"
HEADLINES = (
    "time to first token",
    "tokens per second and request",
    "tokens per second and GPU",
    "images per second and GPU",
    "sequences per second",
    "model FLOPs utilization",
    "hours of the run",
)
"""What one line tells of all figures, in this order."""
PREFIXES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def seconds_text(seconds: float) -> str:
    """A duration, such as `62.3 ms`; hours and days where it is long."""
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:,.1f} days"
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:,.1f} h"
    scale, unit = next(((scale, unit) for scale, unit in PREFIXES if seconds >= scale), PREFIXES[-1])
    return f"{seconds / scale:,.3g} {unit}" if seconds < 1000 else f"{seconds:,.0f} s"


def amount_text(value: float) -> str:
    """A number to three digits, with thousands apart."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def figure_text(figure: Figure) -> str:
    """A figure with its name, such as `tokens per second and GPU 17,081`."""
    if figure.unit == "s":
        return f"{figure.name} {seconds_text(figure.value)}"
    if figure.unit == "h":
        return f"{figure.name.replace('hours of the run', 'the run')} {seconds_text(figure.value * 3600)}"
    unit = " %" if figure.unit == "%" else ""
    return f"{figure.name} {amount_text(figure.value)}{unit}"


def cost_text(cost: Figure) -> str:
    """A cost with what it is for, such as `cost per million tokens 0.0325 USD`."""
    value = f"{cost.value:,.2f}" if cost.value >= 1 else f"{cost.value:.3g}"
    return f"{cost.name} {value} {cost.unit}".rstrip()


def speed_line(speed: Speed) -> str:
    """One phase in one line; what is not counted is left to the notes."""
    if speed.bound is None:
        return f"{PHASE_NAMES[speed.phase]}: not known"
    told = {figure.name: figure for figure in speed.figures}
    parts = [figure_text(told[name]) for name in HEADLINES if name in told]
    costs = [cost_text(cost) for cost in speed.costs if "million" in cost.name or "run" in cost.name]
    time = f"{seconds_text(speed.seconds)} per {speed.what}, bound by {BOUND_BY[speed.bound]}"
    return f"{PHASE_NAMES[speed.phase]}: {'; '.join((time, *parts, *costs))}"


def formula_text(work: Work) -> str:
    """The product behind one work, over its rate."""
    counted = [factor for factor in work.factors if factor.value != 1] or work.factors[:1]
    product = " × ".join(f"{factor.name} {_number(factor)}" for factor in counted)
    return f"{product} / {_number(work.rate)} per s" if work.rate is not None else product


def _number(factor: Factor) -> str:
    value = float(factor.value)
    if value.is_integer() and abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def by_pass(speed: Speed) -> Iterable[tuple[str, Work]]:
    """All works with the pass that they belong to."""
    return ((item.name, work) for item in (*speed.first, *speed.passes) for work in item.works)
