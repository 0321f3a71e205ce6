"""Paints stacked bars, or steps that touch, against capacity lines."""

from collections.abc import Iterable
from math import floor

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPainterPath, QPen

from planner.chart.geometry import Line, Rect, hatching
from planner.chart.labels import Label
from planner.chart.layout import BarShape, CapacityShape, ChartLayout, lay_out
from planner.chart.paint.curve import paint_band, paint_points
from planner.chart.paint.fonts import font, text_width
from planner.chart.paint.style import ChartStyle
from planner.chart.palette import COMPONENT_COLOURS, COMPONENT_PATTERNS, PATTERN_LINES, pattern_ink
from planner.chart.spec import ChartSpec, Chip
from planner.engine.term import Component

_CAP_HEIGHT = 0.727  # of Inter, in font sizes
_WHISKER_HALF = 5.0
_THINNEST_WITH_GAP = 2.5


def paint(painter: QPainter, rect: QRectF, spec: ChartSpec, style: ChartStyle | None = None) -> ChartLayout:
    """Draw `spec` into `rect`, in logical pixels: the same picture whatever the painter paints on. What lies where."""
    style = style or ChartStyle()
    layout = lay_out(spec, Rect(rect.x(), rect.y(), rect.width(), rect.height()), text_width, style.sizes)
    if not style.transparent:
        painter.fillRect(rect, QColor(style.palette.background))
    paint_behind(painter, layout, style)
    for shape in layout.bars:
        for segment, area in shape.segments:
            painter.fillRect(_snapped(painter, area), QColor(COMPONENT_COLOURS[segment.component]))
    paint_over(painter, layout, style)
    return layout


def paint_behind(painter: QPainter, layout: ChartLayout, style: ChartStyle) -> None:
    """What lies behind the bars: grid, axis, and all texts around the plot. No background."""
    painter.save()
    try:
        _smooth(painter)
        _paint_frame(painter, layout, style)
    finally:
        painter.restore()


def paint_over(painter: QPainter, layout: ChartLayout, style: ChartStyle) -> None:
    """What lies over the coloured bars: patterns, gaps, hatching, capacity lines, whiskers, labels and chips."""
    painter.save()
    try:
        _smooth(painter)
        for shape in layout.bars:
            _paint_on_bar(painter, shape, style)
        bound = _pen(style.palette.axis, 1)
        bound.setDashPattern([1.5, 3])
        _lines(painter, layout.bounds, bound)
        if layout.curve:
            paint_band(painter, layout.curve)
        for capacity in layout.capacities:
            _paint_capacity(painter, capacity, style)
        for shape in layout.bars:
            _paint_above(painter, shape, style)
        if layout.curve:
            paint_points(painter, layout.curve, style)
            for mark in layout.curve.marks:
                _text(painter, mark.label, style)
    finally:
        painter.restore()


def paint_labels(painter: QPainter, labels: Iterable[Label], style: ChartStyle) -> None:
    """Texts that stand by themselves."""
    painter.save()
    _smooth(painter)
    for label in labels:
        _text(painter, label, style)
    painter.restore()


def _smooth(painter: QPainter) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)


def _paint_frame(painter: QPainter, layout: ChartLayout, style: ChartStyle) -> None:
    _lines(painter, layout.grid, _pen(style.palette.grid, 1))
    plot = layout.plot
    _lines(painter, [Line(plot.x, plot.bottom, plot.right, plot.bottom)], _pen(style.palette.axis, 1))
    for entry, swatch, label in layout.legend:
        painter.fillRect(_snapped(painter, swatch), QColor(entry.colour))
        _pattern(painter, swatch, entry.component, style)
        _text(painter, label, style)
    names = [label for shape in layout.bars for label in shape.names]
    for label in (*layout.heading, *layout.ticks, *names, *layout.footnote):
        _text(painter, label, style)
    turned = layout.axis_label
    painter.save()
    painter.translate(turned.rect.centre_x, turned.rect.centre_y)
    painter.rotate(-90)
    half_width, half_height = turned.rect.width / 2, turned.rect.height / 2
    around_zero = Rect(-half_width, -half_height, turned.rect.width, turned.rect.height)
    _text(painter, Label(turned.text, around_zero, turned.size, role=turned.role), style)
    painter.restore()


def _paint_on_bar(painter: QPainter, shape: BarShape, style: ChartStyle) -> None:
    for segment, rect in shape.segments:
        _pattern(painter, rect, segment.component, style)
    gaps = [
        Line(upper.x, lower.y, upper.right, lower.y)
        for (_, lower), (_, upper) in zip(shape.segments, shape.segments[1:], strict=False)
        if min(lower.height, upper.height) >= _THINNEST_WITH_GAP
    ]
    _lines(painter, gaps, _pen(style.palette.gap, 1))
    if shape.overflow and shape.overflow.height > 0:
        _lines(painter, hatching(shape.overflow, 7, 45), _pen(style.palette.hatch, 2.2))
        painter.setPen(_pen(style.palette.hatch, 1.4))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(_qrect(shape.overflow))


def _paint_capacity(painter: QPainter, shape: CapacityShape, style: ChartStyle) -> None:
    judge = shape.label.line.judge
    pen = _pen(style.palette.ink, 1.8 if judge else 1)
    pen.setDashPattern([6 / pen.widthF(), 4 / pen.widthF()])
    _lines(painter, shape.pieces, pen)
    _lines(painter, [shape.label.leader], _pen(style.palette.ink if judge else style.palette.muted, 0.8))
    _text(painter, shape.label.label, style)


def _paint_above(painter: QPainter, shape: BarShape, style: ChartStyle) -> None:
    limit = _pen(style.palette.hatch, 1.4)
    limit.setDashPattern([2, 2])
    _lines(painter, shape.limit, limit)
    if shape.whisker:
        x, high, low = shape.whisker.x1, shape.whisker.y1, shape.whisker.y2
        ends = [Line(x - _WHISKER_HALF, y, x + _WHISKER_HALF, y) for y in (high, low)]
        halo = QColor(style.palette.background)
        halo.setAlphaF(0.7)  # so that it is seen on dark components
        _lines(painter, [shape.whisker, *ends], QPen(halo, 3.2))
        _lines(painter, [shape.whisker, *ends], _pen(style.palette.ink, 1.2))
    for label in (shape.labels.total, *shape.labels.notes):
        if label:
            _text(painter, label, style)
    if shape.labels.chip and shape.bar.chip:
        _chip(painter, shape.labels.chip, shape.bar.chip, style)


def _chip(painter: QPainter, label: Label, chip: Chip, style: ChartStyle) -> None:
    background, ink = style.palette.chips[chip.kind]
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(background))
    radius = label.rect.height / 2
    painter.drawRoundedRect(_qrect(label.rect), radius, radius)
    _text(painter, label, style, ink)


def _pattern(painter: QPainter, rect: Rect, component: Component, style: ChartStyle) -> None:
    if style.patterns:
        ink = QColor(pattern_ink(component))
        ink.setAlphaF(0.55)
        for spacing, degrees in PATTERN_LINES[COMPONENT_PATTERNS[component]]:
            _lines(painter, hatching(rect, spacing, degrees), _pen(ink, 0.9))


def _snapped(painter: QPainter, rect: Rect) -> QRectF:
    """`rect` with its edges on whole device pixels where the picture has pixels, so that bars are crisp."""
    device = painter.device()
    if not isinstance(device, QImage):
        return _qrect(rect)
    ratio = device.devicePixelRatio()
    left, top, right, bottom = (floor(at * ratio + 0.5) / ratio for at in (rect.x, rect.y, rect.right, rect.bottom))
    return QRectF(left, top, right - left, bottom - top)


def _text(painter: QPainter, label: Label, style: ChartStyle, colour: str | None = None) -> None:
    """Text by its baseline: no rectangle of Qt's that could clip or move it."""
    ink = QColor(colour or getattr(style.palette, label.role))
    room = label.rect.width - text_width(label.text, label.size, label.bold)
    x = label.rect.x + {"left": 0.0, "middle": room / 2, "right": room}[label.anchor]
    start = QPointF(x, label.rect.centre_y + label.size * _CAP_HEIGHT / 2)
    if style.outlines:
        letters = QPainterPath()
        letters.addText(start, font(label.size, label.bold), label.text)
        painter.fillPath(letters, ink)
    else:
        painter.setFont(font(label.size, label.bold))
        painter.setPen(ink)
        painter.drawText(start, label.text)


def _lines(painter: QPainter, lines: Iterable[Line], pen: QPen) -> None:
    painter.setPen(pen)
    for line in lines:
        painter.drawLine(QLineF(line.x1, line.y1, line.x2, line.y2))


def _pen(colour: str | QColor, width: float) -> QPen:
    pen = QPen(QColor(colour), width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen


def _qrect(rect: Rect) -> QRectF:
    return QRectF(rect.x, rect.y, rect.width, rect.height)
