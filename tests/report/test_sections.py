"""What is searched for beside the plan: advice, GPUs needed, and measured cases, in every format."""

import csv
from io import BytesIO, StringIO

import html5lib
import pytest
from openpyxl import load_workbook
from pptx import Presentation
from pypdf import PdfReader

from planner.catalog import load_catalog
from planner.engine.estimate import estimate
from planner.evidence.alike import cases_alike
from planner.report.csv import csv_report
from planner.report.findings import Findings, search_advice, search_fleet
from planner.report.html import html_report
from planner.report.markdown import markdown_report
from planner.report.parts import Report
from planner.report.pdf import pdf_report
from planner.report.pptx import pptx_report
from planner.report.tables import build_report
from planner.report.xlsx import xlsx_report
from planner.units import GIB


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int]]:
    return []


@pytest.fixture(scope="module")
def findings(scenario, plan, told) -> Findings:
    def tell(what: str, done: int, most: int) -> None:
        told.append((what, done, most))

    catalog = load_catalog()
    advice = search_advice(scenario, plan, catalog, tell)
    return Findings(advice, search_fleet(scenario, catalog, tell), cases_alike(scenario, plan))


@pytest.fixture(scope="module")
def searched(scenario, plan, findings, created) -> Report:
    return build_report(scenario, plan, load_catalog(), created=created, findings=findings)


def section(report: Report, title: str):
    (found,) = [section for section in report.sections if section.title == title]
    return found


def test_only_a_phase_that_does_not_fit_is_advised(searched, plan):
    assert [item.title for item in searched.sections if item.kind == "fit"] == ["What would make it fit: Serving"]
    assert {name for name, phase in plan.phases.items() if phase.own_verdicts["l40s"].verdict == "oom"} == {"serving"}


def test_what_advice_promises_is_what_the_estimate_finds(searched, scenario, findings):
    first = findings.advice["serving"].suggestions[0]
    changed = scenario
    for path, value in first.edits:
        changed = changed.with_value(path, value)
    row = section(searched, "What would make it fit: Serving").rows[0]
    assert row[2] == estimate(changed, load_catalog()).phases["serving"].peak.process_bytes
    assert str(row[3]).startswith("fits")


def test_every_source_of_advice_is_listed(searched):
    advised = section(searched, "What would make it fit: Serving")
    assert advised.sources
    assert set(advised.sources) <= set(searched.sources)


def test_gpus_needed_are_told_for_every_chosen_gpu_and_phase(searched, scenario):
    needed = section(searched, "GPUs needed")
    assert len(needed.rows) == len(scenario.hardware.gpus)
    assert needed.head[1:-1] == ("Design & validation", "Training", "Fine-tuning", "Evaluation", "Serving")
    l40s = next(row for row in needed.rows if "L40S" in str(row[0]))
    assert str(l40s[5]).startswith("2: TP 2")


def test_measured_cases_are_told_with_errors_and_sources(searched):
    alike = section(searched, "Measured cases like it: Fine-tuning")
    assert "Class of case: training." in alike.notes[0]
    assert alike.rows
    assert all(row[-1] for row in alike.rows)


def test_the_searches_tell_how_far_they_are(told, findings):
    assert findings.fleet
    assert {what for what, _, _ in told} == {"What would make serving fit", "How many GPUs each phase needs"}
    assert all(done <= most for _, done, most in told)


def test_every_format_holds_the_sections(searched):
    first = section(searched, "What would make it fit: Serving").rows[0]
    change, size = str(first[0]), f"{int(first[2]) / GIB:.3f}"
    strict = html5lib.HTMLParser(strict=True, tree=html5lib.getTreeBuilder("lxml"))  # raises for what is not valid
    page = strict.parse(html_report(searched))
    html = " ".join(page.getroot().itertext())
    pdf = " ".join(" ".join(page.extract_text().split()) for page in PdfReader(BytesIO(pdf_report(searched))).pages)
    for text in (html, pdf, markdown_report(searched)):
        for wanted in ("What would make it fit: Serving", change, size, "GPUs needed", "Measured cases like it"):
            assert wanted in text
    rows = list(csv.reader(StringIO(csv_report(searched), newline="")))
    assert ["What would make it fit: Serving", "", change, "Peak", str(first[2]), "bytes"] in [row[:6] for row in rows]
    book = load_workbook(BytesIO(xlsx_report(searched)), data_only=True)
    cells = [cell.value for row in book["What would fit"].iter_rows() for cell in row]
    assert change in cells
    assert pytest.approx(int(first[2]) / GIB) in [cell for cell in cells if isinstance(cell, float)]
    assert "Measured cases" in book.sheetnames
    slides = Presentation(BytesIO(pptx_report(searched))).slides
    titles = [slide.shapes.title.text_frame.text for slide in slides]
    assert titles[-3:] == ["What would make it fit: Serving", "GPUs needed", "How to reproduce it"]
