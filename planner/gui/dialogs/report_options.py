"""What stands in the head of a report beside the plan, kept for the next one, and whether to search beside it."""

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from planner.errors import PlannerError
from planner.gui.settings import Settings
from planner.gui.widgets.properties import text_label
from planner.report.logo import read_logo
from planner.report.parts import Template

_LINES = (
    ("company", "&Company", "Whose report it is"),
    ("author", "&Author", "Who made it"),
    ("reviewer", "&Reviewer", "Who reviews it"),
    ("status", "&Status", "How far it has got, such as “draft”"),
)
_LOGOS = "Pictures (*.png *.jpg *.jpeg *.svg)"
_NOTES_HEIGHT = 76


class ReportOptions(QDialog):
    """Asks for the head of a report. `template` and `searches` are what was answered."""

    def __init__(self, settings: Settings, window: QWidget) -> None:
        super().__init__(window)
        self.setWindowTitle("Export report")
        self.setMinimumWidth(480)
        self._settings = settings
        known = kept_template(settings)
        grid = QGridLayout()
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        self.lines: dict[str, QLineEdit] = {}
        for row, (name, label, hint) in enumerate(_LINES):
            line = self.lines[name] = QLineEdit(str(getattr(known, name)))
            line.setPlaceholderText(hint)
            _add(grid, row, label, line)
        self.logo = QLineEdit("" if known.logo is None else str(known.logo))
        self.logo.setPlaceholderText("PNG, JPEG or SVG picture for its head")
        choose = QPushButton("C&hoose…")
        choose.setAccessibleName("Choose logo")
        choose.setAutoDefault(False)
        choose.clicked.connect(self._choose_logo)
        place = QHBoxLayout()
        place.setSpacing(6)
        place.addWidget(self.logo, 1)
        place.addWidget(choose)
        holder = QWidget()
        holder.setLayout(place)
        place.setContentsMargins(0, 0, 0, 0)
        _add(grid, len(_LINES), "&Logo", self.logo, holder)
        self.message = text_label("", "error", wrap=True)
        self.message.hide()
        grid.addWidget(self.message, len(_LINES) + 1, 1)
        self.notes = QPlainTextEdit(known.notes)
        self.notes.setFixedHeight(_NOTES_HEIGHT)
        self.notes.setTabChangesFocus(True)
        self.notes.setPlaceholderText("Further words for its first page")
        _add(grid, len(_LINES) + 2, "&Notes", self.notes)
        self.search = QCheckBox("Search &for what would make it fit, GPUs needed and measured cases like it")
        self.search.setToolTip("Takes some seconds; the report is complete without it in all that the plan itself says")
        self.search.setChecked(settings.text("report/search") != "no")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.go_on = buttons.addButton("Save re&port…", QDialogButtonBox.ButtonRole.AcceptRole)
        self.go_on.setDefault(True)
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(10)
        told = text_label("What stands in its head beside the plan; kept for the next report.", "hint", wrap=True)
        column.addWidget(told)
        column.addLayout(grid)
        column.addWidget(self.search)
        column.addSpacing(4)
        column.addWidget(buttons)

    @property
    def template(self) -> Template:
        return _template(
            {name: line.text().strip() for name, line in self.lines.items()},
            self.notes.toPlainText().strip(),
            self.logo.text().strip(),
        )

    @property
    def searches(self) -> bool:
        return self.search.isChecked()

    def _choose_logo(self) -> None:
        folder = str(Path(self.logo.text()).parent) if self.logo.text() else str(Path.home())
        chosen, _ = QFileDialog.getOpenFileName(self, "Choose logo", folder, _LOGOS)
        if chosen:
            self.logo.setText(chosen)

    def _accept(self) -> None:
        """Go on where the logo can be read; what was answered is kept."""
        found = self.template
        try:
            if found.logo is not None:
                read_logo(found.logo)
        except PlannerError as error:
            self.message.setText(error.message)
            self.message.show()
            self.logo.setFocus()
            return
        keep_template(self._settings, found)
        self._settings.keep_text("report/search", "yes" if self.searches else "no")
        self.accept()


def kept_template(settings: Settings) -> Template:
    """What was said of the last report."""
    lines = {name: settings.text(f"report/{name}") for name, _, _ in _LINES}
    return _template(lines, settings.text("report/notes"), settings.text("report/logo"))


def keep_template(settings: Settings, template: Template) -> None:
    for name, _, _ in _LINES:
        settings.keep_text(f"report/{name}", str(getattr(template, name)))
    settings.keep_text("report/notes", template.notes)
    settings.keep_text("report/logo", "" if template.logo is None else str(template.logo))


def _template(lines: Mapping[str, str], notes: str, logo: str) -> Template:
    company, author, reviewer, status = (lines[name] for name, _, _ in _LINES)
    return Template(company, author, reviewer, status, notes, Path(logo) if logo else None)


def _add(grid: QGridLayout, row: int, label: str, editor: QWidget, holder: QWidget | None = None) -> None:
    caption = QLabel(label)
    caption.setProperty("role", "label")
    caption.setBuddy(editor)
    editor.setAccessibleName(label.replace("&", ""))
    grid.addWidget(caption, row, 0)
    grid.addWidget(holder or editor, row, 1)
