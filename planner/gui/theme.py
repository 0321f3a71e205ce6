"""Light, dark or as the system: palette and style sheet of the whole program, switched while it runs."""

from typing import Literal, get_args

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from planner.gui.style import style_sheet
from planner.gui.tokens import DARK, LIGHT, Tokens

ThemeChoice = Literal["system", "light", "dark"]
THEME_CHOICES: tuple[ThemeChoice, ...] = get_args(ThemeChoice)


class Theme(QObject):
    """The theme in force. Whoever paints by hand listens to `changed`; everything else follows the style sheet."""

    changed = Signal(object)

    def __init__(self, app: QApplication, choice: ThemeChoice = "system") -> None:
        super().__init__(app)
        self._app = app
        self._choice: ThemeChoice = choice
        self.tokens = self._wanted()
        app.setStyle("Fusion")
        self._dress()
        app.styleHints().colorSchemeChanged.connect(self._follow_system)

    @property
    def choice(self) -> ThemeChoice:
        return self._choice

    def choose(self, choice: ThemeChoice) -> None:
        """Switch at once; `system` follows the desktop from now on."""
        self._choice = choice
        self._update()

    def _follow_system(self) -> None:
        if self._choice == "system":
            self._update()

    def _update(self) -> None:
        wanted = self._wanted()
        if wanted is self.tokens:
            return
        self.tokens = wanted
        self._dress()
        self.changed.emit(wanted)

    def _wanted(self) -> Tokens:
        if self._choice == "system":
            return DARK if self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT
        return DARK if self._choice == "dark" else LIGHT

    def _dress(self) -> None:
        sheet = style_sheet(self.tokens)
        if sheet != self._app.styleSheet():
            self._app.setPalette(palette(self.tokens))
            self._app.setStyleSheet(sheet)


def palette(tokens: Tokens) -> QPalette:
    """The Qt palette for what the style sheet does not reach: selections, links, placeholders, disabled text."""
    role = QPalette.ColorRole
    result = QPalette()
    for key, colour in (
        (role.Window, tokens.window),
        (role.WindowText, tokens.ink),
        (role.Base, tokens.field),
        (role.AlternateBase, tokens.hover),
        (role.Text, tokens.ink),
        (role.PlaceholderText, tokens.muted),
        (role.Button, tokens.panel),
        (role.ButtonText, tokens.ink),
        (role.BrightText, tokens.bad),
        (role.Highlight, tokens.accent),
        (role.HighlightedText, tokens.on_accent),
        (role.Link, tokens.accent_ink),
        (role.LinkVisited, tokens.accent_ink),
        (role.ToolTipBase, tokens.tooltip),
        (role.ToolTipText, tokens.on_tooltip),
        (role.Mid, tokens.line),
        (role.Dark, tokens.line),
        (role.Light, tokens.panel),
    ):
        result.setColor(key, QColor(colour))
    for key in (role.Text, role.WindowText, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, key, QColor(tokens.none_dot if not tokens.dark else "#5b6573"))
    return result
