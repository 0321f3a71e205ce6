"""One row of a form: label, editor, help, accessible name and inline message, set in one place."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox, QGridLayout, QLabel, QSizePolicy

from planner.gui.forms.editors import editor_for, shown_unit
from planner.gui.session import FieldPath, Session
from planner.gui.state import State
from planner.gui.widgets.properties import plain_label, set_property
from planner.gui.words import strong
from planner.scenario import Declared, FieldDeclaration, issue_text

LABEL_WIDTH = 142
EDITOR_HEIGHT = 27


class FieldRow:
    """A field of the scenario on screen. `refresh` shows a state, changing only what differs."""

    def __init__(self, declaration: FieldDeclaration, path: FieldPath, session: Session, name_prefix: str = "") -> None:
        self.path = path
        self._declaration = declaration
        self._session = session
        self._editor = editor_for(declaration, self._on_edit)
        self._message_shown = ("", "")
        self._value: object = self  # nothing a field can hold
        self.editor = self._editor.widget
        self.label = QLabel(declaration.label)
        self.label.setProperty("role", "label")
        self.label.setBuddy(self.editor)
        self.label.setWordWrap(True)
        self.message = plain_label()
        self.message.setWordWrap(True)
        self.message.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.message.hide()
        tip = help_html(declaration)
        self.label.setToolTip(tip)
        self.editor.setToolTip(tip)
        self.editor.setWhatsThis(tip)
        self.editor.setAccessibleName(f"{name_prefix}{declaration.label}")
        self._description = declaration.help + (f" In {shown_unit(declaration)}." if declaration.unit else "")
        self.editor.setAccessibleDescription(self._description)
        self.editor.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        if not isinstance(self.editor, QCheckBox):
            self.editor.setFixedHeight(EDITOR_HEIGHT)

        self.reset = QAction("&Reset to default", self.editor)
        self.reset.setShortcut("Ctrl+Backspace")
        self.reset.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.reset.setEnabled(False)
        self.reset.triggered.connect(self._reset)
        self.editor.addAction(self.reset)
        self.label.addAction(self.reset)
        self.label.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def add_to(self, grid: QGridLayout, row: int, height: int) -> None:
        """Take two grid rows from `row` on: the field in `height`, and below it its message."""
        self.label.setMinimumHeight(height)
        grid.addWidget(self.label, row, 0)
        grid.addWidget(self.editor, row, 1)
        grid.addWidget(self.message, row + 1, 0, 1, 2)

    def refresh(self, holder: object | None, state: State) -> None:
        """Show the field's value in `holder` (its part of `state`, None if that is not there) and what is wrong."""
        value = None if holder is None else getattr(holder, self._declaration.name)
        if value is not self._value:
            self._value = value
            self._editor.set_value(value)
        stated = isinstance(holder, Declared) and holder.states(self._declaration.name)
        self.reset.setEnabled(stated and not self._declaration.required)
        self._tell_issues(state)

    def _tell_issues(self, state: State) -> None:
        issues = state.issues_at(self.path)
        wrong = any(issue.severity == "error" for issue in issues)
        self._say("error" if wrong else "warning", " ".join(issue_text(issue) for issue in issues))

    def show_if(self, applies: bool) -> None:
        """A field that means nothing now is not shown."""
        if self.label.isHidden() == applies:
            self.label.setVisible(applies)
            self.editor.setVisible(applies)
            self.message.setVisible(applies and bool(self.text))

    @property
    def text(self) -> str:
        """The message shown below the field."""
        return self._message_shown[1]

    def _on_edit(self, value: object) -> None:
        self._value = self  # what the editor shows may differ from the scenario until the next refresh
        refused = self._session.edit(self.path, value)
        if refused:
            self._say("error", refused)
        else:
            self._tell_issues(self._session.state)

    def _reset(self) -> None:
        self._value = self
        self._session.reset(self.path)
        self._tell_issues(self._session.state)

    def _say(self, role: str, text: str) -> None:
        if not text:
            role = ""
        if (role, text) == self._message_shown:
            return
        self._message_shown = (role, text)
        self.message.setText(text)
        self.message.setVisible(bool(text))
        set_property(self.message, "role", role)
        set_property(self.editor, "invalid", role == "error")
        self.editor.setAccessibleDescription(f"{text} {self._description}".strip())


def help_html(declaration: FieldDeclaration) -> str:
    """The tooltip: what the field means, and what it is if nothing is entered."""
    default = declaration.default
    shown = next((label for value, label in declaration.choices or () if value == default), default)
    lines = [strong(declaration.label), declaration.help]
    if isinstance(shown, bool):
        shown = "on" if shown else "off"
    if isinstance(shown, str | int | float):
        lines.append(f"Default: {shown}{f' {declaration.unit}' if declaration.unit else ''} (Ctrl+Backspace)")
    return "<qt>" + "<br>".join(line for line in lines if line) + "</qt>"
