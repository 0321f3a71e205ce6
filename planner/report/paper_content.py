"""A report from the first page to the last, as blocks for paper: one group of blocks per step of the work."""

from collections.abc import Iterator, Sequence

from planner.chart.formula import formula
from planner.chart.names import COMPONENT_NAMES
from planner.engine.term import Term
from planner.report.paper_blocks import Block, Cell, Column, PageBreak, Paragraph, Picture, Side, Table, heading
from planner.report.parts import PhasePart, Report, Section
from planner.report.words import (
    ALWAYS,
    cell_text,
    derived,
    held_in,
    moments,
    plain,
    size,
    source_numbers,
    unit_text,
    whole,
)


def groups(report: Report) -> Iterator[Iterator[Block]]:
    """The head with its charts and verdicts, each phase, and the end; `group_count` of them."""
    numbers = source_numbers(report)
    yield _head(report)
    for part in report.phases:
        yield _phase(part, report, numbers)
    yield _end(report)


def group_count(report: Report) -> int:
    return len(report.phases) + 2


def _head(report: Report) -> Iterator[Block]:
    yield Paragraph(report.name, size=24, bold=True)
    yield Paragraph(
        f"GPU memory of every phase · {report.created:%Y-%m-%d %H:%M %Z} · VRAM Planner {report.version} · "
        f"hardware catalogue of {report.catalogue}",
        tone="muted",
    )
    for label, text in report.template.rows():
        yield Paragraph(f"{label}: {text}")
    for index, sentence in enumerate(report.summary):
        yield Paragraph(sentence, bold=index == 0, above=6 if index else 10)
    yield Paragraph(unit_text(report), tone="muted", above=6)
    yield from (Paragraph(warning, tone="warning") for warning in report.warnings)
    yield from (Picture(chart) for chart in report.charts)
    yield PageBreak()
    yield heading("Verdicts")
    unit = report.unit
    yield Table(
        (
            Column("Phase"),
            Column("GPU or server"),
            *(Column(f"{what} ({unit})", "right", True) for what in ("Need", "Can use", "Room")),
            Column("Verdict"),
        ),
        [
            (
                Cell(row.phase),
                Cell(f"{row.where} (judge)" if row.judge else row.where),
                Cell(size(row.need_bytes, unit)),
                Cell(size(row.capacity_bytes, unit)),
                Cell(size(row.headroom_bytes, unit)),
                Cell(row.text, tone=row.verdict, bold=row.verdict == "oom"),
            )
            for part in report.phases
            for row in part.verdicts
        ],
    )


def _phase(part: PhasePart, report: Report, numbers: dict[str, int]) -> Iterator[Block]:
    unit, peak = report.unit, part.peak
    yield PageBreak()
    yield heading(" · ".join(text for text in (part.title, part.caption) if text))
    if peak.process_bytes:
        yield Paragraph(f"Needs most {part.when}.")
        figures = (
            ("Tensors alive", peak.allocated_bytes),
            ("Reserved by the allocator", peak.reserved_bytes),
            ("Low end of the band", peak.low_bytes),
            ("High end of the band", peak.high_bytes),
            *((COMPONENT_NAMES[name], count) for name, count in part.components.items()),
        )
        total = ("Whole process, the sum of the components", size(peak.process_bytes, unit), whole(peak.process_bytes))
        yield Table(
            (Column("Figure"), Column(unit, "right", True), Column("Bytes", "right", True)),
            [
                *((Cell(label), Cell(size(count, unit)), Cell(whole(count))) for label, count in figures),
                (Cell(total[0], bold=True), Cell(total[1], bold=True), Cell(total[2], bold=True)),
            ],
        )
    else:
        yield Paragraph("Needs no GPU memory.")
    if part.evidence:
        yield Paragraph(f"Evidence: {part.evidence.text}. {part.evidence.source}", above=8)
    yield from (Paragraph(warning, tone="warning") for warning in part.warnings)
    if peak.process_bytes:
        yield _moments(part, report)
    yield from _terms("Terms on a GPU, those at the peak first", part.terms, part, report, numbers)
    for component, count in part.rounding.items():
        name = COMPONENT_NAMES[component].lower()
        yield Paragraph(f"Rounding adds {whole(count)} bytes to {name} at the peak.", tone="muted")
    for title, terms in (
        ("Host RAM that processes hold, per server", part.host_terms),
        ("Page cache wanted, per server", part.cache_terms),
        ("Storage of the whole job", part.storage_terms),
    ):
        yield from _terms(title, terms, None, report, numbers)


def _moments(part: PhasePart, report: Report) -> Table:
    names = list(part.moments[0].components)
    return Table(
        (
            Column("Moment"),
            Column("Highest at"),
            *(Column(COMPONENT_NAMES[name], "right") for name in names),
            Column("Sum", "right", True),
        ),
        [
            (
                Cell(plain(moment.name)),
                Cell(plain(moment.instant)),
                *(Cell(size(moment.components[name], report.unit)) for name in names),
                Cell(size(moment.allocated_bytes, report.unit)),
            )
            for moment in part.moments
        ],
        f"Tensors alive at each moment ({report.unit})",
    )


def _terms(
    title: str, terms: Sequence[Term], part: PhasePart | None, report: Report, numbers: dict[str, int]
) -> Iterator[Block]:
    if not terms:
        return
    yield Table(
        (
            Column("Component"),
            Column("Term"),
            Column("Formula"),
            Column(report.unit, "right", True),
            Column("Bytes", "right", True),
            Column("Held in"),
            Column("Source", "right", True),
        ),
        [
            (
                Cell(COMPONENT_NAMES[term.component]),
                Cell(term.name),
                Cell(formula(term), note=derived(term)),
                Cell(size(int(term.bytes), report.unit)),
                Cell(whole(int(term.bytes))),
                _held(term, part),
                Cell(f"[{numbers[term.source]}]"),
            )
            for term in terms
        ],
        title,
    )


def _held(term: Term, part: PhasePart | None) -> Cell:
    if part is None:
        return Cell(moments(term))
    text = held_in(term, part)
    return Cell(text if text == ALWAYS or not part.at_peak(term) else f"at the peak; {text}")


def _section(section: Section, report: Report) -> Iterator[Block]:
    yield heading(section.title)
    yield from (Paragraph(note) for note in section.notes)
    if section.rows:
        sides: list[Side] = ["right" if isinstance(value, int) else "left" for value in section.rows[0]]
        yield Table(
            tuple(Column(head, side) for head, side in zip(section.head, sides, strict=True)),
            [tuple(Cell(cell_text(value, report.unit)) for value in row) for row in section.rows],
        )


def _end(report: Report) -> Iterator[Block]:
    yield PageBreak()
    for section in report.sections:
        yield from _section(section, report)
    yield heading("Assumptions")
    yield Table(
        (Column("Part"), Column("Field"), Column("Value"), Column("Unit"), Column("Stated")),
        [
            (
                Cell(row.where, tone="muted"),
                Cell(row.label),
                Cell(row.value),
                Cell(row.unit),
                Cell("stated" if row.stated else "default"),
            )
            for row in report.assumptions
        ],
    )
    yield heading("Sources")
    yield from (Paragraph(f"[{number}] {source}") for number, source in enumerate(report.sources, 1))
    yield heading("How to reproduce it")
    yield from (Paragraph(f"{number}. {step}") for number, step in enumerate(report.reproduce, 1))
    yield Paragraph("The scenario is attached to this document as plan.vramplan.")
