"""The sheets of terms: a row each, with its factors in columns and its bytes as their live product."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from planner.chart.names import COMPONENT_NAMES
from planner.engine.term import COMPONENTS, Component, Term
from planner.report.parts import PhasePart, Report
from planner.report.words import derived, moments
from planner.report.xlsx_sheet import Cell, Formula, Sheet, cell_name
from planner.units import BYTES_PER_UNIT

Ranges: TypeAlias = dict[tuple[str, Component | None], str]
"""Where the bytes of a phase's terms at the peak stand, by component and (None) together."""

_BYTES = 5
_FIXED = 9
_HEAD = ("Phase", "Component", "Term", "At the peak", "Held in", "Bytes")


def write_terms(sheet: Sheet, report: Report) -> Ranges:
    """Every term on a GPU. Those at the peak stand together, by component, so that ranges of them can be summed."""
    parts = report.phases
    _head(sheet, report, (term for part in parts for term in part.terms))
    ranges: Ranges = {}
    for part in parts:
        start = sheet.next_row
        for component in COMPONENTS:
            first = sheet.next_row
            for term in part.terms:
                if term.component == component and part.at_peak(term):
                    _term(sheet, [part.title, COMPONENT_NAMES[component], term.name, "yes"], term, report)
            if component in part.rounding:
                _rounding(sheet, part, component, report)
            if sheet.next_row > first:
                ranges[part.title, component] = _range(first, sheet.next_row - 1)
        if sheet.next_row > start:
            ranges[part.title, None] = _range(start, sheet.next_row - 1)
        for term in part.terms:
            if not part.at_peak(term):
                _term(sheet, [part.title, COMPONENT_NAMES[term.component], term.name, "no"], term, report)
    return ranges


def write_around(sheet: Sheet, report: Report) -> None:
    """Host RAM, page cache and storage: blocks of terms, each with its sum below it."""
    blocks = list(_blocks(report))
    _head(sheet, report, (term for _, _, terms in blocks for term in terms))
    for title, kind, terms in blocks:
        first = sheet.next_row
        for term in terms:
            _term(sheet, [title, COMPONENT_NAMES[term.component], term.name, ""], term, report, held=kind)
        total = Formula(f"=SUM({_range(first, sheet.next_row - 1)})", sum(int(term.bytes) for term in terms))
        scaled = _scaled(sheet.next_row, int(total.value), report)
        sheet.row([title, "", "Sum", "", kind, total, scaled])


def _blocks(report: Report) -> Iterator[tuple[str, str, Sequence[Term]]]:
    for part in report.phases:
        for kind, terms in (
            ("Host RAM, per server", part.host_terms),
            ("Page cache wanted, per server", part.cache_terms),
            ("Storage of the whole job", part.storage_terms),
        ):
            if terms:
                yield part.title, kind, terms


def _head(sheet: Sheet, report: Report, terms: Iterable[Term]) -> None:
    most = max((len(term.factors) for term in terms), default=0)
    factors = [text for index in range(1, most + 1) for text in (f"Factor {index}", f"Value {index}")]
    sheet.widths(26, 18, 40, 12, 30, 20, 12, 40, 60, *[22, 16] * most)
    sheet.head(*_HEAD, report.unit, "How factors are derived", "Source of the rule", *factors)


def _term(sheet: Sheet, opening: list[Cell], term: Term, report: Report, *, held: str = "") -> None:
    row = sheet.next_row
    factors: list[Cell] = []
    values: list[str] = []
    for index, factor in enumerate(term.factors):
        number = float(factor.value)
        factors += [factor.name, int(number) if number.is_integer() else number]
        values.append(cell_name(row, _FIXED + 2 * index + 1))
    size = int(term.bytes)
    product = Formula(f"=INT({'*'.join(values)})", size)
    scaled = _scaled(row, size, report)
    sheet.row([*opening, held or moments(term), product, scaled, derived(term), term.source, *factors])


def _rounding(sheet: Sheet, part: PhasePart, component: Component, report: Report) -> None:
    size = part.rounding[component]
    scaled = _scaled(sheet.next_row, size, report)
    sheet.row([part.title, COMPONENT_NAMES[component], "rounding", "yes", "", size, scaled])


def _scaled(row: int, size: int, report: Report) -> Formula:
    scale = BYTES_PER_UNIT[report.unit]
    return Formula(f"={cell_name(row, _BYTES)}/{scale}", size / scale)


def _range(first: int, last: int) -> str:
    return f"{cell_name(first, _BYTES)}:{cell_name(last, _BYTES)}"
