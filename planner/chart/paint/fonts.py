"""The bundled typeface, and measuring text in it."""

from functools import cache, lru_cache

from PySide6.QtGui import QFont, QFontDatabase, QFontMetricsF

from planner.errors import ResourceError
from planner.resources import resource

FAMILY = "Inter"
_FILES = ("Inter-Regular.ttf", "Inter-SemiBold.ttf")


@cache
def load_fonts() -> str:
    """Make the bundled family known to Qt and return its name. Needs a QGuiApplication; later calls cost nothing."""
    for name in _FILES:
        path = resource("fonts", name)
        if QFontDatabase.addApplicationFont(str(path)) < 0:
            raise ResourceError(f"The font {path} cannot be read. Please install the planner again.")
    return FAMILY


def font(size: float, bold: bool = False) -> QFont:
    """The chart's font at `size` logical pixels, without hinting, so that it is as wide in every format."""
    return _font(max(1, round(size)), bold)


@lru_cache(maxsize=8192)
def text_width(text: str, size: float, bold: bool) -> float:
    """The `Measure` of all charts: how wide `text` is at `size` logical pixels."""
    return _metrics(max(1, round(size)), bold).horizontalAdvance(text)


@cache
def _font(size: int, bold: bool) -> QFont:
    face = QFont(load_fonts())
    face.setPixelSize(size)
    face.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    # Contextual forms have private code points in Inter, and a text copied out of a PDF would hold these.
    face.setFeature(QFont.Tag("calt"), 0)
    face.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    return face


@cache
def _metrics(size: int, bold: bool) -> QFontMetricsF:
    return QFontMetricsF(_font(size, bold))
