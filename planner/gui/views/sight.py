"""What is on a page that nobody looks at need not follow edits."""

from PySide6.QtWidgets import QWidget


def out_of_sight(widget: QWidget) -> bool:
    """Whether a widget is in a window, but hidden there even when the window itself is shown."""
    window = widget.window()
    return window is not widget and not widget.isVisibleTo(window)
