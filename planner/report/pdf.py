"""A report as PDF, composed for paper: charts as vectors, text in the bundled typeface, the scenario attached."""

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFontMetricsF,
    QImage,
    QPagedPaintDevice,
    QPageLayout,
    QPageSize,
    QPainter,
    QPalette,
    QPdfWriter,
    QTextDocument,
)
from PySide6.QtSvg import QSvgRenderer

from planner.chart.paint.application import painting_application
from planner.chart.paint.bars import paint
from planner.chart.paint.export import CREATOR, DPI
from planner.chart.paint.fonts import font
from planner.chart.spec import ChartSpec
from planner.errors import PlannerError
from planner.report.html import render
from planner.report.logo import LARGEST_BYTES, logo_uri
from planner.report.parts import Report
from planner.report.progress import Proceed, unwatched
from planner.scenario.files import read_small_file

INK, MUTED = "#1c2330", "#5b6577"
STYLE = f"""
body {{ color: {INK}; }} .muted {{ color: {MUTED}; }} .warning, .tight {{ color: #8a5a00; }}
.fits {{ color: #17713b; }} .oom {{ color: #b3201c; font-weight: 600; }} .unknown {{ color: #6b3fa0; }}
h1 {{ font-size: 24px; font-weight: 600; margin: 0 0 4px 0; }} .row {{ margin: 0; }}
h2 {{ font-size: 17px; font-weight: 600; margin-top: 18px; }}
b, th {{ font-weight: 600; }}
"""
TEXT_PIXELS = 10
MARGIN = 48.0
FOOT = 24.0
"""Room below the text for the line at the foot of each page."""
LOGO = QSizeF(180, 56)
LOWEST_CHART = 300.0
HIGHEST_CHART = 520.0


def pdf_report(report: Report, proceed: Proceed = unwatched) -> bytes:
    """The bytes of the file. Works without a display; `proceed` is told before each part, and may call it off."""
    painting_application()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    writer.setPdfVersion(QPagedPaintDevice.PdfVersion.PdfVersion_1_6)
    writer.setResolution(DPI)
    page = QPageSize(QPageSize.PageSizeId.A4)
    writer.setPageLayout(QPageLayout(page, QPageLayout.Orientation.Landscape, QMarginsF()))
    writer.setTitle(report.name)
    writer.setCreator(CREATOR)
    writer.addFileAttachment("plan.vramplan", QByteArray(report.scenario_json.encode()), "application/json")
    paper = _Paper(writer, report)
    try:
        parts = len(report.phases) + 2
        proceed(0, parts)
        paper.logo()
        paper.text(render("head.html.j2", report))
        for chart in report.charts:
            paper.chart(chart)
        paper.new_page()
        paper.text(render("paper_verdicts.html.j2", report))
        for done, part in enumerate(report.phases, 1):
            proceed(done, parts)
            paper.new_page()
            paper.text(render("paper_phase.html.j2", report, part=part))
        proceed(parts - 1, parts)
        paper.new_page()
        paper.text(render("paper_end.html.j2", report))
    finally:
        paper.painter.end()
    return bytes(buffer.data().data())


class _Paper:
    """Pages that are filled from the top; each has its line at the foot."""

    def __init__(self, writer: QPdfWriter, report: Report) -> None:
        self.painter = QPainter(writer)
        self._writer = writer
        self._report = report
        self._width = writer.width() - 2 * MARGIN
        self._height = writer.height() - 2 * MARGIN - FOOT
        self._used = 0.0
        self._page = 1
        self._foot()

    def new_page(self) -> None:
        self._writer.newPage()
        self._page += 1
        self._used = 0.0
        self._foot()

    def logo(self) -> None:
        """The company's picture at the right of the first page's head, no larger than there is room for it."""
        path = self._report.template.logo
        if path is None:
            return
        logo_uri(path)  # refuses other kinds
        content = QByteArray(read_small_file(path, LARGEST_BYTES))
        drawing = QSvgRenderer(content) if path.suffix.lower() == ".svg" else None
        picture = QImage() if drawing else QImage.fromData(content)
        size = QSizeF(drawing.defaultSize() if drawing else picture.size())
        if size.isEmpty():
            raise PlannerError(f"{path.name} cannot be read as a picture. Choose another logo.")
        size = size.scaled(LOGO, Qt.AspectRatioMode.KeepAspectRatio)
        place = QRectF(QPointF(self._writer.width() - MARGIN - size.width(), MARGIN), size)
        if drawing:
            drawing.render(self.painter, place)
        else:
            self.painter.drawImage(place, picture)
        self._used = size.height() + 8

    def text(self, html: str) -> None:
        """Flowing text below what is there, over as many pages as it takes."""
        start = self._used
        document = QTextDocument()
        document.setDocumentMargin(0)
        document.setDefaultFont(font(TEXT_PIXELS))
        document.setDefaultStyleSheet(STYLE)
        document.setHtml(f"<body>{html}</body>")
        if start and self._flat_height(document) > self._height - start:
            start = 0.0
            self.new_page()
        document.setPageSize(QSizeF(self._width, self._height - start))
        layout = document.documentLayout()
        context = QAbstractTextDocumentLayout.PaintContext()
        palette = QPalette()
        palette.setColor(QPalette.ColorRole.Text, QColor(INK))
        context.palette = palette
        height = self._height - start
        for page in range(document.pageCount()):
            if page:
                self.new_page()
            part = QRectF(0, page * height, self._width, height)
            context.clip = part
            self.painter.save()
            self.painter.translate(MARGIN, MARGIN + start - part.top())
            self.painter.setClipRect(part)
            layout.draw(self.painter, context)
            self.painter.restore()
        last = layout.blockBoundingRect(document.lastBlock()).bottom()
        self._used = start + last - (document.pageCount() - 1) * height

    def chart(self, spec: ChartSpec) -> None:
        """A chart below what is there, or on the next page where too little is left."""
        left = self._height - self._used - 12
        if left < LOWEST_CHART:
            self.new_page()
            left = self._height
        height = min(left, HIGHEST_CHART)
        top = MARGIN + self._height - left
        paint(self.painter, QRectF(MARGIN, top, self._width, height), spec)
        self._used = self._height - left + height

    def _flat_height(self, document: QTextDocument) -> float:
        document.setTextWidth(self._width)
        return document.size().height()

    def _foot(self) -> None:
        report = self._report
        face = font(TEXT_PIXELS - 1)
        place = QRectF(MARGIN, self._writer.height() - MARGIN - FOOT / 2, self._width, FOOT)
        right = f"VRAM Planner {report.version} · {report.created:%Y-%m-%d} · page {self._page}"
        metrics = QFontMetricsF(face)
        room = self._width - metrics.horizontalAdvance(right) - 24
        title = " ".join(report.name.split())
        self.painter.save()
        self.painter.setFont(face)
        self.painter.setPen(QColor(MUTED))
        elided = metrics.elidedText(title, Qt.TextElideMode.ElideRight, room)
        self.painter.drawText(place, Qt.AlignmentFlag.AlignLeft, elided)
        self.painter.drawText(place, Qt.AlignmentFlag.AlignRight, right)
        self.painter.restore()
