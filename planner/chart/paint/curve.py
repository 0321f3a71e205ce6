"""Paints a curve: its band, its points by their verdicts, and the rings around the last that fit."""

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF

from planner.chart.curve_layout import CurvePoint, CurveShape
from planner.chart.paint.style import ChartStyle
from planner.chart.palette import COMPONENT_COLOURS

_COLOUR = COMPONENT_COLOURS["weights"]
_RADIUS, _RING = 3.5, 7.0


def paint_band(painter: QPainter, shape: CurveShape) -> None:
    """The uncertainty as an area, and the estimate as a line in it."""
    if not shape.points:
        return
    upper = [QPointF(point.x, point.high_y) for point in shape.points]
    lower = [QPointF(point.x, point.low_y) for point in reversed(shape.points)]
    area = QColor(_COLOUR)
    area.setAlphaF(0.22)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(area)
    painter.drawPolygon(QPolygonF([*upper, *lower]))
    line = QPainterPath(QPointF(shape.points[0].x, shape.points[0].y))
    for point in shape.points[1:]:
        line.lineTo(point.x, point.y)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(_COLOUR), 2))
    painter.drawPath(line)


def paint_points(painter: QPainter, shape: CurveShape, style: ChartStyle) -> None:
    """A dot where it fits, a ring where it is tight, a cross where it is out of memory."""
    for point in shape.points:
        _paint_point(painter, point, style)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(style.palette.ink), 1.6))
    for mark in shape.marks:
        painter.drawEllipse(QPointF(mark.x, mark.y), _RING, _RING)


def _paint_point(painter: QPainter, point: CurvePoint, style: ChartStyle) -> None:
    kind = point.bar.chip.kind if point.bar.chip else ""
    centre = QPointF(point.x, point.y)
    if kind == "oom":
        painter.setPen(QPen(QColor(style.palette.hatch), 2))
        for turn in (1, -1):
            arm = QPointF(_RADIUS, turn * _RADIUS)
            painter.drawLine(centre - arm, centre + arm)
        return
    painter.setPen(QPen(QColor(style.palette.chips["tight"][1] if kind == "tight" else _COLOUR), 2))
    painter.setBrush(QColor(style.palette.background if kind else _COLOUR))
    painter.drawEllipse(centre, _RADIUS, _RADIUS)
