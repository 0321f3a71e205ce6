"""A report as slides: a summary and one for each phase, with native charts and tables; the terms are in the notes."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from math import ceil
from typing import Any

from pptx import Presentation
from pptx.util import Inches

from planner.chart.formula import formula
from planner.chart.names import COMPONENT_NAMES
from planner.chart.palette import COMPONENT_COLOURS
from planner.chart.spec import ChartSpec
from planner.engine.term import COMPONENTS, Component, Term
from planner.report.logo import logo_png
from planner.report.parts import PhasePart, Report, Section, VerdictRow
from planner.report.pptx_embedded import embed
from planner.report.pptx_lines import Line
from planner.report.pptx_slide import (
    HEIGHT,
    INK,
    MARGIN,
    MUTED,
    TONES,
    WIDTH,
    Box,
    Cell,
    Series,
    notes,
    shortened,
    stacked_chart,
    table,
    text_box,
    title,
    wide,
)
from planner.report.progress import Proceed, unwatched
from planner.report.words import cell_text, derived, held_in, moments, plain, size, whole
from planner.units import BYTES_PER_UNIT

_TITLE_ONLY = 5
"""The layout of python-pptx's own template that has a title and nothing else."""
_LEFT = 7.6
_MOST_VERDICTS = 8
_SHOWN = ("fit", "fleet")
"""Sections that have a slide; those beyond stand in the other formats."""
_MOST_ROWS = 7
_WIDEST_LINE = 135
"""Letters of 12 points between the margins."""
_LINES = ("1C2430", "667085", "98A2B3", "C4CAD3")


def pptx_report(report: Report, proceed: Proceed = unwatched) -> bytes:
    """The bytes of the file; `proceed` is told before each slide, and may call it off."""
    deck = Presentation()
    deck.slide_width, deck.slide_height = Inches(WIDTH), Inches(HEIGHT)
    about = deck.core_properties
    about.title, about.author = _property(report.name), _property(report.template.author)
    about.comments = f"VRAM Planner {report.version}"
    about.created = about.modified = report.created.replace(tzinfo=None)
    steps = len(report.phases) + 2
    proceed(0, steps)
    _summary(_slide(deck), report)
    for done, part in enumerate(report.phases, 1):
        proceed(done, steps)
        _phase(_slide(deck), part, report)
    proceed(steps - 1, steps)
    for section in report.sections:
        if section.kind in _SHOWN:
            _section(_slide(deck), section, report)
    _end(_slide(deck), report)
    embed(deck, report.scenario_json)
    buffer = BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def _slide(deck: Any) -> Any:
    return deck.slides.add_slide(deck.slide_layouts[_TITLE_ONLY])


def _property(text: str) -> str:
    """Properties of a file hold 255 letters."""
    return " ".join(text.split())[:255]


def _summary(slide: Any, report: Report) -> None:
    title(slide, report.name)
    _logo(slide, report)
    template = " · ".join(text for label, text in report.template.rows() if label != "Notes")
    lines = [(shortened(template, _WIDEST_LINE), 11.0, False, MUTED)] if template else []
    lines += [(sentence, 12.0 if index else 14.0, not index, INK) for index, sentence in enumerate(report.summary)]
    top = 1.2 + sum(size / 72 * 1.35 * ceil(wide(text) * size / 12 / _WIDEST_LINE) for text, size, _, _ in lines)
    text_box(slide, Box(MARGIN, 1.1, WIDTH - 2 * MARGIN, top - 1.1), lines)
    chart = report.charts[0]
    if chart.bars:
        _lifecycle(slide, Box(MARGIN, top, _LEFT, HEIGHT - 0.6 - top), chart, report)
    judged = [row for part in report.phases for row in part.verdicts if row.judge]
    rows = [[Cell("Phase"), Cell(f"Need ({report.unit})", True), Cell("Verdict")]]
    rows += [[Cell(row.phase), Cell(size(row.need_bytes, report.unit), True), _verdict(row)] for row in judged]
    if judged:
        right = MARGIN + _LEFT + 0.2
        text_box(slide, Box(right, top, WIDTH - MARGIN - right, 0.3), [(f"On {judged[0].where}", 12.0, True, INK)])
        table(slide, Box(right, top + 0.35, WIDTH - MARGIN - right, 0.3 * len(rows)), (3, 2, 4), rows)
    _foot(slide, report)
    told = (*report.warnings, *(f"{label}: {text}" for label, text in report.template.rows()))
    notes(slide, "\n".join((*report.summary, *told)))


def _logo(slide: Any, report: Report) -> None:
    """The company's picture at the upper right; the title makes room for it."""
    if report.template.logo is None:
        return
    picture = slide.shapes.add_picture(BytesIO(logo_png(report.template.logo)), 0, 0)
    scale = min(Inches(1.8) / picture.width, Inches(0.6) / picture.height)
    picture.width, picture.height = round(picture.width * scale), round(picture.height * scale)
    picture.left, picture.top = Inches(WIDTH - MARGIN) - picture.width, Inches(0.35)
    slide.shapes.title.width = picture.left - slide.shapes.title.left - Inches(0.2)


def _lifecycle(slide: Any, place: Box, chart: ChartSpec, report: Report) -> None:
    sizes = [{segment.component: segment.size_bytes for segment in bar.segments} for bar in chart.bars]
    scale = BYTES_PER_UNIT[report.unit]
    offered = [line for line in reversed(chart.capacities) if not line.beyond]
    lines = [
        Line(line.label, (line.capacity_bytes / scale,) * len(chart.bars), colour)
        for line, colour in zip(sorted(offered, key=lambda line: not line.judge), _LINES, strict=False)
    ]
    names = [f"{bar.short_name} {bar.caption}".strip() for bar in chart.bars]
    _stacks(slide, place, chart.title, names, sizes, report, lines)


def _stacks(
    slide: Any, place: Box, heading: str, names: Sequence[str], sizes: Sequence[dict[Component, int]], report: Report,
    lines: Sequence[Line] = (),
) -> None:  # fmt: skip
    scale = BYTES_PER_UNIT[report.unit]
    series = [
        Series(
            COMPONENT_NAMES[component],
            COMPONENT_COLOURS[component].removeprefix("#"),
            tuple(stack.get(component, 0) / scale for stack in sizes),
        )
        for component in COMPONENTS
        if any(stack.get(component) for stack in sizes)
    ]
    sums = Line("Sum", tuple(sum(stack.values()) / scale or None for stack in sizes))
    if series:
        stacked_chart(slide, place, f"{heading} ({report.unit})", names, series, [sums, *lines])


def _phase(slide: Any, part: PhasePart, report: Report) -> None:
    unit, peak = report.unit, part.peak
    title(slide, " · ".join(text for text in (part.title, part.caption) if text))
    right = MARGIN + _LEFT + 0.2
    if peak.process_bytes:
        told = (
            f"Needs most {part.when}: {size(peak.process_bytes, unit)} {unit} per GPU, with uncertainty "
            f"{size(peak.low_bytes, unit)} to {size(peak.high_bytes, unit)}. Tensors alive are "
            f"{size(peak.allocated_bytes, unit)}, reserved are {size(peak.reserved_bytes, unit)}."
        )
        names = [plain(moment.name) for moment in part.moments]
        sizes = [{name: count for name, count in moment.components.items() if count} for moment in part.moments]
        _stacks(slide, Box(MARGIN, 1.8, _LEFT, 5.1), "Tensors alive at each moment", names, sizes, report)
        rows = [[Cell("Component at the peak"), Cell(unit, True), Cell("Bytes", True)]]
        rows += [
            [Cell(COMPONENT_NAMES[name]), Cell(size(count, unit), True), Cell(whole(count), True)]
            for name, count in part.components.items()
        ]
        total = (size(peak.process_bytes, unit), whole(peak.process_bytes))
        rows.append([Cell("Whole process", bold=True), *(Cell(text, True, True) for text in total)])
        table(slide, Box(right, 1.85, WIDTH - MARGIN - right, 0.27 * len(rows)), (5, 3, 4), rows)
        below = 1.85 + 0.27 * len(rows) + 0.2
    else:
        told = "Needs no GPU memory."
        rows = [[Cell("Beside the GPUs"), Cell(unit, True), Cell("Formula")]]
        around = (*part.host_terms, *part.storage_terms)
        rows += [[Cell(term.name), Cell(size(int(term.bytes), unit), True), Cell(formula(term))] for term in around[:9]]
        table(slide, Box(MARGIN, 1.85, _LEFT, 0.4 * len(rows)), (3, 1, 6), rows)
        below = 1.85
    text_box(slide, Box(MARGIN, 1.1, WIDTH - 2 * MARGIN, 0.6), [(told, 13.0, False, INK)])
    shown = sorted(part.verdicts, key=lambda row: not row.judge)
    if shown:
        rows = [[Cell("GPU or server"), Cell("Verdict")]]
        rows += [[Cell(row.where, bold=row.judge), _verdict(row)] for row in shown[:_MOST_VERDICTS]]
        table(slide, Box(right, below, WIDTH - MARGIN - right, 0.27 * len(rows)), (1, 1), rows, size=10)
    _foot(slide, report)
    notes(slide, "\n".join((told, *_told(part, report))))


def _verdict(row: VerdictRow) -> Cell:
    return Cell(row.text, bold=row.verdict == "oom", colour=TONES[row.verdict])


def _told(part: PhasePart, report: Report) -> Iterator[str]:
    """Every term with its formula and source, for the notes."""
    if part.evidence:
        yield f"Evidence: {part.evidence.text}. {part.evidence.source}"
    yield from part.warnings
    for row in part.verdicts:
        yield f"{row.where}: {row.text}."
    for term in part.terms:
        yield f"{_term(term, report)}; held in {held_in(term, part)}; {term.source}"
    for term in (*part.host_terms, *part.cache_terms, *part.storage_terms):
        yield f"{_term(term, report)}; {moments(term)}; {term.source}"


def _term(term: Term, report: Report) -> str:
    made = "; ".join(text for text in (formula(term), derived(term)) if text)
    amount = f"{size(int(term.bytes), report.unit)} {report.unit}, {whole(int(term.bytes))} bytes"
    return f"{COMPONENT_NAMES[term.component]}, {term.name}: {amount} = {made}"


def _section(slide: Any, section: Section, report: Report) -> None:
    """The first rows, without their sources, which stand in the notes with everything else."""
    title(slide, section.title)
    text_box(slide, Box(MARGIN, 1.1, WIDTH - 2 * MARGIN, 0.9), [(note, 12.0, False, INK) for note in section.notes])
    columns = [index for index, head in enumerate(section.head) if head not in ("Source", "Costs")]
    rows = [[Cell(section.head[index]) for index in columns]]
    for row in section.rows[:_MOST_ROWS]:
        rows.append([Cell(cell_text(row[index], report.unit), isinstance(row[index], int)) for index in columns])
    widths = [4 if index == 0 and section.kind == "fit" else 2 for index in columns]
    if section.rows:
        table(slide, Box(MARGIN, 2.2, WIDTH - 2 * MARGIN, 0.4 * len(rows)), widths, rows, size=10)
    _foot(slide, report)
    told = (" | ".join(cell_text(value, report.unit) for value in row) for row in (section.head, *section.rows))
    notes(slide, "\n".join((*section.notes, *told)))


def _end(slide: Any, report: Report) -> None:
    title(slide, "How to reproduce it")
    steps = [(f"{number}. {step}", 14.0, False, INK) for number, step in enumerate(report.reproduce, 1)]
    steps.append(("The scenario is embedded in this file, and stands in the notes of this slide.", 14.0, False, INK))
    stated = [row for row in report.assumptions if row.stated]
    steps.append((f"Stated in the scenario: {len(stated)} of {len(report.assumptions)} settings.", 14.0, False, INK))
    steps += [(warning, 12.0, False, TONES["warning"]) for warning in report.warnings[:6]]
    text_box(slide, Box(MARGIN, 1.2, WIDTH - 2 * MARGIN, 4.5), steps)
    _foot(slide, report)
    notes(slide, report.scenario_json)


def _foot(slide: Any, report: Report) -> None:
    text = f"VRAM Planner {report.version} · {report.created:%Y-%m-%d} · hardware catalogue of {report.catalogue}"
    text_box(slide, Box(MARGIN, HEIGHT - 0.45, WIDTH - 2 * MARGIN, 0.3), [(text, 9.0, False, MUTED)])
