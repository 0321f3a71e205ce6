import zlib
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from planner.errors import ScenarioError
from planner.report.opening import load_report
from planner.report.write import write_report

ENDINGS = (".html", ".md", ".xlsx", ".pptx", ".pdf", ".csv")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_report_opens_as_the_scenario_that_it_is_about(tmp_path, report, scenario, ending):
    path = tmp_path / f"report{ending}"
    write_report(report, path)
    assert load_report(path) == scenario


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_hostile_name_survives_the_way_through_a_report(tmp_path, hostile_report, hostile, ending):
    path = tmp_path / f"report{ending}"
    write_report(hostile_report, path)
    assert load_report(path).name == hostile


@pytest.mark.parametrize("ending", [".html", ".md", ".csv"])
def test_another_document_is_refused_in_a_sentence(tmp_path, ending):
    path = tmp_path / f"notes{ending}"
    path.write_text("<p>Nothing</p>\n```\n{}\n```\n", "utf-8")
    with pytest.raises(ScenarioError, match=r"notes.* cannot be opened. No scenario is embedded in it"):
        load_report(path)


def test_a_workbook_that_is_none_is_refused(tmp_path):
    path = tmp_path / "report.xlsx"
    path.write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ScenarioError, match="not a workbook, or it is damaged"):
        load_report(path)


def test_a_workbook_with_entities_is_refused(tmp_path):
    package = BytesIO()
    with ZipFile(package, "w") as writer:
        writer.writestr("xl/workbook.xml", '<!DOCTYPE a [<!ENTITY b "ccc">]><a>&b;</a>')
    path = tmp_path / "report.xlsx"
    path.write_bytes(package.getvalue())
    with pytest.raises(ScenarioError, match="damaged"):
        load_report(path)


def test_entities_in_another_encoding_are_refused_too(tmp_path):
    package = BytesIO()
    with ZipFile(package, "w") as writer:
        text = '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a [<!ENTITY b "ccc">]><a>&b;</a>'
        writer.writestr("xl/workbook.xml", text.encode("utf-16"))
    path = tmp_path / "report.xlsx"
    path.write_bytes(package.getvalue())
    with pytest.raises(ScenarioError, match="damaged"):
        load_report(path)


def test_a_workbook_whose_compressed_bytes_are_damaged_is_refused(tmp_path):
    package = BytesIO()
    with ZipFile(package, "w", ZIP_DEFLATED) as writer:
        writer.writestr("xl/workbook.xml", "<a>" + "some text " * 100 + "</a>")
    content = bytearray(package.getvalue())
    content[60:70] = bytes(range(200, 210))
    path = tmp_path / "report.xlsx"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match="damaged"):
        load_report(path)


def test_an_embedded_scenario_is_checked_like_any_other(tmp_path, report):
    path = tmp_path / "report.md"
    write_report(report, path)
    path.write_text(path.read_text("utf-8").replace('"micro_batch_size": 1', '"micro_batch_size": -1'), "utf-8")
    with pytest.raises(ScenarioError, match=r"report\.md cannot be opened"):
        load_report(path)


def test_slides_without_a_scenario_are_refused(tmp_path):
    path = tmp_path / "report.pptx"
    with ZipFile(path, "w") as writer:
        writer.writestr("customXml/item1.xml", "<other>{}</other>")
    with pytest.raises(ScenarioError, match="No scenario is embedded in it"):
        load_report(path)


def test_slides_that_are_none_are_refused(tmp_path):
    path = tmp_path / "report.pptx"
    path.write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ScenarioError, match="not a presentation, or it is damaged"):
        load_report(path)


def test_a_pdf_without_an_attachment_is_refused(tmp_path):
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF-1.6\n1 0 obj\n<<>>\nendobj\n")
    with pytest.raises(ScenarioError, match="No scenario is embedded in it"):
        load_report(path)


def test_a_pdf_that_is_none_is_refused(tmp_path):
    path = tmp_path / "report.pdf"
    path.write_text("text")
    with pytest.raises(ScenarioError, match="not a PDF document, or it is damaged"):
        load_report(path)


def test_an_attachment_that_does_not_unpack_is_refused(tmp_path):
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF-1.6\n7 0 obj\n<</Filter/FlateDecode>>\nstream\nnothing\nendstream\n/EF <</F 7 0 R>>\n")
    with pytest.raises(ScenarioError, match="attached to it is damaged"):
        load_report(path)


def test_an_attachment_that_grows_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("planner.report.opening_pdf.LARGEST_BYTES", 1000)
    path = tmp_path / "report.pdf"
    packed = zlib.compress(b" " * 100_000)
    path.write_bytes(
        b"%PDF-1.6\n7 0 obj\n<</Filter/FlateDecode>>\nstream\n" + packed + b"\nendstream\n/EF <</F 7 0 R>>\n"
    )
    with pytest.raises(ScenarioError, match="attached to it is damaged"):
        load_report(path)
