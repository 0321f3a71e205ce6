"""Light, dark and system, switched while the window is open; texts stand out from what is behind them."""

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication

from planner.gui.tokens import DARK, LIGHT

TEXTS = (
    ("ink", "window"),
    ("ink", "panel"),
    ("ink", "field"),
    ("label", "panel"),
    ("label", "hover"),
    ("muted", "panel"),
    ("muted", "window"),
    ("muted", "field"),
    ("accent_ink", "panel"),
    ("accent_ink", "accent_soft"),
    ("on_accent", "accent"),
    ("ok", "ok_soft"),
    ("warn", "warn_soft"),
    ("bad", "bad_soft"),
    ("bad", "panel"),
    ("warn", "panel"),
    ("none", "none_soft"),
    ("on_tooltip", "tooltip"),
)


def luminance(colour):
    """Relative luminance, WCAG 2.2."""
    parts = QColor(colour).getRgbF()[:3]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "behind"), TEXTS)
def test_texts_are_readable_as_wcag_aa_asks(tokens, text, behind):
    assert contrast(getattr(tokens, text), getattr(tokens, behind)) >= 4.5


def pixel(window):
    image = window.chart.grab().toImage()
    return image.pixelColor(20, image.height() // 2).name()


def test_the_theme_is_switched_at_once_and_remembered(window, qapp):
    assert pixel(window) == LIGHT.panel
    window.actions_.themes.actions()[2].trigger()
    qapp.processEvents()
    assert pixel(window) == DARK.panel
    assert QApplication.palette().window().color().name() == DARK.window
    assert window.settings.theme == "dark"
    window.actions_.themes.actions()[1].trigger()
    qapp.processEvents()
    assert pixel(window) == LIGHT.panel


def test_the_system_theme_follows_the_system(window):
    window.choose_theme("system")
    scheme = QApplication.styleHints().colorScheme()
    assert window.theme.tokens.dark == (scheme.name == "Dark")
