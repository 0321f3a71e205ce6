"""What other programs make of reports: LibreOffice of the slides, a browser of the page, poppler of the PDF."""

import shutil
import subprocess
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from planner.report.write import write_report

LIBREOFFICE = shutil.which("soffice")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
POPPLER = shutil.which("pdftoppm")


def shown(picture: Path) -> QImage:
    image = QImage(str(picture))
    assert not image.isNull(), f"{picture.name} is no picture"
    return image


def colours(image: QImage) -> set[int]:
    """The colours that a picture has, looked at here and there."""
    return {image.pixel(x, y) for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)}


def margins_are_white(image: QImage, share: float = 0.01) -> bool:
    """Whether nothing runs over the left or right edge."""
    inset = max(1, round(image.width() * share))
    edges = [image.pixelColor(x, y).name() for x in (1, inset, image.width() - inset, image.width() - 2)
             for y in range(image.height())]  # fmt: skip
    return set(edges) == {"#ffffff"}


def as_pictures(document: Path) -> list[QImage]:
    subprocess.run([str(POPPLER), "-r", "60", "-png", document, document.with_suffix("")], check=True, timeout=120)
    return [shown(picture) for picture in sorted(document.parent.glob(f"{document.stem}-*.png"))]


def loaded(program: str, document: Path, folder: Path) -> Path:
    """The document as PDF, as a program of LibreOffice prints it."""
    profile = (folder / "profile").as_uri()
    told = subprocess.run(
        [str(LIBREOFFICE), f"-env:UserInstallation={profile}", "--headless", "--convert-to", "pdf", "--outdir",
         str(folder / "out"), str(document)],
        check=True, capture_output=True, timeout=180, text=True,
    )  # fmt: skip
    if "could not be loaded" in told.stderr + told.stdout:
        pytest.skip(f"{program} is not installed")
    return folder / "out" / f"{document.stem}.pdf"


@pytest.mark.skipif(not (LIBREOFFICE and POPPLER), reason="LibreOffice or poppler is not installed")
@pytest.mark.parametrize("kind", ["report", "hostile_report"])
def test_impress_shows_every_slide_within_its_edges(kind, request, tmp_path):
    report = request.getfixturevalue(kind)
    deck = tmp_path / "slides.pptx"
    write_report(report, deck)
    pictures = as_pictures(loaded("Impress", deck, tmp_path))
    assert len(pictures) == len(report.phases) + 2
    assert all(map(margins_are_white, pictures))
    assert len(colours(pictures[0])) > 20


@pytest.mark.skipif(POPPLER is None, reason="poppler is not installed")
@pytest.mark.parametrize("kind", ["report", "hostile_report"])
def test_every_page_of_the_pdf_is_written_on_within_its_edges(kind, request, tmp_path):
    document = tmp_path / "report.pdf"
    write_report(request.getfixturevalue(kind), document)
    pictures = as_pictures(document)
    assert len(pictures) > 10
    for picture in pictures:
        assert len(colours(picture)) > 2
        assert margins_are_white(picture, 0.035)


@pytest.mark.skipif(not (BROWSER and POPPLER), reason="no browser or no poppler is installed")
def test_a_browser_shows_the_page_and_prints_it(report, tmp_path):
    page = tmp_path / "report.html"
    write_report(report, page)
    common = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'user'}"]
    picture, printed = tmp_path / "page.png", tmp_path / "printed.pdf"
    subprocess.run(
        [*common, "--window-size=1280,2400", f"--screenshot={picture}", page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    assert len(colours(shown(picture))) > 40
    subprocess.run(
        [*common, "--no-pdf-header-footer", f"--print-to-pdf={printed}", page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    pictures = as_pictures(printed)
    assert len(pictures) > 5
    assert all(map(margins_are_white, pictures))
