"""Text drawn many times over, such as the cells of long tables: shaped once, and drawn from its glyphs."""

from functools import lru_cache

from PySide6.QtCore import QPointF
from PySide6.QtGui import QGlyphRun, QPainter, QTextLayout

from planner.chart.paint.fonts import font

_ENDLESS = 1e6


def draw_text(painter: QPainter, start: QPointF, text: str, size: int, bold: bool) -> None:
    """`text` on one line, its baseline from `start`, in the painter's pen, as `QPainter.drawText` has it."""
    for run in _runs(text, size, bold):
        painter.drawGlyphRun(start, run)


@lru_cache(maxsize=4096)
def _runs(text: str, size: int, bold: bool) -> tuple[QGlyphRun, ...]:
    """The glyphs of each font that `text` needs, around the start of the baseline."""
    layout = QTextLayout(text, font(size, bold))
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(_ENDLESS)
    line.setPosition(QPointF(0, -line.ascent()))
    layout.endLayout()
    return tuple(layout.glyphRuns())
