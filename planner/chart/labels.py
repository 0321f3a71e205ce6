"""What labels are made of, and the geometry that they share: columns of bars and the height of a value.

Layout is made of pure functions over plain rectangles, in pixels with y growing downwards, shared by the plot in the
window and by pictures: `bar_labels` and `phase_labels` (`planner.chart.bar_labels`) and `capacity_labels`
(`planner.chart.capacity_labels`) need only the rectangle between the axes and a `Measure` for text. `plot` always
means that rectangle: zero is at its bottom and the axis's maximum at its top.
"""

from dataclasses import dataclass, fields
from typing import Literal

from planner.chart.geometry import Rect
from planner.chart.spec import Axis, CapacityLine

Anchor = Literal["left", "middle", "right"]
Role = Literal["ink", "text", "muted"]
"""Names a colour of `planner.chart.palette.ChartPalette`."""

LINE_HEIGHT = 1.25
"""Of any text, in font sizes."""

LABEL_GAP = 3.0
"""Free pixels beside and between labels."""

_BAR_SHARE = 0.6
_WIDEST_BAR = 110.0
_FULL_SIZE_FROM = 800.0
_SMALLEST_SCALE = 0.85


@dataclass(frozen=True, slots=True)
class Sizes:
    """Font sizes in pixels."""

    title: float = 17.0
    subtitle: float = 12.5
    legend: float = 12.0
    tick: float = 12.0
    phase: float = 12.5
    total: float = 13.5
    chip: float = 12.0
    note: float = 12.0
    capacity: float = 12.0
    footnote: float = 10.5

    def for_width(self, width: float) -> "Sizes":
        """Somewhat smaller for a chart narrower than usual."""
        scale = max(_SMALLEST_SCALE, min(1.0, width / _FULL_SIZE_FROM))
        return Sizes(**{field.name: getattr(self, field.name) * scale for field in fields(self)})


@dataclass(frozen=True, slots=True)
class Label:
    """One line of text in `rect`: set at its left, middle or right, and centred vertically."""

    text: str
    rect: Rect
    size: float
    anchor: Anchor = "middle"
    bold: bool = False
    role: Role = "ink"


@dataclass(frozen=True, slots=True)
class Slot:
    """The column of one bar: its labels stay inside `column`, the bar stands on `left`..`left + width`."""

    column: Rect
    left: float
    width: float


def slots(count: int, plot: Rect, *, touching: bool = False) -> tuple[Slot, ...]:
    """Equal columns for `count` bars; a bar takes three fifths of its column, but no more than looks well.

    Bars that are `touching` take all of it.
    """
    step = plot.width / max(count, 1)
    width = step if touching else min(step * _BAR_SHARE, _WIDEST_BAR)
    columns = (Rect(plot.x + step * index, plot.y, step, plot.height) for index in range(count))
    return tuple(Slot(column, column.centre_x - width / 2, width) for column in columns)


def value_y(value_bytes: float, axis: Axis, plot: Rect) -> float:
    """Where a value lies: zero at the plot's bottom, the axis's maximum at its top."""
    return plot.bottom - plot.height * value_bytes / axis.maximum_bytes


def capacity_y(line: CapacityLine, axis: Axis, plot: Rect) -> float:
    """Where a capacity's line lies: at its value, or at the plot's top where that is beyond the axis."""
    return plot.y if line.beyond else value_y(line.capacity_bytes, axis, plot)


def value_rect(low_bytes: float, high_bytes: float, axis: Axis, slot: Slot) -> Rect:
    """The part of a bar between two values; `slot.column` spans the plot's height."""
    y = value_y(high_bytes, axis, slot.column)
    return Rect(slot.left, y, slot.width, value_y(low_bytes, axis, slot.column) - y)
