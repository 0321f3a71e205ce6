"""A report as a workbook: terms are live products of their factors, sums are sums, and the chart is its own."""

from collections.abc import Iterator, Sequence
from io import BytesIO

from xlsxwriter import Workbook as Writer

from planner.chart.names import COMPONENT_NAMES
from planner.chart.palette import COMPONENT_COLOURS
from planner.engine.term import COMPONENTS
from planner.report.logo import logo_png
from planner.report.parts import Report, Section
from planner.report.words import plain
from planner.report.xlsx_sheet import Cell, Formula, Sheet, Workbook, cell_name
from planner.report.xlsx_terms import Ranges, write_around, write_terms
from planner.units import BYTES_PER_UNIT

CHUNK = 30_000
"""Letters of the scenario per cell, of which a cell holds 32 767."""


def xlsx_report(report: Report) -> bytes:
    """The bytes of the file."""
    buffer = BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with Writer(buffer, options) as writer:
        writer.set_properties(
            {
                "title": report.name,
                "author": report.template.author,
                "company": report.template.company,
                "comments": f"VRAM Planner {report.version}",
                "created": report.created.replace(tzinfo=None),
            }
        )
        book = Workbook(writer)
        summary, phases = book.sheet("Summary"), book.sheet("Phases")
        ranges = write_terms(book.sheet("Terms"), report)
        _write_summary(summary, report)
        _write_phases(book, phases, report, ranges)
        _write_moments(book.sheet("Moments"), report)
        write_around(book.sheet("Host & storage"), report)
        for title, kinds in (("What would fit", ("fit", "fleet")), ("Measured cases", ("alike",))):
            sections = [section for section in report.sections if section.kind in kinds]
            if sections:
                _write_sections(book.sheet(title), report, sections)
        _write_assumptions(book.sheet("Assumptions"), report)
        _write_sources(book.sheet("Sources"), report)
        _write_scenario(book.sheet("Scenario"), report)
    return buffer.getvalue()


def _write_summary(sheet: Sheet, report: Report) -> None:
    unit = report.unit
    sheet.widths(26, 34, 16, 16, 16, 44)
    sheet.row([report.name], style="title")
    if report.template.logo is not None:
        sheet.picture(0, 6, logo_png(report.template.logo))
    for label, text in (
        ("Created", f"{report.created:%Y-%m-%d %H:%M %Z}"),
        ("VRAM Planner", report.version),
        ("Hardware catalogue", report.catalogue),
        *report.template.rows(),
    ):
        sheet.row([label, text])
    sheet.row(["Parameters", report.model.parameters])
    sheet.row(["Active parameters", report.model.active_parameters])
    sheet.blank()
    for sentence in report.summary:
        sheet.row([sentence])
    for warning in report.warnings:
        sheet.row([warning])
    sheet.blank()
    sheet.head("Phase", "GPU or server", f"Need ({unit})", f"Can use ({unit})", f"Room ({unit})", "Verdict")
    scale = BYTES_PER_UNIT[unit]
    for part in report.phases:
        for row in part.verdicts:
            need, capacity = (cell_name(sheet.next_row, column) for column in (2, 3))
            known = row.capacity_bytes is not None and row.headroom_bytes is not None
            room: Cell = Formula(f"={capacity}-{need}", (row.headroom_bytes or 0) / scale) if known else ""
            offered: Cell = "" if row.capacity_bytes is None else row.capacity_bytes / scale
            where = f"{row.where} (judge)" if row.judge else row.where
            sheet.row([row.phase, where, row.need_bytes / scale, offered, room, row.text])
    sheet.blank()
    sheet.head("Phase", "Class of case", "Low", "High", "", "Evidence")
    for part in report.phases:
        if part.evidence:
            found = part.evidence
            sheet.row([part.title, found.case_class, found.low, found.high, "", found.source])
    sheet.blank()
    for part in report.phases:
        for warning in part.warnings:
            sheet.row([part.title, warning])
    for step in report.reproduce:
        sheet.row(["How to reproduce it", step])


def _write_phases(book: Workbook, sheet: Sheet, report: Report, ranges: Ranges) -> None:
    """A row per phase; each component is the sum of its terms at the peak, which stand together among the terms."""
    unit, scale = report.unit, BYTES_PER_UNIT[report.unit]
    present = [name for name in COMPONENTS if any(name in part.components for part in report.phases)]
    sheet.widths(34, 14, 44, *[14] * (len(present) + 1), *[20] * 5)
    sheet.head(
        "Phase", "Workload", "Needs most",
        *(f"{COMPONENT_NAMES[name]} ({unit})" for name in present),
        f"Peak ({unit})", "Peak (bytes)", "Tensors alive (bytes)", "Reserved (bytes)", "Low (bytes)", "High (bytes)",
    )  # fmt: skip
    first = sheet.next_row
    for part in report.phases:
        row = sheet.next_row
        cells: list[Cell] = []
        for name in present:
            found = ranges.get((part.title, name))
            size = part.components.get(name, 0)
            cells.append(Formula(f"=SUM(Terms!{found})/{scale}", size / scale) if found else 0)
        start, end = cell_name(row, 3), cell_name(row, 2 + len(present))
        held = ranges.get((part.title, None))
        peak = part.peak
        total: Cell = Formula(f"=SUM({start}:{end})", peak.process_bytes / scale) if present else 0
        exact: Cell = Formula(f"=SUM(Terms!{held})", peak.process_bytes) if held else 0
        sheet.row(
            [part.title, part.caption, part.when if peak.process_bytes else "", *cells, total, exact,
             peak.allocated_bytes, peak.reserved_bytes, peak.low_bytes, peak.high_bytes]
        )  # fmt: skip
    if present and report.phases:
        colours = [(index + 3, COMPONENT_COLOURS[name]) for index, name in enumerate(present)]
        book.stacked_columns(sheet, first, sheet.next_row - 1, colours, report.charts[0].title, f"{unit} per GPU")


def _write_moments(sheet: Sheet, report: Report) -> None:
    unit, scale = report.unit, BYTES_PER_UNIT[report.unit]
    names = [name for name in COMPONENTS if name != "overhead"]
    sheet.widths(34, 18, 40, *[16] * (len(names) + 1))
    sheet.head(
        "Phase", "Moment", "Highest at",
        *(f"{COMPONENT_NAMES[name]} ({unit})" for name in names), f"Tensors alive ({unit})",
    )  # fmt: skip
    for part in report.phases:
        for moment in part.moments:
            row = sheet.next_row
            sizes = [moment.components.get(name, 0) / scale for name in names]
            total = Formula(
                f"=SUM({cell_name(row, 3)}:{cell_name(row, 2 + len(names))})", moment.allocated_bytes / scale
            )
            sheet.row([part.title, plain(moment.name), plain(moment.instant), *sizes, total])


def _write_sections(sheet: Sheet, report: Report, sections: Sequence[Section]) -> None:
    sheet.widths(60, 24, 18, 30, 18, 18, 50, 60)
    for section in sections:
        sheet.row([section.title], style="title")
        for note in section.notes:
            sheet.row([note])
        if section.rows:
            sheet.head(*section.head)
        for row in section.rows:
            sheet.row([value / BYTES_PER_UNIT[report.unit] if isinstance(value, int) else value for value in row])
        sheet.blank()


def _write_assumptions(sheet: Sheet, report: Report) -> None:
    sheet.widths(50, 34, 50, 16, 12, 60)
    sheet.head("Part", "Field", "Value", "Unit", "Stated", "Path in the scenario")
    for row in report.assumptions:
        stated = "stated" if row.stated else "default"
        sheet.row([row.where, row.label, row.value, row.unit, stated, row.path])


def _write_sources(sheet: Sheet, report: Report) -> None:
    sheet.widths(160)
    sheet.head("Where the rules come from")
    for source in report.sources:
        sheet.row([source])


def _write_scenario(sheet: Sheet, report: Report) -> None:
    sheet.widths(120)
    for chunk in _chunks(report.scenario_json):
        sheet.row([chunk])


def _chunks(text: str) -> Iterator[str]:
    for start in range(0, len(text), CHUNK):
        yield text[start : start + CHUNK]
