"""A spreadsheet program that calculates everything itself comes to the same totals."""

import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from openpyxl import load_workbook

from planner.report.xlsx import xlsx_report

PROGRAM = shutil.which("soffice")


@pytest.mark.skipif(PROGRAM is None, reason="LibreOffice is not installed")
def test_libreoffice_calculates_the_peaks_of_the_plan(report, tmp_path: Path):
    book = load_workbook(BytesIO(xlsx_report(report)))
    bare = tmp_path / "bare.xlsx"
    book.save(bare)  # openpyxl keeps the formulas and drops what they give
    assert load_workbook(bare, data_only=True)["Phases"]["D2"].value is None
    out = tmp_path / "calculated"
    subprocess.run(
        [str(PROGRAM), f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}", "--headless", "--convert-to", "xlsx",
         "--outdir", str(out), str(bare)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    calculated = load_workbook(out / "bare.xlsx", data_only=True)
    sheet = calculated["Phases"]
    heads = [cell.value for cell in sheet[1]]
    rows = list(sheet.iter_rows(min_row=2, max_row=1 + len(report.phases), values_only=True))
    for row, part in zip(rows, report.phases, strict=True):
        shown = dict(zip(heads, row, strict=True))
        assert shown["Peak (bytes)"] == part.peak.process_bytes
        assert shown["Peak (GiB)"] == pytest.approx(part.peak.process_bytes / 2**30)
    terms = [int(term.bytes) for part in report.phases for term in part.terms]
    values = [row[5] for row in calculated["Terms"].iter_rows(min_row=2, values_only=True) if row[2] != "rounding"]
    assert sorted(values) == sorted(terms)
