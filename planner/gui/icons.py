"""Icons from the resources, drawn in the colour that the theme asks for."""

from functools import cache

from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap

from planner.resources import resource

_PIXEL_RATIOS = (1.0, 2.0, 3.0)


@cache
def icon(name: str, colour: str = "") -> QIcon:
    """An icon of `resources/icons`; with a `colour`, as a silhouette in it."""
    plain = QIcon(str(resource("icons", f"{name}.svg")))
    if not colour:
        return plain
    tinted = QIcon()
    for ratio in _PIXEL_RATIOS:
        tinted.addPixmap(_tint(plain.pixmap(QSize(16, 16), ratio), colour))
    return tinted


def _tint(pixmap: QPixmap, colour: str) -> QPixmap:
    painter = QPainter(pixmap)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
    painter.fillRect(pixmap.rect(), QColor(colour))
    painter.end()
    return pixmap
