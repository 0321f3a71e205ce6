"""What a picture says of itself below its charts, laid out from the bottom upwards."""

from collections.abc import Sequence

from planner.chart.geometry import Rect
from planner.chart.labels import LINE_HEIGHT, Label
from planner.chart.text import Measure, one_line, wrap

IMPRINT_GAP = 2.0
"""Between the lowest chart and the first line."""
SIZE = 10.0
MARGIN = 22.0
LARGEST_SHARE = 0.3
"""Of the picture's height; beyond it each text gets fewer lines."""
_MOST_LINES = 3


def imprint_labels(texts: Sequence[str], width: float, height: float, measure: Measure) -> tuple[Label, ...]:
    """Each text on up to three lines, on fewer where there is little room; of those beyond the room
    only the last is said."""
    room = width - 2 * MARGIN
    line = SIZE * LINE_HEIGHT
    rows: list[str] = []
    most = int((height * LARGEST_SHARE - MARGIN) // line)
    for allowed in range(_MOST_LINES, 0, -1):
        rows = [row for text in texts for row in wrap(one_line(text), room, allowed, SIZE, False, measure)]
        if len(rows) <= most:
            break
    if not texts or most < 1:
        return ()
    if len(rows) > most:
        rows = [*rows[: most - 1], rows[-1]]
    top = height - MARGIN - len(rows) * line
    return tuple(
        Label(row, Rect(MARGIN, top + index * line, room, line), SIZE, "left", role="muted")
        for index, row in enumerate(rows)
    )
