"""Labels of capacity lines, in a margin right of the plot: never on a bar, never on one another."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.chart.geometry import Line, Rect, spread
from planner.chart.labels import LABEL_GAP, LINE_HEIGHT, Label, Sizes, capacity_y
from planner.chart.spec import Axis, CapacityLine
from planner.chart.text import ELLIPSIS, Measure, elide

_LEADER = 16.0
_WIDEST = 180.0
_LARGEST_SHARE = 0.26


@dataclass(frozen=True, slots=True)
class CapacityLabel:
    """A capacity's label beside the plot, and the leader from the end of its line to the label."""

    line: CapacityLine
    y: float
    """Of the line itself."""
    label: Label
    leader: Line


def capacity_margin(lines: Sequence[CapacityLine], width: float, sizes: Sizes, measure: Measure) -> float:
    """How much to keep free right of the plot for capacity labels, in a chart `width` wide."""
    widest = max((measure(line.label, sizes.capacity, line.judge) for line in lines), default=0.0)
    return min(widest, _WIDEST, width * _LARGEST_SHARE) + _LEADER + LABEL_GAP if lines else 0.0


def capacity_labels(
    lines: Sequence[CapacityLine], axis: Axis, plot: Rect, margin: float, sizes: Sizes, measure: Measure
) -> tuple[CapacityLabel, ...]:
    """Labels from the top downwards, each beside its line or moved as little as keeps them apart.

    They share the height of the plot; where they are too many for it they become smaller.
    """
    if not lines:
        return ()
    size = min(sizes.capacity, plot.height / len(lines) / LINE_HEIGHT)
    height = size * LINE_HEIGHT
    ordered = sorted(lines, key=lambda line: -line.capacity_bytes)
    ys = [capacity_y(line, axis, plot) for line in ordered]
    centres = spread(ys, height, plot.y + height / 2, plot.bottom - height / 2)
    room = max(margin - _LEADER, 0.0)
    return tuple(
        CapacityLabel(
            line,
            y,
            Label(
                _shortened(line, room, size, measure),
                Rect(plot.right + _LEADER, centre - height / 2, room, height),
                size,
                "left",
                line.judge,
            ),
            Line(plot.right, y, plot.right + _LEADER - 4, centre),
        )
        for line, y, centre in zip(ordered, ys, centres, strict=True)
    )


def _shortened(line: CapacityLine, room: float, size: float, measure: Measure) -> str:
    """The label, with its name shortened before its number is touched."""
    if measure(line.label, size, line.judge) <= room:
        return line.label
    end = f" · {line.size_text}"
    name = elide(line.name, room - measure(end, size, line.judge), size, line.judge, measure)
    if name in ("", ELLIPSIS):
        return elide(line.size_text, room, size, line.judge, measure)
    return name + end
