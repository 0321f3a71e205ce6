"""What is written above and below bars, placed so that nothing covers anything else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import floor

from planner.chart.geometry import Rect
from planner.chart.labels import LABEL_GAP, LINE_HEIGHT, Label, Sizes, Slot, capacity_y, value_y
from planner.chart.spec import Axis, Bar, CapacityLine
from planner.chart.text import Measure, wrap, wraps_whole

CHIP_PADDING = 0.7
"""Left and right of a chip's text, in font sizes."""

_CHIP_HEIGHT = 1.6  # in font sizes
_SMALLEST_CHIP = 9.0
_FARTHEST_MOVE = 28.0


@dataclass(frozen=True, slots=True)
class BarLabels:
    """What stands above a bar. The chip's `rect` is its own rounded shape, in which its text is centred."""

    total: Label | None = None
    chip: Label | None = None
    notes: tuple[Label, ...] = ()

    @property
    def all(self) -> tuple[Label, ...]:
        return (*(label for label in (self.total, self.chip) if label), *self.notes)


def bar_labels(
    bar: Bar, slot: Slot, axis: Axis, lines: Sequence[CapacityLine], top: float, sizes: Sizes, measure: Measure
) -> BarLabels:
    """The total above the bar and its whisker and the chip above the total; or the note in place of a bar.

    A total or note is moved up until no capacity line crosses it, unless that would take it too far from its bar:
    then it stays, and the line is to be interrupted behind it, as behind chips. All stay in the bar's column, and
    below `top`, which may lie above the plot. Numbers too wide are set smaller, never shortened.
    """
    line_ys = [capacity_y(line, axis, slot.column) for line in lines]
    if bar.limit_bytes is not None:
        line_ys.append(value_y(bar.limit_bytes, axis, slot.column))
    ground = value_y(bar.top_bytes, axis, slot.column) - LABEL_GAP
    if bar.note:
        return BarLabels(notes=_notes(bar.note, slot, ground, line_ys, sizes, measure))
    total = _fitted(bar.label_above, slot, sizes.total, measure)
    total = _standing(total, _clear_of(line_ys, ground, total.rect.height), top)
    if bar.chip is None:
        return BarLabels(total)
    chip = _fitted(bar.chip.text, slot, sizes.chip, measure, CHIP_PADDING)
    if chip.size < _SMALLEST_CHIP:
        chip = _fitted(bar.chip.short_text, slot, sizes.chip, measure, CHIP_PADDING)
    chip = _standing(replace(chip, role="text"), total.rect.y - LABEL_GAP, top)
    return BarLabels(_standing(total, total.rect.bottom, chip.rect.bottom), chip)


def phase_labels(
    bars: Sequence[Bar], columns: Sequence[Slot], below: float, sizes: Sizes, measure: Measure
) -> tuple[tuple[Label, ...], ...]:
    """For each bar its name and caption, in at most three lines from `below` downwards.

    Where a column is too narrow for the words of a name, all bars take their short names.
    """
    room = max((slot.column.width for slot in columns), default=0.0) - 2 * LABEL_GAP
    short = not all(wraps_whole(bar.label, room, 2, sizes.phase, False, measure) for bar in bars)
    return tuple(
        _phase_label(bar, bar.short_name if short else bar.label, slot, below, sizes, measure)
        for bar, slot in zip(bars, columns, strict=True)
    )


def _phase_label(bar: Bar, name: str, slot: Slot, below: float, sizes: Sizes, measure: Measure) -> tuple[Label, ...]:
    width = slot.column.width - 2 * LABEL_GAP
    height = sizes.phase * LINE_HEIGHT
    names = wrap(name, width, 2, sizes.phase, False, measure)
    captions = wrap(bar.caption, width, 3 - len(names), sizes.phase, False, measure)
    return tuple(
        Label(
            text,
            Rect(slot.column.x + LABEL_GAP, below + index * height, width, height),
            sizes.phase,
            role="text" if index < len(names) else "muted",
        )
        for index, text in enumerate((*names, *captions))
    )


def _notes(
    note: str, slot: Slot, ground: float, line_ys: Sequence[float], sizes: Sizes, measure: Measure
) -> tuple[Label, ...]:
    width = slot.column.width - 2 * LABEL_GAP
    rows = wrap(note, width, 3, sizes.note, False, measure)
    height = sizes.note * LINE_HEIGHT
    y = _clear_of(line_ys, ground, height * len(rows)) - height * len(rows)
    shown = [(text, min(measure(text, sizes.note, False), width)) for text in rows]
    return tuple(
        Label(
            text,
            Rect(slot.column.centre_x - text_width / 2, y + index * height, text_width, height),
            sizes.note,
            role="muted",
        )
        for index, (text, text_width) in enumerate(shown)
    )


def _fitted(text: str, slot: Slot, size: float, measure: Measure, padding: float = 0.0) -> Label:
    """A bold label, `padding` font sizes wider on both sides than its text, as large as the column allows."""
    room = slot.column.width - LABEL_GAP
    wanted = measure(text, size, True) + 2 * padding * size
    if wanted > room:
        size = max(1.0, floor(size * room / wanted))
        wanted = min(measure(text, size, True) + 2 * padding * size, room)
    height = size * (_CHIP_HEIGHT if padding else LINE_HEIGHT)
    return Label(text, Rect(slot.column.centre_x - wanted / 2, 0, wanted, height), size, bold=True)


def _standing(label: Label, ground: float, top: float) -> Label:
    """`label` with its bottom on `ground`, or as high as `top` allows."""
    return replace(label, rect=replace(label.rect, y=max(ground - label.rect.height, top)))


def _clear_of(line_ys: Sequence[float], ground: float, height: float) -> float:
    """The lowest bottom, at `ground` or above, for something so high that no line crosses; `ground` if it is far."""
    bottom = ground
    for line_y in sorted(line_ys, reverse=True):
        if bottom - height - 1 < line_y < bottom + 1:
            bottom = line_y - LABEL_GAP
    return bottom if ground - bottom <= _FARTHEST_MOVE else ground
