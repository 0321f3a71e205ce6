"""Every command of the window: its text, shortcut and where it stands in menus and toolbar."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QUndoStack
from PySide6.QtWidgets import QMenu, QMenuBar, QSizePolicy, QToolBar, QWidget

from planner.gui.icons import icon
from planner.gui.page_list import PAGES
from planner.gui.theme import THEME_CHOICES
from planner.gui.widgets.menu_button import ActionButton, menu_button

Key = QKeySequence.StandardKey
UNITS = ("GiB", "GB")
_UNIT_TEXTS = {"GiB": "GiB (2³⁰ bytes)", "GB": "GB (10⁹ bytes)"}


@dataclass(frozen=True, slots=True)
class Command:
    """One entry: its name in the program, what it is called, its keys, and what it says about itself."""

    name: str
    text: str
    keys: Key | str | None = None
    short: str = ""
    tip: str = ""


COMMANDS = (
    Command("new", "&New", Key.New, tip="Start a new plan"),
    Command("open", "&Open…", Key.Open, tip="Open a plan, or a model's file"),
    Command("save", "&Save", Key.Save, tip="Save the plan"),
    Command("save_as", "Save &as…", Key.SaveAs),
    Command("import", "&Import model…", "Ctrl+I"),
    Command("import_folder", "Import &folder…", "Ctrl+Shift+I"),
    Command("hub", "From the &Hub…", "Ctrl+H"),
    Command("export", "&Export chart…", "Ctrl+E", "Save chart…", "Save as PNG, SVG or PDF"),
    Command("report", "Export re&port…", "Ctrl+Shift+E", tip="Save a report as HTML, PDF, XLSX, PPTX, Markdown or CSV"),
    Command("quit", "&Quit", Key.Quit),
    Command("copy_chart", "&Copy chart", "Ctrl+Shift+C", "Copy chart", "Copy as an image"),
    Command("copy_table", "Copy &table", "Ctrl+Alt+C"),
    *(Command(page.name, page.text, page.keys) for page in PAGES),
    Command("advise", "Ma&ke it fit…", "Ctrl+Shift+F", tip="Find what would make the phase fit"),
    Command("model", "Pick &model", "Ctrl+M"),
    Command("gpus", "Add &GPUs…", "Ctrl+G"),
    Command("servers", "Ser&vers…", "Ctrl+Shift+G"),
    Command("rename", "Re&name plan…", "F2"),
    Command("dimensions", "Edit &dimensions…", "Ctrl+D"),
    Command("shortcuts", "&Keyboard shortcuts", "F1"),
    Command("about", "&About VRAM Planner"),
)


class Actions:
    """Builds the actions of a window once; menus and toolbar share them. `run` is told the name of a command."""

    def __init__(self, window: QWidget, undo_stack: QUndoStack, run: Callable[[str], object]) -> None:
        self._window = window
        self._run = run
        self.by_name: dict[str, QAction] = {}
        for command in COMMANDS:
            self._add(command)
        self._add_undo(undo_stack)

    def add_choices(self, theme: str, unit: str, choose: Callable[[str, Any], None]) -> None:
        """The commands that choose one of several; `choose` is told which setting becomes what."""
        self.themes = self._choices(THEME_CHOICES, lambda name: f"&{name.capitalize()}", "theme", theme, choose)
        self.units = self._choices(UNITS, lambda name: _UNIT_TEXTS[name], "unit", unit, choose)
        self._unit = unit

    def fill_menus(self, bar: QMenuBar) -> None:
        file_menu = self._menu(bar, "&File", "new")
        self.new_from = file_menu.addMenu("New from prese&t")
        self._extend(file_menu, "open")
        self.recent = file_menu.addMenu("Open &recent")
        imports = ("import", "import_folder", "hub")
        self._extend(file_menu, "", "save", "save_as", "", *imports, "", "export", "report", "", "quit")
        edits = ("undo", "redo", "", "copy_chart", "copy_table", "", "rename", "model", "dimensions", "gpus", "servers")
        edit_menu = self._menu(bar, "&Edit", *edits, "")
        self.workloads = edit_menu.addMenu("&Workload for this model")
        self._extend(edit_menu, "advise")
        view = self._menu(bar, "&View", *(page.name for page in PAGES))
        view.addSection("Theme")
        view.addActions(self.themes.actions())
        view.addSection("Unit")
        view.addActions(self.units.actions())
        self._menu(bar, "&Help", "shortcuts", "about")

    def fill_toolbar(self, bar: QToolBar) -> None:
        for name in ("new", "open", "save"):
            bar.addWidget(ActionButton(self.by_name[name]))
        bar.addWidget(_gap(8))
        for name in ("undo", "redo"):
            bar.addWidget(ActionButton(self.by_name[name]))
        bar.addWidget(_gap(None))
        menu = QMenu(bar)
        menu.addActions(self.units.actions())
        self.unit_button = menu_button(self._unit, "Unit", menu)
        bar.addWidget(self.unit_button)
        bar.addWidget(ActionButton(self.by_name["copy_chart"]))
        self._export_button = ActionButton(self.by_name["export"], primary=True)
        bar.addWidget(self._export_button)

    def colour_icons(self, ink: str, on_accent: str) -> None:
        """Icons in the theme's ink."""
        for name, file in (("new", "new"), ("open", "open"), ("save", "save"), ("undo", "undo"), ("redo", "redo")):
            self.by_name[name].setIcon(icon(file, ink))
        self.by_name["copy_chart"].setIcon(icon("copy", ink))
        self._export_button.setIcon(icon("export", on_accent))

    def _add(self, command: Command) -> None:
        action = QAction(command.text, self._window)
        if command.keys is not None:
            action.setShortcut(QKeySequence(command.keys))
        action.triggered.connect(lambda _checked=False: self._run(command.name))
        if command.short:
            action.setIconText(command.short)
        self._finish(command.name, action, command.tip)

    def _add_undo(self, stack: QUndoStack) -> None:
        for name, action, keys, short in (
            ("undo", stack.createUndoAction(self._window, "&Undo"), Key.Undo, "Undo"),
            ("redo", stack.createRedoAction(self._window, "&Redo"), Key.Redo, "Redo"),
        ):
            shortcuts = QKeySequence.keyBindings(keys)
            action.setShortcuts(shortcuts or [QKeySequence(keys)])
            action.setIconText(short)
            self._finish(name, action, "")

    def _finish(self, name: str, action: QAction, tip: str) -> None:
        keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        if tip:
            action.setToolTip(f"{tip} ({keys})" if keys else tip)
        action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        self.by_name[name] = action
        self._window.addAction(action)

    def _choices(
        self,
        names: tuple[str, ...],
        text: Callable[[str], str],
        setting: str,
        current: str,
        choose: Callable[[str, Any], None],
    ) -> QActionGroup:
        group = QActionGroup(self._window)
        for name in names:
            action = group.addAction(text(name))
            action.setCheckable(True)
            action.setChecked(name == current)
            action.setData(name)
        group.triggered.connect(lambda action: choose(setting, action.data()))
        return group

    def _menu(self, bar: QMenuBar, title: str, *names: str) -> QMenu:
        menu = bar.addMenu(title)
        self._extend(menu, *names)
        return menu

    def _extend(self, menu: QMenu, *names: str) -> None:
        for name in names:
            if name:
                menu.addAction(self.by_name[name])
            else:
                menu.addSeparator()


def _gap(width: int | None) -> QWidget:
    """Empty room in the toolbar: as wide as said, or all that is left."""
    gap = QWidget()
    if width is None:
        gap.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
    else:
        gap.setFixedWidth(width)
    return gap
