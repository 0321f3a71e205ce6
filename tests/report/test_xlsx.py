import re
from dataclasses import replace
from io import BytesIO
from math import prod

import pytest
from openpyxl import load_workbook
from openpyxl.utils import range_boundaries

from planner.report.xlsx import xlsx_report
from planner.report.xlsx_sheet import cell_name


def opened(report, *, values: bool = False):
    return load_workbook(BytesIO(xlsx_report(report)), data_only=values)


@pytest.fixture(scope="module")
def book(report):
    return opened(report)


def result(book, sheet, cell) -> float:
    """What a program that calculates would show, by the few formulas that there are."""
    if not isinstance(cell.value, str) or not cell.value.startswith("="):
        return cell.value or 0
    formula = cell.value[1:]
    if found := re.fullmatch(r"INT\(([A-Z]+\d+(?:\*[A-Z]+\d+)*)\)", formula):
        return int(prod(result(book, sheet, sheet[name]) for name in found[1].split("*")))
    if found := re.fullmatch(r"SUM\((?:(\w+)!)?([A-Z]+\d+:[A-Z]+\d+)\)(?:/(\d+))?", formula):
        at = book[found[1]] if found[1] else sheet
        left, top, right, bottom = range_boundaries(found[2])
        cells = [cell for row in at.iter_rows(top, bottom, left, right) for cell in row]
        return sum(result(book, at, cell) for cell in cells) / int(found[3] or 1)
    if found := re.fullmatch(r"([A-Z]+\d+)/(\d+)", formula):
        return result(book, sheet, sheet[found[1]]) / int(found[2])
    if found := re.fullmatch(r"([A-Z]+\d+)-([A-Z]+\d+)", formula):
        return result(book, sheet, sheet[found[1]]) - result(book, sheet, sheet[found[2]])
    raise AssertionError(formula)


def column(sheet, title: str) -> int:
    return next(cell.column for cell in sheet[1] if cell.value == title)


def test_the_sheets_are_those_of_a_review(book):
    assert book.sheetnames == [
        "Summary", "Phases", "Terms", "Moments", "Host & storage", "Assumptions", "Sources", "Scenario"
    ]  # fmt: skip


def test_formulas_of_the_terms_give_their_bytes(book, report):
    sheet = book["Terms"]
    rows = [row for row in sheet.iter_rows(min_row=2) if row[2].value != "rounding"]
    wanted = sorted((part.title, term.name, int(term.bytes)) for part in report.phases for term in part.terms)
    assert sorted((row[0].value, row[2].value, result(book, sheet, row[5])) for row in rows) == wanted


def test_formulas_of_the_phases_give_the_plans_peaks(book, report):
    sheet = book["Phases"]
    exact, scaled = column(sheet, "Peak (bytes)") - 1, column(sheet, "Peak (GiB)") - 1
    rows = list(sheet.iter_rows(min_row=2, max_row=1 + len(report.phases)))
    for row, part in zip(rows, report.phases, strict=True):
        assert result(book, sheet, row[exact]) == part.peak.process_bytes
        assert result(book, sheet, row[scaled]) == pytest.approx(part.peak.process_bytes / 2**30)


def test_every_formula_carries_what_it_gives(book, report):
    shown = opened(report, values=True)
    formulas = 0
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                if cell.data_type == "f":
                    formulas += 1
                    stored = shown[sheet.title][cell.coordinate].value
                    assert stored == pytest.approx(result(book, sheet, cell), abs=1e-6)
    assert formulas > 400


def test_host_ram_and_storage_sum_to_the_plan(book, report):
    sheet = book["Host & storage"]
    sums = {(row[0].value, row[4].value): result(book, sheet, row[5])
            for row in sheet.iter_rows(min_row=2) if row[2].value == "Sum"}  # fmt: skip
    for part in report.phases:
        if part.host_terms:
            assert sums[part.title, "Host RAM, per server"] == sum(int(term.bytes) for term in part.host_terms)


def test_the_chart_is_a_native_stacked_one_with_a_series_per_component(book):
    (chart,) = book["Phases"]._charts
    assert chart.grouping == "stacked"
    assert len(chart.series) == 8
    assert chart.series[0].val.numRef.f == "Phases!$D$2:$D$7"


def test_heads_name_their_units(book):
    heads = [cell.value for cell in book["Phases"][1]]
    assert "Weights (GiB)" in heads
    assert "Tensors alive (bytes)" in heads


def test_texts_that_look_like_formulas_stay_texts(hostile_report, hostile):
    book = opened(hostile_report)
    cell = book["Summary"]["A1"]
    assert (cell.value, cell.data_type) == (hostile, "s")
    texts = {row[1].value: row[1].data_type for row in book["Summary"].iter_rows(min_row=2, max_row=12)}
    assert texts["+1"] == texts["@draft"] == texts[hostile] == "s"
    allowed = re.compile(r"=(INT\(|SUM\(|[A-Z]+\d+[-/])")
    for sheet in book:
        for row in sheet.iter_rows():
            assert all(allowed.match(cell.value) for cell in row if cell.data_type == "f")


def test_cells_are_named_as_spreadsheets_name_them():
    assert [cell_name(row, column) for row, column in ((0, 0), (2, 1), (9, 25), (0, 26))] == ["A1", "B3", "Z10", "AA1"]


def test_a_name_that_looks_like_the_writers_own_markup_is_a_text(report):
    book = opened(replace(report, name="<r>&</r>"))
    assert book["Summary"]["A1"].value.strip() == "<r>&</r>"
