"""A report as one long table for programs and spreadsheets: a row for each figure, sizes in bytes."""

import csv
from collections.abc import Iterator
from io import StringIO

from planner.chart.formula import formula
from planner.chart.names import COMPONENT_NAMES
from planner.engine.term import Term
from planner.report.parts import PhasePart, Report, Section
from planner.report.words import derived, moments, plain

HEAD = ("Section", "Phase", "Item", "Detail", "Value", "Unit", "Formula", "Derived", "Held in", "Source")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for the start of a formula (OWASP, CSV injection)."""
Row = tuple[str | int | float, ...]


def csv_report(report: Report) -> str:
    """The text of the file. Texts that a spreadsheet would run get an apostrophe before them."""
    written = StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(HEAD)
    for row in _rows(report):
        cells = [safe(cell) if isinstance(cell, str) else cell for cell in row]
        writer.writerow([*cells, *[""] * (len(HEAD) - len(cells))])
    return written.getvalue()


def safe(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_STARTS) or text.startswith(FORMULA_STARTS) else text


def _rows(report: Report) -> Iterator[Row]:
    yield "About", "", "Name", "", report.name
    yield "About", "", "Created", "", report.created.isoformat(timespec="seconds")
    yield "About", "", "VRAM Planner", "", report.version
    yield "About", "", "Hardware catalogue", "", report.catalogue
    for label, text in report.template.rows():
        yield "About", "", label, "", text
    for sentence in report.summary:
        yield "Summary", "", "", "", sentence
    yield "Model", "", "Parameters", "", report.model.parameters, "parameters"
    yield "Model", "", "Active parameters", "", report.model.active_parameters, "parameters"
    for part in report.phases:
        for row in part.verdicts:
            yield "Verdict", row.phase, row.where, "", row.text
            yield "Verdict", row.phase, row.where, "Need", row.need_bytes, "bytes"
            if row.capacity_bytes is not None:
                yield "Verdict", row.phase, row.where, "Can use", row.capacity_bytes, "bytes"
            if row.headroom_bytes is not None:
                yield "Verdict", row.phase, row.where, "Room", row.headroom_bytes, "bytes"
    for part in report.phases:
        yield from _part(part)
    for section in report.sections:
        yield from _section(section, report)
    for field in report.assumptions:
        stated = "stated" if field.stated else "default"
        yield "Assumption", field.where, field.label, stated, field.value, field.unit
    for warning in report.warnings:
        yield "Warning", "", "", "", warning
    for step in report.reproduce:
        yield "How to reproduce it", "", "", "", step
    yield "Scenario", "", "", "", report.scenario_json


def _section(section: Section, report: Report) -> Iterator[Row]:
    for note in section.notes:
        yield section.title, "", "", "", note
    for first, *values in section.rows:
        for head, value in zip(section.head[1:], values, strict=True):
            unit = "bytes" if isinstance(value, int) else ""
            yield section.title, "", str(first), head.removesuffix(f" ({report.unit})"), value, unit


def _part(part: PhasePart) -> Iterator[Row]:
    title, peak = part.title, part.peak
    for name, count in (
        ("Whole process", peak.process_bytes),
        ("Reserved by the allocator", peak.reserved_bytes),
        ("Tensors alive", peak.allocated_bytes),
        ("Low end of the band", peak.low_bytes),
        ("High end of the band", peak.high_bytes),
    ):
        yield "Peak", title, name, part.when, count, "bytes"
    for component, count in part.components.items():
        yield "Component at the peak", title, COMPONENT_NAMES[component], "", count, "bytes"
    for moment in part.moments:
        yield "Moment", title, plain(moment.name), plain(moment.instant), moment.allocated_bytes, "bytes"
    for term in part.terms:
        yield _term("Term at the peak" if part.at_peak(term) else "Term", title, term)
    for component, count in part.rounding.items():
        yield "Term at the peak", title, "rounding", COMPONENT_NAMES[component], count, "bytes"
    for kind, terms in (
        ("Host RAM", part.host_terms),
        ("Page cache", part.cache_terms),
        ("Storage", part.storage_terms),
    ):
        for term in terms:
            yield _term(kind, title, term)
    if part.evidence:
        yield "Evidence", title, part.evidence.case_class, "", part.evidence.text, "", "", "", "", part.evidence.source
    for warning in part.warnings:
        yield "Warning", title, "", "", warning


def _term(section: str, title: str, term: Term) -> Row:
    return (
        section,
        title,
        term.name,
        COMPONENT_NAMES[term.component],
        int(term.bytes),
        "bytes",
        formula(term),
        derived(term),
        moments(term),
        term.source,
    )
