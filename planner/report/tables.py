"""From a plan to a report as plain data, which every format writes down in its own way."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from planner import __version__
from planner.catalog import Catalog
from planner.chart.bar_parts import verdict_text
from planner.chart.build import OWN_GPUS, lifecycle_chart
from planner.chart.captions import phase_captions
from planner.chart.host import host_charts, server_name
from planner.chart.moments import moment_text
from planner.chart.names import PHASE_NAMES, ROLE_NAMES
from planner.engine.band import band
from planner.engine.plan import PhasePlan, Plan, Verdict, programme
from planner.engine.surrounding_sums import cached_terms, held_terms, stored_terms
from planner.engine.term import COMPONENTS, Component, Term
from planner.hardware import ChosenGpu
from planner.model import resolve_model
from planner.report.assumptions import assumptions
from planner.report.catalogue import catalogue_date
from planner.report.findings import Findings
from planner.report.parts import Evidence, PhasePart, Report, Section, Template, VerdictRow
from planner.report.sections import sections_of
from planner.report.summary import binding_of, summary_of
from planner.scenario import Scenario
from planner.scenario.files import scenario_to_json
from planner.units import SizeUnit

NO_TEMPLATE = Template()
NOTHING_FOUND = Findings()


def build_report(
    scenario: Scenario,
    plan: Plan,
    catalog: Catalog,
    *,
    created: datetime,
    template: Template = NO_TEMPLATE,
    notes: Sequence[str] = (),
    unit: SizeUnit = "GiB",
    findings: Findings = NOTHING_FOUND,
) -> Report:
    """Everything that a reviewer needs to take the figures of `plan` apart; `notes` are warnings of the whole plan."""
    sections = sections_of(findings, unit)
    hardware = scenario.hardware
    gpus = [catalog.hardware.resolve(entry, total_bytes=hardware.gpu_total_bytes) for entry in hardware.gpus]
    judge = hardware.judge or next((gpu.id for gpu in gpus), "")
    captions = phase_captions(scenario.phases)
    parts: list[PhasePart] = []
    for name, phase in plan.phases.items():
        parts.append(_part(PHASE_NAMES[name], captions.get(name, ""), "", phase, gpus, judge, unit))
        for role, group in phase.groups.items():
            title = f"{PHASE_NAMES[name]}: {ROLE_NAMES[role].lower()}"
            parts.append(_part(title, OWN_GPUS, role, group, gpus, judge, unit))
    whole = programme(plan.phases)
    binding = binding_of(parts)
    chart = lifecycle_chart(plan, gpus=gpus, judge=judge, captions=captions, unit=unit)
    return Report(
        name=plan.name or "Plan",
        created=created,
        version=__version__,
        catalogue=catalogue_date(),
        unit=unit,
        template=template,
        model=plan.model,
        summary=summary_of(parts, whole, next((gpu for gpu in gpus if gpu.id == judge), None), unit),
        binding=binding.title if binding else "",
        charts=(chart, *host_charts(plan, unit=unit)),
        phases=tuple(parts),
        programme=whole,
        assumptions=assumptions(scenario),
        warnings=tuple(dict.fromkeys((*notes, *_model_cautions(scenario, catalog)))),
        sources=_sources(parts, sections),
        scenario_json=scenario_to_json(scenario),
        reproduce=(
            f"Install VRAM Planner {__version__} (hardware catalogue of {catalogue_date()}).",
            "Open this report with it, or save the scenario below as plan.vramplan.",
            "vram-planner estimate plan.vramplan --json prints every figure of this report in bytes.",
            "vram-planner report plan.vramplan report.html writes this report anew.",
        ),
        sections=sections,
    )


def _part(
    title: str, caption: str, group: str, phase: PhasePlan, gpus: Sequence[ChosenGpu], judge: str, unit: SizeUnit
) -> PhasePart:
    peak = phase.peak
    moment = phase.moments.get(peak.moment)
    terms = tuple(item for item in phase.terms if int(item.bytes))
    held = [item for item in terms if peak.moment in item.alive]
    return PhasePart(
        title=title,
        caption=caption,
        group=group,
        peak=peak,
        when=moment_text(peak.moment, moment.instant if moment else ""),
        components={name: size for name, size in phase.components.items() if size},
        moments=tuple(phase.moments.values()),
        terms=tuple(sorted(terms, key=lambda item: _order(item, peak.moment))),
        rounding=_rounding(phase.components, held),
        host_terms=held_terms(phase),
        cache_terms=cached_terms(phase),
        storage_terms=stored_terms(phase),
        verdicts=tuple(_verdicts(title, phase, gpus, judge, unit)),
        warnings=phase.warnings,
        evidence=_evidence(phase.case_class) if peak.process_bytes else None,
    )


def _order(item: Term, moment: str) -> tuple[bool, int, int]:
    return moment not in item.alive, COMPONENTS.index(item.component), -int(item.bytes)


def _rounding(components: Mapping[Component, int], held: Sequence[Term]) -> dict[Component, int]:
    sums = dict.fromkeys(components, 0)
    for item in held:
        sums[item.component] = sums.get(item.component, 0) + int(item.bytes)
    rest = {name: components.get(name, 0) - size for name, size in sums.items()}
    return {name: size for name, size in rest.items() if size}


def _verdicts(
    title: str, phase: PhasePlan, gpus: Sequence[ChosenGpu], judge: str, unit: SizeUnit
) -> Iterator[VerdictRow]:
    for gpu in gpus:
        verdict = phase.own_verdicts.get(gpu.id)
        if verdict is not None:
            yield _verdict(title, gpu.name, gpu.id == judge, verdict, phase.peak.process_bytes, unit)
    room = phase.room
    disks = "shared storage" if room.shared else "disks"
    for what, judged, need in (
        ("RAM", phase.host_verdict, phase.host_ram_bytes),
        (disks, phase.storage_verdict, phase.storage_bytes),
    ):
        if judged is not None:
            yield _verdict(title, f"{what} of {server_name(room)}", False, judged, need, unit)


def _verdict(title: str, where: str, judge: bool, verdict: Verdict, need: int, unit: SizeUnit) -> VerdictRow:
    if verdict.capacity_bytes is not None and verdict.headroom_bytes is not None:
        need = verdict.capacity_bytes - verdict.headroom_bytes
    return VerdictRow(
        title, where, judge, verdict.verdict, verdict_text(verdict, unit), need, verdict.capacity_bytes,
        verdict.headroom_bytes,
    )  # fmt: skip


def _evidence(case_class: str) -> Evidence | None:
    if not case_class:
        return None
    found = band(case_class)
    return Evidence(case_class, found.low, found.high, found.source)


def _model_cautions(scenario: Scenario, catalog: Catalog) -> Iterator[str]:
    spec = resolve_model(scenario.model, catalog.presets)
    if spec.approximate:
        yield f"The model is known approximately: {spec.approximate}."
    if spec.assumed:
        yield f"Not stated by the model, so as its class has it: {', '.join(spec.assumed)}."


def _sources(parts: Sequence[PhasePart], sections: Sequence[Section]) -> tuple[str, ...]:
    """Where the rules of these figures come from, each once."""
    found: dict[str, None] = {}
    for part in parts:
        for item in (*part.terms, *part.host_terms, *part.cache_terms, *part.storage_terms):
            found[item.source] = None
        if part.evidence:
            found[part.evidence.source] = None
    for section in sections:
        found.update(dict.fromkeys(section.sources))
    return tuple(found)
