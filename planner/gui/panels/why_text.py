"""The words of the *Why?* panel: formulas with their numbers, how these came about, and where each rule is from."""

from collections.abc import Mapping
from html import escape

import numpy as np

from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.engine.plan import PhaseName, PhasePlan
from planner.engine.term import Component, Factor, Term
from planner.gui.state import State
from planner.gui.tokens import Tokens
from planner.gui.verdicts import judged, verdict_sentence
from planner.gui.words import fine_size, moment_text, strong
from planner.units import SizeUnit, format_size

GROUP = "\u202f"
LARGEST_TERMS = 14


def why_title(state: State, phase: PhaseName, component: Component | None, unit: SizeUnit) -> str:
    """`WHY 11.7 GiB OF LOGITS & LOSS?`"""
    plan = state.plan.phases.get(phase) if state.plan else None
    if plan is None:
        return "WHY?"
    if component is None:
        return f"WHY {format_size(plan.peak.process_bytes, unit)}?"
    return f"WHY {format_size(plan.components.get(component, 0), unit)} OF {COMPONENT_NAMES[component].upper()}?"


def why_html(state: State, phase: PhaseName, component: Component | None, unit: SizeUnit, tokens: Tokens) -> str:
    """What there is to say of a phase, or of one of its components."""
    if getattr(state.scenario.phases, phase) is None:
        return _paragraph(f"{PHASE_NAMES[phase]} is not planned. Tick its box on the left to plan it.", tokens)
    plan = state.plan.phases.get(phase) if state.plan else None
    if plan is None:
        return _paragraph(state.problem or "There are no figures until the settings are right.", tokens)
    if component is None:
        return _phase_html(state, phase, plan, unit, tokens)
    return _component_html(phase, plan, component, unit, tokens)


def formula(term: Term) -> str:
    """`32 layers × 2 K and V × 8 kv heads`."""
    return " × ".join(f"{number(factor)} {factor.name}" for factor in term.factors)


def number(factor: Factor) -> str:
    """A factor's value: whole numbers grouped, fractions as they are."""
    value = factor.value
    if isinstance(value, np.ndarray):
        raise TypeError("a formula on screen has plain numbers")
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.6g}"
    return f"{int(value):,}".replace(",", GROUP)


def _phase_html(state: State, phase: PhaseName, plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    parts = []
    verdict, gpu = judged(state, phase), next((gpu for gpu in state.gpus if gpu.id == state.judge), None)
    if verdict is not None and gpu is not None and plan.peak.process_bytes:
        sentence = verdict_sentence(verdict, gpu.name, unit, gpu.capacities.usable_bytes)
        colour = {"fits": tokens.ok, "tight": tokens.warn, "oom": tokens.bad}.get(verdict.verdict, tokens.muted)
        parts.append(f'<p style="color:{colour}">{escape(sentence)}</p>')
    if plan.peak.process_bytes:
        peak = plan.peak
        moment = plan.moments.get(peak.moment)
        where = moment_text(peak.moment, moment.instant if moment else "")
        band = f"{format_size(peak.low_bytes, unit, with_unit=False)} to {format_size(peak.high_bytes, unit)}"
        parts.append(_paragraph(f"{PHASE_NAMES[phase]} needs most {where}. With uncertainty: {band}.", tokens))
        parts.append(_totals(plan, unit, tokens))
    parts.append(_term_list(plan, unit, tokens))
    for label, amounts in (("Host RAM", plan.host_ram), ("Storage", plan.storage)):
        if amounts:
            parts.append(_amounts(label, amounts, unit, tokens))
    parts += [f'<p style="color:{tokens.warn}">{escape(warning)}</p>' for warning in plan.warnings]
    return "".join(parts)


def _totals(plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    rows = (
        ("Tensors alive", plan.peak.allocated_bytes),
        ("Reserved by the allocator", plan.peak.reserved_bytes),
        ("Whole process (nvidia-smi)", plan.peak.process_bytes),
    )
    return _table([(name, size) for name, size in rows], unit, tokens)


def _term_list(plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    """The largest terms, each a link to its component; the many small ones are summed up."""
    alive = [(term, int(term.bytes)) for term in _alive(plan)]
    alive = sorted((pair for pair in alive if pair[1]), key=lambda pair: -pair[1])
    if not alive:
        return ""
    link = f'style="color:{tokens.accent_ink};text-decoration:none"'
    rows = [
        (f'<a href="component:{term.component}" {link}>{escape(term.name)}</a>', size)
        for term, size in alive[:LARGEST_TERMS]
    ]
    rest = alive[LARGEST_TERMS:]
    if rest:
        rows.append((f"{len(rest)} smaller ones", sum(size for _, size in rest)))
    heading = f'<p style="color:{tokens.label}">{strong("Held at the peak")}</p>'
    return heading + _table(rows, unit, tokens, html=True)


def _amounts(label: str, amounts: Mapping[str, int], unit: SizeUnit, tokens: Tokens) -> str:
    rows = sorted(amounts.items(), key=lambda row: -row[1])
    total = sum(size for _, size in rows)
    heading = f"{label}: {format_size(total, unit)}"
    return f'<p style="color:{tokens.label}">{strong(heading)}</p>{_table(rows, unit, tokens)}'


def _component_html(phase: PhaseName, plan: PhasePlan, component: Component, unit: SizeUnit, tokens: Tokens) -> str:
    terms = [term for term in _alive(plan) if term.component == component and int(term.bytes)]
    others = [term for term in plan.terms if term.component == component and term not in terms and int(term.bytes)]
    moment = plan.moments.get(plan.peak.moment)
    where = moment_text(plan.peak.moment, moment.instant if moment else "")
    parts = [_paragraph(f"{PHASE_NAMES[phase]}, {where}.", tokens)]
    parts += [_term_html(term, unit, tokens) for term in sorted(terms, key=lambda term: -int(term.bytes))]
    rest = plan.components.get(component, 0) - sum(int(term.bytes) for term in terms)
    if rest > 0 and terms:
        parts.append(_paragraph(f"Rounding of the allocator adds {fine_size(rest, unit)}.", tokens))
    if others:
        names = ", ".join(f"{term.name} ({fine_size(int(term.bytes), unit)})" for term in others)
        parts.append(_paragraph(f"Not held at the peak: {names}.", tokens))
    parts.append(
        f'<p><a href="component:" style="color:{tokens.accent_ink}">All of {PHASE_NAMES[phase].lower()}</a></p>'
    )
    return "".join(parts)


def _term_html(term: Term, unit: SizeUnit, tokens: Tokens) -> str:
    size = fine_size(int(term.bytes), unit)
    derived = "".join(
        f'<br><span style="color:{tokens.muted}">{escape(factor.name)} = {escape(factor.how)}</span>'
        for factor in term.factors
        if factor.how
    )
    return (
        f'<p style="margin-top:10px">{strong(term.name)}<br>{escape(formula(term))}'
        f"<br>= {strong(size)}{derived}"
        f'<br><span style="color:{tokens.muted}">{escape(term.source)}</span></p>'
    )


def _alive(plan: PhasePlan) -> list[Term]:
    return [term for term in plan.terms if plan.peak.moment in term.alive]


def _table(rows: list[tuple[str, int]], unit: SizeUnit, tokens: Tokens, *, html: bool = False) -> str:
    cells = "".join(
        f'<tr><td style="color:{tokens.label}">{name if html else escape(name)}</td>'
        f'<td align="right" style="padding-left:8px;white-space:nowrap">{escape(format_size(size, unit))}</td></tr>'
        for name, size in rows
    )
    return f'<table width="100%" cellspacing="0" cellpadding="1">{cells}</table>'


def _paragraph(text: str, tokens: Tokens) -> str:
    return f'<p style="color:{tokens.muted}">{escape(text)}</p>'
