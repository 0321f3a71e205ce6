"""A report as Markdown with tables, as repositories and issue trackers show it."""

import re
from collections.abc import Iterable, Iterator, Sequence

from planner.chart.formula import formula
from planner.chart.names import COMPONENT_NAMES
from planner.engine.term import Term
from planner.report.parts import PhasePart, Report, Section
from planner.report.words import cell_text, derived, moments, plain, size, whole

FENCE = "```json"
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$!@=+:-])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


def markdown_report(report: Report) -> str:
    """The text of the file."""
    return "\n".join(_lines(report)) + "\n"


def escaped(text: str) -> str:
    """A text on one line that means nothing but itself."""
    line = _CONTROL.sub(" ", text).replace("&", "&amp;")
    return _SPECIAL.sub(_escape, line)


def _escape(found: re.Match[str]) -> str:
    """Brackets of HTML as entities, which hold in every dialect; letters that only matter in places as they are."""
    letter = found[1]
    entities = {"<": "&lt;", ">": "&gt;", "|": "\\|"}
    return entities.get(letter, letter if letter in ":@=+-!$" else f"\\{letter}")


def _lines(report: Report) -> Iterator[str]:
    unit = report.unit
    yield f"# {escaped(report.name)}"
    yield ""
    yield (
        f"{report.created:%Y-%m-%d %H:%M %Z}, VRAM Planner {report.version}, hardware catalogue of {report.catalogue}. "
        f"Sizes in {unit}; VRAM per GPU, of the fullest rank."
    )
    yield ""
    for label, text in report.template.rows():
        yield f"- {label}: {escaped(text)}"
    yield from _heading("Summary")
    for sentence in report.summary:
        yield from (escaped(sentence), "")
    yield from (f"- {escaped(warning)}" for warning in report.warnings)
    yield from _heading("Verdicts")
    rows = [
        (
            row.phase,
            f"{row.where} (judge)" if row.judge else row.where,
            size(row.need_bytes, unit),
            size(row.capacity_bytes, unit),
            size(row.headroom_bytes, unit),
            row.text,
        )
        for part in report.phases
        for row in part.verdicts
    ]
    head = ("Phase", "GPU or server", f"Need ({unit})", f"Can use ({unit})", f"Room ({unit})", "Verdict")
    yield from _table(head, rows, "llrrrl")
    for part in report.phases:
        yield from _part(part, report)
    for section in report.sections:
        yield from _section(section, report)
    yield from _heading("Assumptions")
    yield from _table(
        ("Part", "Field", "Value", "Unit", "Stated"),
        (
            (row.where, row.label, row.value, row.unit, "stated" if row.stated else "default")
            for row in report.assumptions
        ),
        "lllll",
    )
    yield from _heading("Sources")
    yield from (f"- {escaped(source)}" for source in report.sources)
    yield from _heading("How to reproduce it")
    yield from (f"{index}. {escaped(step)}" for index, step in enumerate(report.reproduce, 1))
    yield from ("", FENCE, report.scenario_json.rstrip("\n"), "```")


def _part(part: PhasePart, report: Report) -> Iterator[str]:
    unit = report.unit
    yield from _heading(" · ".join(text for text in (part.title, part.caption) if text))
    if part.peak.process_bytes:
        peak = part.peak
        yield (
            f"Needs most {escaped(part.when)}: **{size(peak.process_bytes, unit)} {unit}** "
            f"({whole(peak.process_bytes)} bytes), with uncertainty {size(peak.low_bytes, unit)} to "
            f"{size(peak.high_bytes, unit)}; tensors alive {size(peak.allocated_bytes, unit)}, reserved "
            f"{size(peak.reserved_bytes, unit)}."
        )
        yield ""
        parts = [(COMPONENT_NAMES[name], size(count, unit), whole(count)) for name, count in part.components.items()]
        yield from _table(("Component at the peak", unit, "Bytes"), parts, "lrr")
    else:
        yield from ("Needs no GPU memory.", "")
    if part.evidence:
        yield from (f"Evidence: {escaped(part.evidence.text)}. {escaped(part.evidence.source)}", "")
    yield from (f"- {escaped(warning)}" for warning in part.warnings)
    if part.peak.process_bytes:
        yield ""
        names = list(part.moments[0].components)
        head = ("Moment", "Highest at", *(f"{COMPONENT_NAMES[name]} ({unit})" for name in names), f"Sum ({unit})")
        rows = [
            (
                plain(moment.name),
                plain(moment.instant),
                *(size(moment.components[name], unit) for name in names),
                size(moment.allocated_bytes, unit),
            )
            for moment in part.moments
        ]
        yield from _table(head, rows, "ll" + "r" * (len(names) + 1))
    yield from _terms("Terms on a GPU, those at the peak first", part.terms, report)
    for name, count in part.rounding.items():
        yield from (f"Rounding adds {whole(count)} bytes to {COMPONENT_NAMES[name].lower()} at the peak.", "")
    yield from _terms("Host RAM that processes hold, per server", part.host_terms, report)
    yield from _terms("Page cache wanted, per server", part.cache_terms, report)
    yield from _terms("Storage of the whole job", part.storage_terms, report)


def _section(section: Section, report: Report) -> Iterator[str]:
    yield from _heading(section.title)
    for note in section.notes:
        yield from (escaped(note), "")
    if section.rows:
        sides = "".join("r" if isinstance(value, int) else "l" for value in section.rows[0])
        yield from _table(
            section.head, ([cell_text(value, report.unit) for value in row] for row in section.rows), sides
        )


def _terms(title: str, terms: Sequence[Term], report: Report) -> Iterator[str]:
    if not terms:
        return
    yield from (f"### {title}", "")
    head = ("Component", "Term", "Formula", report.unit, "Bytes", "Held in", "Source of the rule")
    rows = (
        (
            COMPONENT_NAMES[term.component],
            term.name,
            "; ".join(text for text in (formula(term), derived(term)) if text),
            size(int(term.bytes), report.unit),
            whole(int(term.bytes)),
            moments(term),
            term.source,
        )
        for term in terms
    )
    yield from _table(head, rows, "lllrrll")


def _heading(text: str) -> tuple[str, ...]:
    return "", f"## {escaped(text)}", ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> Iterator[str]:
    yield _row(head)
    yield _row(["---:" if side == "r" else "---" for side in sides], ready=True)
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: Sequence[str], *, ready: bool = False) -> str:
    return f"| {' | '.join(cells if ready else map(escaped, cells))} |"
