"""Where the points of a curve, its band, and the marks of what is the most that fits lie."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.chart.geometry import Rect
from planner.chart.labels import LABEL_GAP, LINE_HEIGHT, Label, Sizes, Slot, capacity_y, value_y
from planner.chart.spec import Bar, ChartSpec, Crossing
from planner.chart.text import Measure

_AWAY = 8.0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One value: where it lies, and the ends of its band."""

    bar: Bar
    x: float
    y: float
    low_y: float
    high_y: float


@dataclass(frozen=True, slots=True)
class CurveMark:
    """The last point that fits some capacity, and what is written beside it."""

    crossing: Crossing
    x: float
    y: float
    label: Label


@dataclass(frozen=True, slots=True)
class CurveShape:
    points: tuple[CurvePoint, ...]
    marks: tuple[CurveMark, ...]


def curve_shape(spec: ChartSpec, columns: Sequence[Slot], plot: Rect, sizes: Sizes, measure: Measure) -> CurveShape:
    """Points in the middle of their columns; labels left above what they mark, on no line and none on another."""
    points = tuple(_point(spec, bar, slot, plot) for bar, slot in zip(spec.bars, columns, strict=True))
    at = {point.bar.key: point for point in points}
    lines = [capacity_y(line, spec.axis, plot) for line in spec.capacities]
    marks: list[CurveMark] = []
    for crossing in spec.crossings:
        point = at[crossing.key]
        height = sizes.total * LINE_HEIGHT
        width = measure(crossing.label, sizes.total, True)
        x = min(max(point.x - _AWAY - width, plot.x + LABEL_GAP), plot.right - width)
        rect = Rect(x, min(point.y, point.high_y) - _AWAY - height, width, height)
        while _is_crossed(rect, lines) or any(rect.overlaps(mark.label.rect) for mark in marks):
            rect = Rect(rect.x, rect.y - 2, width, height)
        marks.append(CurveMark(crossing, point.x, point.y, Label(crossing.label, rect, sizes.total, "left", True)))
    return CurveShape(points, tuple(marks))


def _is_crossed(rect: Rect, lines: Sequence[float]) -> bool:
    return any(rect.y - 1 < y < rect.bottom + 1 for y in lines)


def _point(spec: ChartSpec, bar: Bar, slot: Slot, plot: Rect) -> CurvePoint:
    y, low, high = (value_y(size, spec.axis, plot) for size in (bar.total_bytes, bar.low_bytes, bar.high_bytes))
    return CurvePoint(bar, slot.column.centre_x, y, low, high)
