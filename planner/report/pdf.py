"""A report as PDF, composed for paper: charts as vectors, text in the bundled typeface, the scenario attached."""

from collections.abc import Sequence

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QPagedPaintDevice, QPageLayout, QPageSize, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgRenderer

from planner.chart.paint.application import painting_application
from planner.chart.paint.bars import paint
from planner.chart.paint.export import CREATOR, DPI
from planner.chart.paint.fonts import text_width
from planner.chart.paint.glyphs import draw_text
from planner.chart.spec import ChartSpec
from planner.chart.text import elide
from planner.errors import PlannerError
from planner.report.logo import is_drawing, read_logo
from planner.report.paper_blocks import Block, PageBreak, Paragraph, Picture, Table, Tone
from planner.report.paper_content import group_count, groups
from planner.report.paper_layout import LINE, PADDING, TEXT, CellLine, TableLayout, Typesetter
from planner.report.parts import Report
from planner.report.progress import Proceed, unwatched

TONES: dict[Tone, str] = {
    "ink": "#1c2330", "muted": "#5b6577", "warning": "#8a5a00",
    "fits": "#17713b", "tight": "#8a5a00", "oom": "#b3201c", "unknown": "#6b3fa0",
}  # fmt: skip
HEAD, STRIPE = QColor("#e4e9f1"), QColor("#f5f7fa")
MARGIN = 48.0
FOOT = 24.0
"""Room below the text for the line at the foot of each page."""
LOGO = QSizeF(180, 56)
LOWEST_CHART = 300.0
HIGHEST_CHART = 520.0
_ASCENT = 0.97  # of Inter's line, in font sizes
_ROW_LINE = TEXT * LINE


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
        paper.logo()
        for done, blocks in enumerate(groups(report)):
            proceed(done, group_count(report))
            paper.write(list(blocks))
    finally:
        paper.painter.end()
    return bytes(buffer.data().data())


class _Paper:
    """Pages that are filled from the top; each has its line at the foot."""

    def __init__(self, writer: QPdfWriter, report: Report) -> None:
        self.painter = QPainter(writer)
        self._writer = writer
        self._report = report
        self._typesetter = Typesetter(text_width)
        self._width = writer.width() - 2 * MARGIN
        self._height = writer.height() - 2 * MARGIN - FOOT
        self._used = 0.0
        self._page = 1
        self._beside = QSizeF()
        self._foot()

    def write(self, blocks: Sequence[Block]) -> None:
        for index, block in enumerate(blocks):
            match block:
                case PageBreak():
                    self.new_page()
                case Paragraph():
                    self._paragraph(block, blocks[index + 1 : index + 2])
                case Table():
                    self._table(block)
                case Picture():
                    self._chart(block.chart)

    def new_page(self) -> None:
        self._writer.newPage()
        self._page += 1
        self._used = 0.0
        self._beside = QSizeF()
        self._foot()

    def logo(self) -> None:
        """The company's picture at the right of the first page's head, no larger than there is room for it."""
        path = self._report.template.logo
        if path is None:
            return
        content = QByteArray(read_logo(path))
        drawing = QSvgRenderer(content) if is_drawing(path) else None
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
        self._beside = QSizeF(size.width() + 24, size.height())

    def _paragraph(self, block: Paragraph, following: Sequence[Block]) -> None:
        height = block.size * LINE
        narrower = self._beside.width() if self._used < self._beside.height() else 0.0
        lines = self._typesetter.lines(block.text, self._width - narrower, block.size, block.bold)
        after = 4 * _ROW_LINE if block.kept and following else 0.0
        if self._used:
            self._used += block.above
            if self._used + min(len(lines), 2) * height + after > self._height:
                self.new_page()
        self._ink(block.tone)
        for line in lines:
            if self._used + height > self._height:
                self.new_page()
                self._ink(block.tone)
            at = QPointF(MARGIN, MARGIN + self._used + block.size * _ASCENT)
            draw_text(self.painter, at, line, block.size, block.bold)
            self._used += height

    def _table(self, table: Table) -> None:
        layout = self._typesetter.table(table, self._width)
        self._used += 8 if self._used else 0
        first = _row_height(layout.rows[0]) if layout.rows else 0.0
        if self._used + self._head_height(table, layout) + min(first, self._height / 2) > self._height:
            self.new_page()
        self._head(table, layout)
        for index, row in enumerate(layout.rows):
            self._row(table, layout, row, index % 2 == 1)

    def _head_height(self, table: Table, layout: TableLayout) -> float:
        return (_ROW_LINE + PADDING if table.title else 0.0) + _row_height(layout.head)

    def _head(self, table: Table, layout: TableLayout) -> None:
        if table.title:
            self._ink("ink")
            at = QPointF(MARGIN + PADDING, MARGIN + self._used + TEXT * _ASCENT)
            draw_text(self.painter, at, table.title, TEXT, True)
            self._used += _ROW_LINE + PADDING
        self._cells(layout, layout.head, HEAD)

    def _row(self, table: Table, layout: TableLayout, row: tuple[tuple[CellLine, ...], ...], striped: bool) -> None:
        """A row on one page; one that is higher than a page is continued on the next."""
        while True:
            left = self._height - self._used
            if _row_height(row) <= left:
                self._cells(layout, row, STRIPE if striped else None)
                return
            if _row_height(row) > self._height - self._head_height(table, layout):
                fitting = int((left - PADDING) // _ROW_LINE)
                if fitting > 0:
                    self._cells(layout, tuple(lines[:fitting] for lines in row), STRIPE if striped else None)
                    row = tuple(lines[fitting:] for lines in row)
            self.new_page()
            self._head(table, layout)

    def _cells(self, layout: TableLayout, row: tuple[tuple[CellLine, ...], ...], ground: QColor | None) -> None:
        painter, top = self.painter, MARGIN + self._used
        height = _row_height(row)
        if ground is not None:
            painter.fillRect(QRectF(MARGIN, top, self._width, height), ground)
        tone: Tone = "ink"
        self._ink(tone)
        for left, width, side, lines in zip(layout.lefts, layout.widths, layout.sides, row, strict=True):
            y = top + PADDING / 2 + TEXT * _ASCENT
            for line in lines:
                if line.tone != tone:
                    tone = line.tone
                    self._ink(tone)
                x = MARGIN + left
                if side == "right":
                    x += width - text_width(line.text, TEXT, line.bold)
                draw_text(painter, QPointF(x, y), line.text, TEXT, line.bold)
                y += _ROW_LINE
        self._used += height

    def _chart(self, spec: ChartSpec) -> None:
        """A chart below what is there, or on the next page where too little is left."""
        left = self._height - self._used - 12
        if left < LOWEST_CHART:
            self.new_page()
            left = self._height
        height = min(left, HIGHEST_CHART)
        top = MARGIN + self._height - left
        paint(self.painter, QRectF(MARGIN, top, self._width, height), spec)
        self._used = self._height - left + height

    def _ink(self, tone: Tone) -> None:
        self.painter.setPen(QColor(TONES[tone]))

    def _foot(self) -> None:
        report, size = self._report, TEXT - 1
        right = f"VRAM Planner {report.version} · {report.created:%Y-%m-%d} · page {self._page}"
        wide = text_width(right, size, False)
        title = elide(" ".join(report.name.split()), self._width - wide - 24, size, False, text_width)
        self._ink("muted")
        y = self._writer.height() - MARGIN
        draw_text(self.painter, QPointF(MARGIN, y), title, size, False)
        draw_text(self.painter, QPointF(MARGIN + self._width - wide, y), right, size, False)


def _row_height(row: tuple[tuple[CellLine, ...], ...]) -> float:
    return max(map(len, row), default=0) * _ROW_LINE + PADDING
