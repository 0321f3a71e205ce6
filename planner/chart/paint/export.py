"""A chart as a file or an image: PNG, SVG and PDF by the file's suffix, painted by the one painter."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QMarginsF, QRect, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QImageWriter, QPagedPaintDevice, QPageLayout, QPageSize, QPainter, QPdfWriter
from PySide6.QtSvg import QSvgGenerator

from planner import __version__
from planner.chart.imprint import IMPRINT_GAP, imprint_labels
from planner.chart.labels import Label
from planner.chart.paint.application import painting_application
from planner.chart.paint.bars import paint, paint_labels
from planner.chart.paint.fonts import text_width
from planner.chart.paint.style import ChartStyle
from planner.chart.paint.svg_text import with_anchored_text
from planner.chart.spec import ChartSpec
from planner.chart.table import chart_description
from planner.errors import PlannerError

CREATOR = f"VRAM Planner {__version__}"
DPI = 96
"""Logical pixels per inch everywhere. QSvgGenerator's own default of 72 draws text and geometry at odds."""


Charts: TypeAlias = ChartSpec | Sequence[ChartSpec]
"""One chart, or several that belong together and stand below each other."""


def export_chart(
    spec: Charts,
    path: Path,
    *,
    width: int = 960,
    height: int = 560,
    scale: float = 2.0,
    transparent: bool = False,
    patterns: bool = False,
    outlines: bool = False,
    imprint: Sequence[str] = (),
) -> None:
    """Write `spec` to `path` as PNG, SVG or PDF, as its suffix says; an existing file is replaced when all went well.

    `width` and `height`, of each chart, are in logical pixels (1/96 inch); `scale` is PNG pixels per logical pixel.
    With `outlines` letters become shapes, for machines without the font. `imprint` are lines for below the charts,
    within the same size. Works without a display.
    Raises `PlannerError` for another suffix, a place that cannot be written, and a size of no or too many pixels.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        known = ", ".join(_WRITERS)
        raise PlannerError(f"A chart cannot be saved as “{path.name}”: choose a name that ends in {known}.")
    if min(width, height) < 1:
        raise PlannerError(f"A chart cannot be {width} × {height} large: choose another size.")
    style = ChartStyle(transparent=transparent, patterns=patterns, outlines=outlines, imprint=tuple(imprint))
    from planner.scenario.files import write_atomically  # painting alone, as at the start, needs no scenario

    charts = _charts(spec)
    write_atomically(path, writer(charts, QSize(width, height * len(charts)), scale, style))


def chart_svg(spec: Charts, *, width: int = 960, height: int = 560) -> str:
    """The chart as the text of an SVG file, for documents that hold it; `height` is that of each chart."""
    charts = _charts(spec)
    return _svg(charts, QSize(width, height * len(charts)), 1.0, ChartStyle()).decode()


def chart_image(
    spec: Charts, *, width: int = 960, height: int = 560, scale: float = 2.0, style: ChartStyle | None = None
) -> QImage:
    """The chart as an image, for the clipboard and for PNG: `scale` device pixels per logical pixel.

    `height` is that of each chart where there are several.
    """
    charts = _charts(spec)
    return _image(charts, QSize(width, height * len(charts)), scale, style or ChartStyle())


def _image(charts: tuple[ChartSpec, ...], size: QSize, scale: float, style: ChartStyle) -> QImage:
    width, height = size.width(), size.height()
    painting_application()
    image = QImage(round(width * scale), round(height * scale), QImage.Format.Format_ARGB32_Premultiplied)
    if image.isNull():
        raise PlannerError(
            f"A picture of {round(width * scale)} × {round(height * scale)} pixels cannot be made: choose another size."
        )
    image.setDevicePixelRatio(scale)
    dots_per_metre = round(DPI * scale / 0.0254)
    image.setDotsPerMeterX(dots_per_metre)
    image.setDotsPerMeterY(dots_per_metre)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    try:
        _paint(painter, size, charts, style)
    finally:
        painter.end()
    image.setText("Title", _title(charts))
    image.setText("Description", _description(charts))
    image.setText("Software", CREATOR)
    return image


def _png(charts: tuple[ChartSpec, ...], size: QSize, scale: float, style: ChartStyle) -> bytes:
    image = _image(charts, size, scale, style)
    buffer = _buffer()
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return _content(buffer)


def _svg(charts: tuple[ChartSpec, ...], size: QSize, _scale: float, style: ChartStyle) -> bytes:
    painting_application()
    buffer = _buffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setResolution(DPI)
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle(_title(charts))
    generator.setDescription(_description(charts))
    painter = QPainter(generator)
    try:
        labels = _paint(painter, size, charts, style)
    finally:
        painter.end()
    return with_anchored_text(_content(buffer).decode(), labels).encode()


def _pdf(charts: tuple[ChartSpec, ...], size: QSize, _scale: float, style: ChartStyle) -> bytes:
    painting_application()
    buffer = _buffer()
    writer = QPdfWriter(buffer)
    writer.setResolution(DPI)
    writer.setPdfVersion(QPagedPaintDevice.PdfVersion.PdfVersion_1_6)
    page = QPageSize(QSizeF(size.width() * 72 / DPI, size.height() * 72 / DPI), QPageSize.Unit.Point)
    writer.setPageLayout(QPageLayout(page, QPageLayout.Orientation.Portrait, QMarginsF()))
    writer.setTitle(_title(charts))
    writer.setCreator(CREATOR)
    painter = QPainter(writer)
    try:
        _paint(painter, size, charts, style)
    finally:
        painter.end()
    return _content(buffer)


_WRITERS: dict[str, Callable[[tuple[ChartSpec, ...], QSize, float, ChartStyle], bytes]] = {
    ".png": _png,
    ".svg": _svg,
    ".pdf": _pdf,
}


def _charts(spec: Charts) -> tuple[ChartSpec, ...]:
    return (spec,) if isinstance(spec, ChartSpec) else tuple(spec)


def _paint(painter: QPainter, size: QSize, charts: tuple[ChartSpec, ...], style: ChartStyle) -> tuple[Label, ...]:
    """The charts below each other, and what is said below all of them; all texts."""
    whole = QRectF(0, 0, size.width(), size.height())
    if not style.transparent:
        painter.fillRect(whole, QColor(style.palette.background))
    below = imprint_labels(style.imprint, size.width(), size.height(), text_width)
    bottom = below[0].rect.y - IMPRINT_GAP if below else whole.height()
    height = bottom / len(charts)
    places = [QRectF(0, index * height, size.width(), height) for index in range(len(charts))]
    layouts = [paint(painter, place, chart, style) for place, chart in zip(places, charts, strict=True)]
    paint_labels(painter, below, style)
    return (*(label for layout in layouts for label in layout.labels), *below)


def _title(charts: tuple[ChartSpec, ...]) -> str:
    return " · ".join(chart.title for chart in charts)


def _description(charts: tuple[ChartSpec, ...]) -> str:
    return " ".join(chart_description(chart) for chart in charts)


def _buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    return buffer


def _content(buffer: QBuffer) -> bytes:
    return bytes(buffer.data().data())
