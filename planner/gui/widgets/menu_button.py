"""Push buttons for the toolbar: one carries an action, another opens a menu."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QPushButton, QWidget
from shiboken6 import isValid


class ActionButton(QPushButton):
    """Looks and does as its action says, with the action's short text."""

    def __init__(self, action: QAction, *, primary: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._action = action
        self.setProperty("primary", primary)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setIconSize(QSize(16, 16))
        self.clicked.connect(action.trigger)
        action.changed.connect(self._follow)
        self._follow()

    def _follow(self) -> None:
        if not isValid(self._action):  # a window that is being deleted still says that its actions change
            return
        self.setText(self._action.iconText().replace("&", ""))
        if not self._action.icon().isNull():
            self.setIcon(self._action.icon())
        self.setToolTip(self._action.toolTip())
        self.setEnabled(self._action.isEnabled())


def menu_button(text: str, name: str, menu: QMenu) -> QPushButton:
    """A button that opens `menu`."""
    button = QPushButton(text)
    button.setProperty("menu", True)
    button.setAccessibleName(name)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    button.setMenu(menu)
    return button
