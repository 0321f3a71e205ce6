"""Dynamic properties that the style sheet looks at."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


def set_property(widget: QWidget, name: str, value: object) -> None:
    """Set a property and restyle this one widget if that changed anything."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)
    widget.update()


def text_label(text: str, role: str, *, wrap: bool = False) -> QLabel:
    """A label of one of the roles of the style sheet: `heading`, `title`, `label`, `hint`, `error`, …"""
    label = plain_label(text)
    label.setProperty("role", role)
    label.setWordWrap(wrap)
    return label


def plain_label(text: str = "") -> QLabel:
    """A label that shows its text as it is: `<` in a name or a number is no markup."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label
