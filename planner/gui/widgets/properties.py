"""Dynamic properties that the style sheet looks at."""

from PySide6.QtWidgets import QFrame, QLabel, QWidget


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
    label = QLabel(text)
    label.setProperty("role", role)
    label.setWordWrap(wrap)
    return label


def card(name: str) -> QFrame:
    """A framed, rounded surface; `name` is what a screen reader calls it."""
    frame = QFrame()
    frame.setProperty("card", True)
    frame.setAccessibleName(name)
    return frame
