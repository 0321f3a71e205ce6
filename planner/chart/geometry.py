"""Plain rectangles and lines in pixels (y grows downwards), and the few operations that layout and hatching need."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import cos, radians, sin


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def centre_x(self) -> float:
        return self.x + self.width / 2

    @property
    def centre_y(self) -> float:
        return self.y + self.height / 2

    def overlaps(self, other: "Rect", tolerance: float = 1e-6) -> bool:
        """Whether the two share more than an edge."""
        return (
            self.x < other.right - tolerance
            and other.x < self.right - tolerance
            and self.y < other.bottom - tolerance
            and other.y < self.bottom - tolerance
        )

    def contains(self, other: "Rect", tolerance: float = 1e-6) -> bool:
        return (
            other.x >= self.x - tolerance
            and other.right <= self.right + tolerance
            and other.y >= self.y - tolerance
            and other.bottom <= self.bottom + tolerance
        )


@dataclass(frozen=True, slots=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> tuple[float, ...]:
    """Positions near `wanted` (ascending) that are at least `gap` apart and within `low`..`high`.

    They move as little as possible in the sense of least squares: neighbours that are too near form a block around
    their mean, and blocks that touch merge (pool adjacent violators). Where not even even spacing fits, it is used.
    """
    count = len(wanted)
    if count > 1 and gap * (count - 1) > high - low:
        return tuple(low + (high - low) * index / (count - 1) for index in range(count))
    blocks: list[list[float]] = []  # each block's members, as positions of its first member
    for index, position in enumerate(wanted):
        blocks.append([position - index * gap])
        while len(blocks) > 1 and _mean(blocks[-2]) > _mean(blocks[-1]):
            last = blocks.pop()
            blocks[-1].extend(last)
    first = [min(max(_mean(block), low), high - gap * (count - 1)) for block in blocks for _ in block]
    return tuple(position + index * gap for index, position in enumerate(first))


def uncovered(start: float, end: float, covers: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The pieces of `start`..`end` that none of the intervals `covers` hides."""
    pieces: list[tuple[float, float]] = []
    at = start
    for cover_start, cover_end in sorted(covers):
        if cover_start > at:
            pieces.append((at, min(cover_start, end)))
        at = max(at, cover_end)
        if at >= end:
            break
    if at < end:
        pieces.append((at, end))
    return tuple(piece for piece in pieces if piece[1] > piece[0])


def hatching(area: Rect, spacing: float, degrees: float) -> tuple[Line, ...]:
    """Parallel lines at an angle, `spacing` apart and already cut at the edges of `area`.

    The lines lie on one grid for the whole picture, so that neighbouring areas continue each other. As plain lines
    they look the same in every file format; pattern brushes do not.
    """
    if area.width <= 0 or area.height <= 0:
        return ()
    along = (cos(radians(degrees)), -sin(radians(degrees)))
    normal = (-along[1], along[0])
    corners = [(x, y) for x in (area.x, area.right) for y in (area.y, area.bottom)]
    distances = [x * normal[0] + y * normal[1] for x, y in corners]
    first, last = int(min(distances) // spacing) + 1, int(max(distances) // spacing)
    lines = (_cut(area, along, normal, index * spacing) for index in range(first, last + 1))
    return tuple(line for line in lines if line is not None)


def _cut(area: Rect, along: tuple[float, float], normal: tuple[float, float], distance: float) -> Line | None:
    point = (normal[0] * distance, normal[1] * distance)
    entry, leaving = float("-inf"), float("inf")
    for position, direction, low, high in (
        (point[0], along[0], area.x, area.right),
        (point[1], along[1], area.y, area.bottom),
    ):
        if abs(direction) < 1e-9:
            if not low < position < high:
                return None
            continue
        near, far = sorted(((low - position) / direction, (high - position) / direction))
        entry, leaving = max(entry, near), min(leaving, far)
    if leaving - entry < 1e-6:
        return None
    return Line(
        point[0] + along[0] * entry,
        point[1] + along[1] * entry,
        point[0] + along[0] * leaving,
        point[1] + along[1] * leaving,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
