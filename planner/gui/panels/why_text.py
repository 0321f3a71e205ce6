"""The words of the *Why?* panel: formulas with their numbers, how these came about, and where each rule is from."""

from html import escape

from planner.chart.moments import moment_text
from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.engine.plan import PhaseName, PhasePlan, Verdict
from planner.engine.term import Component, Term
from planner.gui.cautions import cautions
from planner.gui.panels.layout_text import layout_tables
from planner.gui.panels.serving_text import serving_tables
from planner.gui.panels.why_parts import amounts_table, component_group, paragraph, size_table, term_html, text_table
from planner.gui.state import State
from planner.gui.tokens import Tokens
from planner.gui.verdicts import judged, verdict_sentence
from planner.gui.words import fine_size, strong
from planner.units import SizeUnit, format_size

ADVICE_LINK = "advice:"
"""What a link to the advisor points at."""


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
        return paragraph(f"{PHASE_NAMES[phase]} is not planned. Tick its box on the left to plan it.", tokens)
    plan = state.plan.phases.get(phase) if state.plan else None
    if plan is None:
        return paragraph(state.problem or "There are no figures until the settings are right.", tokens)
    if component is None:
        return _phase_html(state, phase, plan, unit, tokens)
    return _component_html(phase, plan, component, unit, tokens)


def _phase_html(state: State, phase: PhaseName, plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    parts = []
    verdict, gpu = judged(state, phase), next((gpu for gpu in state.gpus if gpu.id == state.judge), None)
    if verdict is not None and gpu is not None and plan.peak.process_bytes:
        sentence = verdict_sentence(verdict, gpu.name, unit, gpu.capacities.usable_bytes)
        colour = {"fits": tokens.ok, "tight": tokens.warn, "oom": tokens.bad}.get(verdict.verdict, tokens.muted)
        parts.append(f'<p style="color:{colour}">{escape(sentence)}{_advice(verdict, tokens)}</p>')
    if plan.peak.process_bytes:
        peak = plan.peak
        moment = plan.moments.get(peak.moment)
        where = moment_text(peak.moment, moment.instant if moment else "")
        band = f"{format_size(peak.low_bytes, unit, with_unit=False)} to {format_size(peak.high_bytes, unit)}"
        parts.append(paragraph(f"{PHASE_NAMES[phase]} needs most {where}. With uncertainty: {band}.", tokens))
        parts.append(_totals(plan, unit, tokens))
    parts += [f'<p style="color:{tokens.warn}">{escape(caution)}</p>' for caution in cautions(state, phase)]
    parts.append(_held(plan, unit, tokens))
    for heading, rows in layout_tables(phase, plan, state.judge):
        parts.append(f'<p style="color:{tokens.label}">{strong(heading)}</p>{size_table(rows, unit, tokens)}')
    for heading, lines in serving_tables(plan, state.judge, unit) if phase == "serving" else ():
        parts.append(f'<p style="color:{tokens.label}">{strong(heading)}</p>{text_table(lines, tokens)}')
    for label, amounts in (("Host RAM", plan.host_ram), ("Storage", plan.storage)):
        if amounts:
            parts.append(amounts_table(label, amounts, unit, tokens))
    if state.spec is not None and state.spec.assumed:
        parts.append(
            paragraph(f"Not stated by the model, so as its class has it: {', '.join(state.spec.assumed)}.", tokens)
        )
    return "".join(parts)


def _advice(verdict: Verdict, tokens: Tokens) -> str:
    """A link to the advisor, where there is something to advise."""
    if verdict.verdict not in ("tight", "oom"):
        return ""
    return f' <a href="{ADVICE_LINK}" style="color:{tokens.accent_ink}">What would make it fit?</a>'


def _totals(plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    rows = (
        ("Tensors alive", plan.peak.allocated_bytes),
        ("Reserved by the allocator", plan.peak.reserved_bytes),
        ("Whole process (nvidia-smi)", plan.peak.process_bytes),
    )
    return size_table([(name, size) for name, size in rows], unit, tokens)


def _held(plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    """What is held at the peak: each component, a link, with its total, and its largest terms below it."""
    alive = [(term, int(term.bytes)) for term in _alive(plan)]
    parts = []
    for component, total in sorted(plan.components.items(), key=lambda pair: -pair[1]):
        if total:
            found = [pair for pair in alive if pair[0].component == component and pair[1]]
            parts.append(component_group(component, total, sorted(found, key=lambda pair: -pair[1]), unit, tokens))
    if not parts:
        return ""
    return f'<p style="color:{tokens.label}">{strong("Held at the peak")}</p>' + "".join(parts)


def _component_html(phase: PhaseName, plan: PhasePlan, component: Component, unit: SizeUnit, tokens: Tokens) -> str:
    terms = [term for term in _alive(plan) if term.component == component and int(term.bytes)]
    others = [term for term in plan.terms if term.component == component and term not in terms and int(term.bytes)]
    moment = plan.moments.get(plan.peak.moment)
    where = moment_text(plan.peak.moment, moment.instant if moment else "")
    parts = [paragraph(f"{PHASE_NAMES[phase]}, {where}.", tokens)]
    parts += [term_html(term, unit, tokens) for term in sorted(terms, key=lambda term: -int(term.bytes))]
    rest = plan.components.get(component, 0) - sum(int(term.bytes) for term in terms)
    if rest > 0 and terms:
        parts.append(paragraph(f"Rounding of the allocator adds {fine_size(rest, unit)}.", tokens))
    if others:
        names = ", ".join(f"{term.name} ({fine_size(int(term.bytes), unit)})" for term in others)
        parts.append(paragraph(f"Not held at the peak: {names}.", tokens))
    parts.append(
        f'<p><a href="component:" style="color:{tokens.accent_ink}">All of {PHASE_NAMES[phase].lower()}</a></p>'
    )
    return "".join(parts)


def _alive(plan: PhasePlan) -> list[Term]:
    return [term for term in plan.terms if plan.peak.moment in term.alive]
