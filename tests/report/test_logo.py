from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from openpyxl import load_workbook
from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE
from PySide6.QtGui import QColor, QImage

from planner.errors import PlannerError
from planner.report.html import html_report
from planner.report.logo import LARGEST_BYTES, logo_png, read_logo
from planner.report.parts import Report, Template
from planner.report.pdf import pdf_report
from planner.report.pptx import pptx_report
from planner.report.xlsx import xlsx_report

DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" width="90" height="30">{}</svg>'
)
SQUARE = '<rect width="30" height="30" fill="#336699"/>'


@pytest.fixture(params=["logo.png", "logo.jpg", "logo.svg"])
def logo(request, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    if path.suffix == ".svg":
        path.write_text(DRAWING.format(SQUARE))
    else:
        image = QImage(90, 30, QImage.Format.Format_RGB32)
        image.fill(QColor("#336699"))
        image.save(str(path))
    return path


@pytest.fixture
def branded(report, logo) -> Report:
    return replace(report, template=Template(logo=logo), phases=report.phases[:1])


def test_every_format_for_people_holds_the_picture(branded):
    page = html_report(branded)
    assert 'class="logo" src="data:image/' in page
    slides = Presentation(BytesIO(pptx_report(branded))).slides
    assert [shape.shape_type for shape in slides[0].shapes].count(MSO_SHAPE_TYPE.PICTURE) == 1
    assert len(load_workbook(BytesIO(xlsx_report(branded)))["Summary"]._images) == 1
    bare = len(pdf_report(replace(branded, template=Template())))
    assert len(pdf_report(branded)) > bare


def test_a_large_picture_is_made_smaller(tmp_path):
    path = tmp_path / "logo.png"
    image = QImage(4000, 4000, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    image.save(str(path))
    assert QImage.fromData(logo_png(path)).height() == 300


@pytest.mark.parametrize(
    "inside",
    [
        '<image x:href="file:///etc/hostname.png" width="9" height="9"/>',
        '<image href="data:image/svg+xml;base64,AA==" width="9" height="9"/>',
        '<image href="../secret.png" width="9" height="9"/>',
        "<style>@import 'other.css';</style>",
        '<rect style="fill:url(http://example.com/a.svg#b)" width="9" height="9"/>',
    ],
)
def test_a_drawing_that_takes_parts_from_elsewhere_is_refused(tmp_path, inside):
    path = tmp_path / "logo.svg"
    path.write_text(DRAWING.format(inside))
    with pytest.raises(PlannerError, match="it takes parts from other files"):
        read_logo(path)


def test_a_drawing_may_hold_gradients_and_pictures_of_its_own(tmp_path):
    path = tmp_path / "logo.svg"
    own = (
        '<linearGradient id="g"/><rect fill="url(#g)" width="9" height="9"/><image href="data:image/png;base64,AA=="/>'
    )
    path.write_text(DRAWING.format(own))
    assert read_logo(path)


def test_entities_in_a_drawing_are_refused(tmp_path):
    path = tmp_path / "logo.svg"
    path.write_text('<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/hostname">]>' + DRAWING.format("<text>&a;</text>"))
    with pytest.raises(PlannerError, match="it declares entities"):
        read_logo(path)


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "logo.png"
    path.write_bytes(b"\0" * (LARGEST_BYTES + 1))
    with pytest.raises(PlannerError, match=r"larger than 4 MiB"):
        read_logo(path)


@pytest.mark.parametrize("write", [pptx_report, xlsx_report])
def test_what_is_no_picture_is_refused_by_every_format(report, tmp_path, write):
    path = tmp_path / "logo.png"
    path.write_bytes(b"not a picture")
    with pytest.raises(PlannerError, match=r"logo\.png cannot be read as a picture"):
        write(replace(report, template=Template(logo=path)))
