"""What is to be known about a model that was just imported; it stays until it is closed or another model is taken."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QToolButton

from planner.gui.icons import icon
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.widgets.properties import text_label


class NoticePanel(QFrame):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setProperty("note", True)
        self.setAccessibleName("About the imported model")
        self._session = session
        self._model: object = None
        self.title = text_label("", "title", wrap=True)
        self.text = text_label("", "label", wrap=True)
        self.text.setAccessibleName("Notes about the imported model")
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        close = QToolButton()
        close.setProperty("flat", True)
        close.setIcon(icon("close"))
        close.setAccessibleName("Close the notes")
        close.setToolTip("Close")
        close.clicked.connect(self.hide)
        grid = QGridLayout(self)
        grid.setContentsMargins(12, 8, 8, 9)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(0, 1)
        grid.addWidget(self.title, 0, 0)
        grid.addWidget(close, 0, 1, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(self.text, 1, 0, 1, 2)
        self.hide()
        session.state_changed.connect(self._on_state)

    def show_notes(self, name: str, notes: tuple[str, ...]) -> None:
        """Tell `notes` about the model that the plan has now; without any there is nothing to see."""
        self._model = self._session.state.scenario.model
        self.title.setText(f"About {name}")
        self.text.setText("\n".join(notes))
        self.setVisible(bool(notes))

    def _on_state(self, state: State, _before: State) -> None:
        if not self.isHidden() and state.scenario.model is not self._model:
            self.hide()
