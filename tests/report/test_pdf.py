from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader

from planner.errors import PlannerError
from planner.report.parts import Report, Template
from planner.report.pdf import pdf_report
from planner.report.progress import CalledOffError
from planner.report.write import write_report
from planner.scenario.files import scenario_from_json


def opened(report: Report) -> PdfReader:
    return PdfReader(BytesIO(pdf_report(report)))


def words_of(reader: PdfReader) -> list[str]:
    """The text of each page, with a space between words."""
    return [" ".join(page.extract_text().split()) for page in reader.pages]


def only_serving(report: Report) -> Report:
    return replace(report, phases=report.phases[-1:], assumptions=report.assumptions[:5])


@pytest.fixture(scope="module")
def pages(report) -> PdfReader:
    return opened(only_serving(report))


@pytest.fixture(scope="module")
def words(pages) -> list[str]:
    return words_of(pages)


def test_the_summary_the_verdicts_and_the_terms_stand_on_the_pages(words, report):
    text = " ".join(words)
    assert "Serving decides: each GPU needs 49.2 GiB in prefill" in text
    assert "out of memory by 8.3 GiB" in text
    assert "34 359 738 368" in text
    assert f"[{len(report.sources)}] {report.sources[-1][:20]}" in text


def test_every_page_is_numbered(words):
    assert len(words) > 4
    for number, text in enumerate(words, 1):
        assert f"page {number} " in f"{text} "


def test_all_fonts_are_embedded(pages):
    fonts = [font.get_object() for page in pages.pages for font in page["/Resources"].get("/Font", {}).values()]
    assert fonts
    for font in fonts:
        (inner,) = font["/DescendantFonts"]
        assert "/FontFile2" in inner.get_object()["/FontDescriptor"]


def test_copied_text_holds_the_letters_that_were_written(words):
    text = " ".join(words)
    assert not [letter for letter in text if "\ue000" <= letter <= "\uf8ff"]
    assert "2026-12-01" in text


def test_the_scenario_is_attached(pages, scenario):
    (attached,) = pages.attachments["plan.vramplan"]
    assert scenario_from_json(attached) == scenario


def test_hostile_names_come_out_as_text(hostile_report):
    text = words_of(opened(replace(hostile_report, phases=(), assumptions=(), sources=())))[0]
    assert "<script>alert('1')</script>" in text
    assert "=cmd()" in text


def test_a_long_name_and_long_notes_flow_over_pages(report):
    bare = replace(report, name="N" * 300, phases=(), assumptions=(), sources=(), charts=())
    texts = words_of(opened(replace(bare, template=Template(notes="word " * 3000 + "end."))))
    # A page's text layer may repeat a line beside its edge, which is not seen.
    assert sum(text.split().count("word") for text in texts) >= 3000
    assert sum("end." in text.split() for text in texts) == 1


def test_a_logo_that_is_no_picture_is_refused(report, tmp_path: Path):
    logo = tmp_path / "logo.png"
    logo.write_bytes(b"not a picture")
    with pytest.raises(PlannerError, match=r"logo\.png cannot be read as a picture"):
        pdf_report(replace(report, template=Template(logo=logo)))


def test_a_report_tells_how_far_it_is_and_can_be_called_off(report, tmp_path: Path):
    told = []

    def proceed(done: int, parts: int) -> None:
        told.append((done, parts))
        if done == 2:
            raise CalledOffError

    with pytest.raises(CalledOffError):
        write_report(report, tmp_path / "report.pdf", proceed)
    assert told == [(0, 8), (1, 8), (2, 8)]
    assert not list(tmp_path.iterdir())
