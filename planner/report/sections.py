"""Tables of a report beside those of its phases, as plain values that every format writes in its own way."""

from collections.abc import Iterator

from planner.chart.bar_parts import verdict_text
from planner.chart.names import PHASE_NAMES
from planner.engine.advisor import Advice, Level, Suggestion
from planner.engine.fleet import Answer, Row
from planner.engine.plan import PHASES, PhaseName
from planner.report.findings import CasesAlike, ComparedCase, Findings
from planner.report.parts import Section, Value
from planner.units import SizeUnit, format_size

DISTURBS: dict[Level, str] = {
    "unchanged": "nothing",
    "speed": "speed",
    "numerics": "numerics",
    "capability": "what it can do",
}


def sections_of(findings: Findings, unit: SizeUnit) -> tuple[Section, ...]:
    """What would make it fit, how many GPUs it takes, and how near the engine was to cases like it."""
    found = [_advice(findings.advice[name], unit) for name in PHASES if name in findings.advice]
    if findings.fleet:
        found.append(_fleet(findings.fleet, unit))
    found += [_alike(name, findings.alike[name], unit) for name in PHASES if name in findings.alike]
    return tuple(found)


def _advice(advice: Advice, unit: SizeUnit) -> Section:
    before = advice.before
    notes = [
        f"As planned it needs {format_size(before.process_bytes, unit)} on {advice.gpu}: "
        f"{verdict_text(before.verdict, unit)}. {advice.tried} combinations of changes were estimated."
    ]
    if not advice.suggestions:
        notes.append("Nothing that was tried fits." + (" The nearest are listed." if advice.nearly else ""))
    notes += _purchases(advice, unit)
    rows = tuple(_suggestion(advice, item, unit) for item in advice.suggestions or advice.nearly)
    sources = {change.source for item in advice.suggestions or advice.nearly for change in item.changes}
    head = ("Change", "Disturbs", f"Peak ({unit})", "Verdict", "GPUs", f"Host RAM ({unit})", "Costs", "Source")
    return Section(
        f"What would make it fit: {PHASE_NAMES[advice.phase]}", tuple(notes), head, rows, "fit", tuple(sorted(sources))
    )


def _suggestion(advice: Advice, item: Suggestion, unit: SizeUnit) -> tuple[Value, ...]:
    after, before = item.after, advice.before
    costs = dict.fromkeys(change.costs for change in item.changes if not change.costs.startswith("None"))
    gpus = str(after.gpus) if after.gpus == before.gpus else f"{before.gpus} → {after.gpus}"
    return (
        item.title,
        DISTURBS[item.level],
        after.process_bytes,
        verdict_text(after.verdict, unit),
        gpus,
        after.host_ram_bytes,
        " ".join(costs) or "–",
        "; ".join(dict.fromkeys(change.source for change in item.changes)),
    )


def _purchases(advice: Advice, unit: SizeUnit) -> Iterator[str]:
    bought = advice.purchase
    if bought is None:
        return
    if bought.as_it_is is None:
        yield "As it is, no single GPU of the catalogue holds it."
    else:
        yield f"As it is, the smallest GPU of the catalogue that holds it is {bought.as_it_is}."
    if bought.smallest is not None:
        least = format_size(bought.smallest.after.process_bytes, unit)
        where = f"fits {bought.with_smallest}" if bought.with_smallest else "fits no GPU of the catalogue"
        yield f"The smallest need that was found is {least}: {bought.smallest.title}; it {where}."


def _fleet(rows: tuple[Row, ...], unit: SizeUnit) -> Section:
    phases = [name for name in PHASES if any(name in row.answers for row in rows)]
    head = ("GPU", *(PHASE_NAMES[name] for name in phases), "For all, one after the other")
    cells = tuple(
        (
            row.gpu.name,
            *(_answer(row.answers.get(name), unit) for name in phases),
            "not possible" if row.gpus is None else f"{row.gpus} GPU{'s' * (row.gpus != 1)}",
        )
        for row in rows
    )
    note = "The fewest GPUs on which a legal layout of each phase fits, with that layout and what a GPU then holds."
    return Section("GPUs needed", (note,), head, cells, "fleet")


def _answer(answer: Answer | None, unit: SizeUnit) -> str:
    if answer is None:
        return "–"
    if answer.best is None:
        return answer.why or "no layout fits"
    best = answer.best
    return f"{best.gpus}: {best.layout.text}, {format_size(best.process_bytes, unit)} each"


def _alike(name: PhaseName, cases: CasesAlike, unit: SizeUnit) -> Section:
    told = [f"Class of case: {cases.case_class}."]
    if cases.sizes and cases.median_error is not None and cases.largest_error is not None:
        told.append(
            f"{cases.sizes} measured figures: the estimates are off by {_percent(cases.median_error)} in the middle "
            f"and {_percent(cases.largest_error)} at worst."
        )
    if cases.verdicts:
        told.append(
            f"Of {cases.verdicts} runs that fitted or did not, it says the same of {cases.agreeing}, "
            "tight being either."
        )
    if not cases.nearest:
        told.append("No measured case of this class is shipped.")
    head = ("Nearest cases", "Figure", "Measured", "Estimated", "Error", "Source")
    rows = tuple(_case(case, unit) for case in cases.nearest)
    return Section(f"Measured cases like it: {PHASE_NAMES[name]}", (" ".join(told),), head, rows, "alike")


def _case(case: ComparedCase, unit: SizeUnit) -> tuple[Value, ...]:
    sized = case.figure.endswith("bytes") or case.figure.startswith(("moments", "peak", "buffers"))
    error = "–" if case.error is None else _percent(case.error, sign=True)
    figures = (_figure(value, sized, unit) for value in (case.expected, case.estimated))
    return (case.id, case.figure.replace("_", " ").replace(".", " · "), *figures, error, case.source)


def _figure(value: int | float | str, sized: bool, unit: SizeUnit) -> str:
    if isinstance(value, str):
        return value
    if sized and value >= 1024**2:
        return format_size(value, unit, 3)
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}".replace(",", "\u202f")


def _percent(share: float, *, sign: bool = False) -> str:
    text = f"{100 * share:+.1f}" if sign else f"{100 * share:.1f}"
    return f"{text}\u202f%".replace("-", "−")
