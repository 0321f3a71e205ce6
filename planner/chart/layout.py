"""The whole picture of a lifecycle chart as rectangles, lines and labels: what the painter draws, and nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.chart.bar_labels import BarLabels, bar_labels, phase_labels
from planner.chart.capacity_labels import CapacityLabel, capacity_labels, capacity_margin
from planner.chart.curve_layout import CurveShape, curve_shape
from planner.chart.geometry import Line, Rect, uncovered
from planner.chart.labels import LINE_HEIGHT, Label, Sizes, Slot, slots, value_rect, value_y
from planner.chart.spec import Bar, ChartSpec, LegendEntry, Segment
from planner.chart.text import Measure, elide, wrap

_MARGIN = 22.0
_SWATCH = 11.0
_LEGEND_GAP = 20.0
_HEADROOM = 14.0
_TICK_GAP = 8.0
_CLEARANCE = 4.0


@dataclass(frozen=True, slots=True)
class BarShape:
    """One bar: its segments from the axis upwards, what is hatched, its whisker and what is written about it."""

    bar: Bar
    slot: Slot
    segments: tuple[tuple[Segment, Rect], ...]
    overflow: Rect | None
    whisker: Line | None
    """From the high end to the low end of the band."""
    limit: tuple[Line, ...]
    """Across the column where this phase gets less than the judge's capacity line says; interrupted behind labels."""
    labels: BarLabels
    names: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class CapacityShape:
    """A capacity line in the pieces that no label above a bar covers, and its own label."""

    pieces: tuple[Line, ...]
    label: CapacityLabel


@dataclass(frozen=True, slots=True)
class ChartLayout:
    plot: Rect
    heading: tuple[Label, ...]
    legend: tuple[tuple[LegendEntry, Rect, Label], ...]
    axis_label: Label
    """To be turned by 90° to the left around the centre of its rectangle."""
    ticks: tuple[Label, ...]
    grid: tuple[Line, ...]
    bars: tuple[BarShape, ...]
    capacities: tuple[CapacityShape, ...]
    footnote: tuple[Label, ...]
    bounds: tuple[Line, ...] = ()
    """Where one moment ends and the next begins, across the whole height of the plot; or where the plan is now."""
    curve: CurveShape | None = None

    @property
    def labels(self) -> tuple[Label, ...]:
        """Every text of the picture."""
        on_bars = [label for shape in self.bars for label in (*shape.labels.all, *shape.names)]
        beside = [label for _, _, label in self.legend] + [shape.label.label for shape in self.capacities]
        beside += [mark.label for mark in self.curve.marks] if self.curve else []
        return (*self.heading, *beside, self.axis_label, *self.ticks, *on_bars, *self.footnote)


def lay_out(spec: ChartSpec, area: Rect, measure: Measure, sizes: Sizes | None = None) -> ChartLayout:
    """Place everything of `spec` in `area`. A pure function: the same numbers give the same picture."""
    sizes = (sizes or Sizes()).for_width(area.width)
    inner = Rect(area.x + _MARGIN, area.y + _MARGIN, area.width - 2 * _MARGIN, area.height - 2 * _MARGIN)
    heading = _heading(spec, inner, sizes, measure)
    footnote = _footnote(spec, inner, sizes, measure)
    tick_width = max((measure(tick.label, sizes.tick, False) for tick in spec.axis.ticks), default=0.0)
    left = inner.x + sizes.tick * LINE_HEIGHT + tick_width + 2 * _TICK_GAP
    legend = _legend(spec, Rect(left, heading[-1].rect.bottom + 14, inner.right - left, 0), sizes, measure)
    top = (legend[-1][2] if legend else heading[-1]).rect.bottom
    width = max(inner.right - left - capacity_margin(spec.capacities, inner.width, sizes, measure), 1.0)
    floor = footnote[0].rect.y - _TICK_GAP if footnote else inner.bottom
    floor -= _names_height(spec, left, width, sizes, measure) + _TICK_GAP
    plot = Rect(left, top + _HEADROOM, width, max(floor - top - _HEADROOM, 1.0))
    columns = slots(len(spec.bars), plot, touching=spec.kind != "bars")
    names = phase_labels(spec.bars, columns, plot.bottom + _TICK_GAP, sizes, measure)
    bars = tuple(
        _bar(spec, bar, slot, labels, top + _CLEARANCE, sizes, measure)
        for bar, slot, labels in zip(spec.bars, columns, names, strict=True)
    )
    tick_ys = [value_y(tick.value_bytes, spec.axis, plot) for tick in spec.axis.ticks]
    return ChartLayout(
        plot,
        heading,
        legend,
        _axis_label(spec, inner.x, plot, sizes, measure),
        tuple(
            _tick(tick.label, y, plot.x - _TICK_GAP, tick_width, sizes)
            for tick, y in zip(spec.axis.ticks, tick_ys, strict=True)
        ),
        tuple(piece for y in tick_ys for piece in _pieces(plot.x, plot.right, y, bars)),
        bars,
        tuple(
            CapacityShape(_pieces(plot.x, plot.right, label.y, bars), label)
            for label in capacity_labels(spec.capacities, spec.axis, plot, inner.right - plot.right, sizes, measure)
        ),
        footnote,
        _bounds(spec, columns),
        curve_shape(spec, columns, plot, sizes, measure) if spec.kind == "curve" else None,
    )


def _bounds(spec: ChartSpec, columns: Sequence[Slot]) -> tuple[Line, ...]:
    if spec.kind == "curve":
        now = (slot.column for bar, slot in zip(spec.bars, columns, strict=True) if bar.key == spec.current)
        return tuple(Line(column.centre_x, column.y, column.centre_x, column.bottom) for column in now)
    if spec.kind != "steps":
        return ()
    return tuple(Line(slot.column.x, slot.column.y, slot.column.x, slot.column.bottom) for slot in columns[1:])


def _names_height(spec: ChartSpec, left: float, width: float, sizes: Sizes, measure: Measure) -> float:
    columns = slots(len(spec.bars), Rect(left, 0, width, 0))
    return max(
        (label.rect.bottom for labels in phase_labels(spec.bars, columns, 0, sizes, measure) for label in labels),
        default=0.0,
    )


def _heading(spec: ChartSpec, inner: Rect, sizes: Sizes, measure: Measure) -> tuple[Label, ...]:
    titles = wrap(spec.title, inner.width, 2, sizes.title, True, measure)
    subtitles = wrap(spec.subtitle, inner.width, 2, sizes.subtitle, False, measure)
    title_height, subtitle_height = sizes.title * LINE_HEIGHT, sizes.subtitle * 1.35
    below = inner.y + len(titles) * title_height + 3
    rows = [
        Label(text, Rect(inner.x, inner.y + index * title_height, inner.width, title_height), sizes.title, "left", True)
        for index, text in enumerate(titles)
    ]
    rows += [
        Label(
            text,
            Rect(inner.x, below + index * subtitle_height, inner.width, subtitle_height),
            sizes.subtitle,
            "left",
            role="muted",
        )
        for index, text in enumerate(subtitles)
    ]
    return tuple(rows) or (Label("", Rect(inner.x, inner.y, inner.width, 0), sizes.title, "left"),)


def _legend(spec: ChartSpec, area: Rect, sizes: Sizes, measure: Measure) -> tuple[tuple[LegendEntry, Rect, Label], ...]:
    height = sizes.legend * 1.5
    x, y = area.x, area.y
    shapes = []
    for entry in spec.legend:
        width = measure(entry.name, sizes.legend, False)
        if x > area.x and x + _SWATCH + 6 + width > area.right:
            x, y = area.x, y + height
        swatch = Rect(x, y + (height - _SWATCH) / 2, _SWATCH, _SWATCH)
        label = Label(entry.name, Rect(x + _SWATCH + 6, y, width, height), sizes.legend, "left", role="text")
        shapes.append((entry, swatch, label))
        x = label.rect.right + _LEGEND_GAP
    return tuple(shapes)


def _footnote(spec: ChartSpec, inner: Rect, sizes: Sizes, measure: Measure) -> tuple[Label, ...]:
    rows = wrap(spec.footnote, inner.width, 2, sizes.footnote, False, measure)
    height = sizes.footnote * 1.35
    return tuple(
        Label(
            text,
            Rect(inner.x, inner.bottom - height * (len(rows) - index), inner.width, height),
            sizes.footnote,
            "left",
            role="muted",
        )
        for index, text in enumerate(rows)
    )


def _axis_label(spec: ChartSpec, x: float, plot: Rect, sizes: Sizes, measure: Measure) -> Label:
    text = elide(spec.axis.label, plot.height, sizes.tick, False, measure)
    height = sizes.tick * LINE_HEIGHT
    centre_x = x + height / 2
    rect = Rect(centre_x - plot.height / 2, plot.centre_y - height / 2, plot.height, height)
    return Label(text, rect, sizes.tick, role="muted")


def _tick(text: str, y: float, right: float, width: float, sizes: Sizes) -> Label:
    height = sizes.tick * LINE_HEIGHT
    return Label(text, Rect(right - width, y - height / 2, width, height), sizes.tick, "right", role="muted")


def _bar(
    spec: ChartSpec, bar: Bar, slot: Slot, names: tuple[Label, ...], top: float, sizes: Sizes, measure: Measure
) -> BarShape:
    if spec.kind == "curve":
        return BarShape(bar, slot, (), None, None, (), BarLabels(), names)
    labels = bar_labels(bar, slot, spec.axis, spec.capacities, top, sizes, measure)
    middle = slot.column.centre_x
    band = value_rect(bar.low_bytes, bar.high_bytes, spec.axis, slot)
    return BarShape(
        bar,
        slot,
        tuple(
            (segment, value_rect(segment.start_bytes, segment.end_bytes, spec.axis, slot)) for segment in bar.segments
        ),
        value_rect(*bar.overflow, spec.axis, slot) if bar.overflow else None,
        Line(middle, band.y, middle, band.bottom) if bar.has_band else None,
        _limit(spec, bar, slot, labels),
        labels,
        names,
    )


def _limit(spec: ChartSpec, bar: Bar, slot: Slot, labels: BarLabels) -> tuple[Line, ...]:
    if bar.limit_bytes is None or spec.judge is None or bar.limit_bytes >= spec.judge.capacity_bytes:
        return ()
    y = value_y(bar.limit_bytes, spec.axis, slot.column)
    return _cut_by(slot.column.x, slot.column.right, y, labels.all)


def _pieces(left: float, right: float, y: float, bars: Iterable[BarShape]) -> tuple[Line, ...]:
    """A line across the plot, interrupted behind every label above a bar, so that none is struck through."""
    return _cut_by(left, right, y, [label for shape in bars for label in shape.labels.all])


def _cut_by(left: float, right: float, y: float, labels: Iterable[Label]) -> tuple[Line, ...]:
    rects = [label.rect for label in labels if label.rect.y - 1 < y < label.rect.bottom + 1]
    covers = [(rect.x - _CLEARANCE, rect.right + _CLEARANCE) for rect in rects]
    return tuple(Line(start, y, end, y) for start, end in uncovered(left, right, covers))
