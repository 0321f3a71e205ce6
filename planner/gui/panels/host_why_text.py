"""The words of the *Why?* panel for host RAM and storage: of a phase, of one of its components, of all phases."""

from collections.abc import Callable, Iterator
from html import escape

from planner.chart.host import WHOLE_NAME, room_of_plan, server_name
from planner.chart.names import COMPONENT_NAMES, PHASE_NAMES
from planner.engine.plan import SHARED_FILES, PhaseName, PhasePlan, Plan, Verdict, programme
from planner.engine.surrounding_sums import (
    cached_terms,
    held_terms,
    host_components,
    programme_components,
    storage_components,
    stored_terms,
)
from planner.engine.term import Component, Term
from planner.gui.cautions import cautions
from planner.gui.panels.why_parts import (
    amounts_table,
    component_group,
    paragraph,
    size_table,
    term_html,
    text_table,
)
from planner.gui.server_words import room_sentence
from planner.gui.state import State, ViewState
from planner.gui.tokens import Tokens
from planner.gui.words import fine_size, strong
from planner.units import SizeUnit, format_size

TermsOf = Callable[[PhasePlan], tuple[Term, ...]]
CACHE_NOTE = (
    "The kernel keeps files it has read in RAM while there is room, and reads them again otherwise: wanted, not needed."
)
WHOLE_NOTE = "What each phase adds to the disks. Files that several phases read count with the first of them."
SHARE_NOTE = "Four fifths of disks can be relied on, so buy"


def host_why_title(state: State, view: ViewState) -> str:
    """`WHY 59.8 GiB OF WEIGHTS IN HOST RAM?`"""
    sizes = _sizes(state.plan, view) if state.plan else None
    if sizes is None:
        return "WHY?"
    if view.component is None:
        where = "STORAGE" if view.resource == "storage" else "HOST RAM"
        return f"WHY {format_size(sum(sizes.values()), view.unit)} OF {where}?"
    where = "ON DISK" if view.resource == "storage" else "IN HOST RAM"
    size = format_size(sizes.get(view.component, 0), view.unit)
    return f"WHY {size} OF {COMPONENT_NAMES[view.component].upper()} {where}?"


def host_why_html(state: State, view: ViewState, tokens: Tokens) -> str:
    """What there is to say of what is looked at."""
    plan = state.plan
    if plan is None or (not view.whole and view.phase not in plan.phases):
        if not view.whole and getattr(state.scenario.phases, view.phase) is None:
            return paragraph(f"{PHASE_NAMES[view.phase]} is not planned. Tick its box on the left to plan it.", tokens)
        return paragraph(state.problem or "There are no figures until the settings are right.", tokens)
    if view.whole:
        parts = _whole(plan, view, tokens) if view.component is None else _whole_component(plan, view, tokens)
    elif view.component is None:
        parts = _phase(state, plan.phases[view.phase], view, tokens)
    else:
        parts = _component(plan.phases[view.phase], view, view.component, tokens)
    return "".join(parts)


def _sizes(plan: Plan, view: ViewState) -> dict[Component, int] | None:
    if view.whole:
        return programme_components(plan.phases)
    phase = plan.phases.get(view.phase)
    if phase is None:
        return None
    return storage_components(phase) if view.resource == "storage" else host_components(phase)


def _phase(state: State, plan: PhasePlan, view: ViewState, tokens: Tokens) -> Iterator[str]:
    stored = view.resource == "storage"
    yield _verdict(
        plan.storage_verdict if stored else plan.host_verdict, server_name(plan.room), stored, view.unit, tokens
    )
    terms = stored_terms(plan) if stored else held_terms(plan)
    if not terms:
        nothing = "stores nothing" if stored else "holds nothing in host RAM"
        yield paragraph(f"{PHASE_NAMES[view.phase]} {nothing}.", tokens)
    for caution in cautions(state, view.phase):
        yield f'<p style="color:{tokens.warn}">{escape(caution)}</p>'
    if terms:
        heading = "Stored for the whole job" if stored else "Held on one server, at the fullest moment"
        yield f'<p style="color:{tokens.label}">{strong(heading)}</p>'
    yield from _groups(terms, view.unit, tokens)
    if stored:
        yield _checkpoints(plan, view.unit, tokens)
    elif plan.page_cache:
        yield amounts_table("Page cache wanted", plan.page_cache, view.unit, tokens)
        yield paragraph(CACHE_NOTE, tokens)


def _component(plan: PhasePlan, view: ViewState, component: Component, tokens: Tokens) -> Iterator[str]:
    terms_of: TermsOf = stored_terms if view.resource == "storage" else held_terms
    where = "for the whole job" if view.resource == "storage" else "on one server"
    yield paragraph(f"{PHASE_NAMES[view.phase]}, {where}.", tokens)
    for item in _largest_first(terms_of(plan), component):
        yield term_html(item, view.unit, tokens)
    cached = [] if view.resource == "storage" else _largest_first(cached_terms(plan), component)
    if cached:
        yield paragraph("Beside these, wanted as page cache:", tokens)
        for item in cached:
            yield term_html(item, view.unit, tokens)
    yield _back(PHASE_NAMES[view.phase].lower(), tokens)


def _whole(plan: Plan, view: ViewState, tokens: Tokens) -> Iterator[str]:
    whole = programme(plan.phases)
    room = room_of_plan(plan)
    yield _verdict(whole.storage_verdict, server_name(room), True, view.unit, tokens)
    yield paragraph(f"{SHARE_NOTE} {format_size(whole.required_storage_bytes, view.unit)}.", tokens)
    yield f'<p style="color:{tokens.label}">{strong("By phase")}</p>'
    yield size_table([(PHASE_NAMES[name], size) for name, size in whole.storage.items() if size], view.unit, tokens)
    yield paragraph(WHOLE_NOTE, tokens)
    yield f'<p style="color:{tokens.label}">{strong("By what is stored")}</p>'
    sizes = programme_components(plan.phases)
    for component, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
        yield component_group(component, size, [], view.unit, tokens)


def _whole_component(plan: Plan, view: ViewState, tokens: Tokens) -> Iterator[str]:
    assert view.component is not None
    seen: dict[str, tuple[PhaseName, int]] = {}
    for name, phase in plan.phases.items():
        terms = _largest_first(stored_terms(phase), view.component)
        if terms:
            yield f'<p style="color:{tokens.label};margin-top:12px">{strong(PHASE_NAMES[name])}</p>'
        for item in terms:
            first, counted = seen.get(item.name, (name, 0))
            if item.name in SHARED_FILES and counted >= int(item.bytes):
                yield paragraph(f"{item.name} is counted with {PHASE_NAMES[first].lower()}.", tokens)
            else:
                yield term_html(item, view.unit, tokens)
                seen[item.name] = (first, max(counted, int(item.bytes)))
    yield _back(WHOLE_NAME.lower(), tokens)


def _groups(terms: tuple[Term, ...], unit: SizeUnit, tokens: Tokens) -> Iterator[str]:
    """Each component, a link, with its total, and its largest terms below it."""
    totals: dict[Component, int] = {}
    for item in terms:
        totals[item.component] = totals.get(item.component, 0) + int(item.bytes)
    for component, total in sorted(totals.items(), key=lambda pair: -pair[1]):
        found = [(item, int(item.bytes)) for item in _largest_first(terms, component)]
        yield component_group(component, total, found, unit, tokens)


def _checkpoints(plan: PhasePlan, unit: SizeUnit, tokens: Tokens) -> str:
    """What one checkpoint is, and what writing it costs."""
    told = plan.around.get("checkpoints")
    if not told:
        return ""
    rows = [("One checkpoint", fine_size(told["bytes"], unit)), ("On disk at most", f"{told['on_disk']} of them")]
    if "write_seconds" in told:
        rows.append(("Writing one", f"{told['write_seconds']:,.1f} s".replace(",", "\u202f")))
    if "share_of_training" in told:
        rows.append(("Share of training", f"{100 * told['share_of_training']:.2g}\u202f%"))
    return f'<p style="color:{tokens.label}">{strong("Checkpoints")}</p>{text_table(rows, tokens)}'


def _verdict(verdict: Verdict | None, server: str, stored: bool, unit: SizeUnit, tokens: Tokens) -> str:
    if verdict is None:
        return "" if server else paragraph("No server is chosen, so there is no verdict.", tokens)
    colour = {"fits": tokens.ok, "tight": tokens.warn, "oom": tokens.bad}.get(verdict.verdict, tokens.muted)
    sentence = room_sentence(verdict, server, "disks" if stored else "RAM", unit)
    return f'<p style="color:{colour}">{escape(sentence)}</p>'


def _largest_first(terms: tuple[Term, ...], component: Component) -> list[Term]:
    return sorted((item for item in terms if item.component == component), key=lambda item: -int(item.bytes))


def _back(what: str, tokens: Tokens) -> str:
    return f'<p><a href="component:" style="color:{tokens.accent_ink}">All of {what}</a></p>'
