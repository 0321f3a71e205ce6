"""The bundled typeface."""

import pytest
from PySide6.QtGui import QFontInfo

from planner.chart.paint.fonts import FAMILY, font, load_fonts, text_width
from planner.resources import resource


def test_the_bundled_family_is_what_qt_uses() -> None:
    assert load_fonts() == FAMILY == "Inter"
    for bold, weight in ((False, 400), (True, 600)):
        found = QFontInfo(font(12, bold))
        assert found.family() == "Inter"
        assert found.weight() == weight


def test_text_is_as_wide_on_every_machine() -> None:
    """Without hinting, widths are the font's own advances in proportion to the size."""
    assert text_width("OOM +14.7", 100, True) == pytest.approx(531.2, abs=0.5)
    assert text_width("59.1", 100, False) == pytest.approx(179.6, abs=0.5)
    assert text_width("59.1", 24, False) == pytest.approx(2 * text_width("59.1", 12, False), rel=0.01)


def test_the_font_comes_with_its_licence_and_is_small() -> None:
    folder = resource("fonts")
    assert "SIL OPEN FONT LICENSE" in (folder / "OFL.txt").read_text()
    assert sum(path.stat().st_size for path in folder.glob("*.ttf")) < 1_000_000
