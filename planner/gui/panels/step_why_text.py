"""The words of the *Why?* panel for one moment of a step, and for the GPUs that a role has of its own."""

from planner.chart.moments import moment_name, moment_text
from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES, ROLE_NAMES
from planner.chart.timeline import components_at, plan_of
from planner.engine.plan import PhasePlan
from planner.engine.term import Component, Term
from planner.gui.panels.why_parts import component_group, paragraph, term_html
from planner.gui.panels.why_text import why_html, why_title
from planner.gui.state import State, ViewState
from planner.gui.tokens import Tokens
from planner.gui.words import fine_size, strong
from planner.units import format_size

KEPT = "Overhead is that of the peak: what the allocator reserves is kept between moments."


def step_why_title(state: State, view: ViewState) -> str:
    """`WHY 9.8 GiB OF LOGITS & LOSS?`, of the moment that is looked at."""
    plan = _looked_at(state, view)
    if plan is None:
        return why_title(state, view.phase, view.component, view.unit)
    sizes = components_at(plan, plan.moments[_moment(plan, view)])
    if view.component is None:
        return f"WHY {format_size(sum(sizes.values()), view.unit)}?"
    size = format_size(sizes.get(view.component, 0), view.unit)
    return f"WHY {size} OF {COMPONENT_NAMES[view.component].upper()}?"


def step_why_html(state: State, view: ViewState, tokens: Tokens) -> str:
    """What is held at a moment, or the formulas of one component of it."""
    plan = _looked_at(state, view)
    if plan is None:
        return why_html(state, view.phase, view.component, view.unit, tokens)
    moment = plan.moments[_moment(plan, view)]
    who = f"{PHASE_NAMES[view.phase]}, {ROLE_NAMES[view.group].lower()}" if view.group else PHASE_NAMES[view.phase]
    parts = [paragraph(f"{who}, {moment_text(moment.name, moment.instant)}.", tokens)]
    if view.component is None:
        parts += _whole(plan, moment.name, view, tokens)
    else:
        parts += _component(plan, moment.name, view.component, view, tokens)
    return "".join(parts)


def _looked_at(state: State, view: ViewState) -> PhasePlan | None:
    """The figures to explain here; None where a phase is looked at as everywhere: at its peak, on its own GPUs."""
    plan = plan_of(state.plan, view.phase, view.group) if state.plan else None
    if plan is None or not plan.peak.process_bytes or _moment(plan, view) not in plan.moments:
        return None
    return plan if view.group or _moment(plan, view) != plan.peak.moment else None


def _moment(plan: PhasePlan, view: ViewState) -> str:
    """The moment that is looked at; the peak where an edit has left the phase without it."""
    return view.moment if view.moment in plan.moments else plan.peak.moment


def _whole(plan: PhasePlan, moment: str, view: ViewState, tokens: Tokens) -> list[str]:
    sizes = components_at(plan, plan.moments[moment])
    parts = []
    if moment != plan.peak.moment:
        below = plan.peak.process_bytes - sum(sizes.values())
        parts.append(
            paragraph(
                f"{format_size(below, view.unit)} less than at the peak, {moment_text(plan.peak.moment)}. {KEPT}",
                tokens,
            )
        )
    parts.append(f'<p style="color:{tokens.label}">{strong(f"Held: {moment_name(moment)}")}</p>')
    for component, total in sorted(sizes.items(), key=lambda pair: -pair[1]):
        if total:
            held = [(term, int(term.bytes)) for term in _alive(plan, moment, component) if int(term.bytes)]
            largest = sorted(held, key=lambda pair: -pair[1])
            parts.append(component_group(component, total, largest, view.unit, tokens))
    return parts


def _component(plan: PhasePlan, moment: str, component: Component, view: ViewState, tokens: Tokens) -> list[str]:
    held = [term for term in _alive(plan, moment, component) if int(term.bytes)]
    parts = [paragraph(KEPT, tokens)] if component == "overhead" and moment != plan.peak.moment else []
    parts += [term_html(term, view.unit, tokens) for term in sorted(held, key=lambda term: -int(term.bytes))]
    if not held:
        parts.append(paragraph("Nothing of it is held then.", tokens))
    absent = [term for term in plan.terms if term.component == component and term not in held and int(term.bytes)]
    if absent:
        names = ", ".join(f"{term.name} ({fine_size(int(term.bytes), view.unit)})" for term in absent)
        parts.append(paragraph(f"Held only at other moments: {names}.", tokens))
    link = f'<a href="component:" style="color:{tokens.accent_ink}">All of this moment</a>'
    return [*parts, f"<p>{link}</p>"]


def _alive(plan: PhasePlan, moment: str, component: Component) -> list[Term]:
    """The terms of a component that are held at a moment; overhead is told at the peak alone."""
    when = plan.peak.moment if component == "overhead" else moment
    return [term for term in plan.terms if term.component == component and when in term.alive]
