"""Every command of the window: its text, shortcut and where it stands in menus and toolbar."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QSizePolicy, QToolBar, QWidget

from planner.gui.icons import icon
from planner.gui.theme import THEME_CHOICES
from planner.gui.widgets.menu_button import ActionButton, menu_button

if TYPE_CHECKING:
    from planner.gui.main_window import MainWindow

Key = QKeySequence.StandardKey
UNITS = ("GiB", "GB")
_UNIT_TEXTS = {"GiB": "GiB (2³⁰ bytes)", "GB": "GB (10⁹ bytes)"}


@dataclass(frozen=True, slots=True)
class Command:
    """One entry: what it is called, its keys, and what it does."""

    name: str
    text: str
    keys: Key | str | None
    run: Callable[[], object]
    short: str = ""
    tip: str = ""


class Actions:
    """Builds the actions of a window once; menus and toolbar share them."""

    def __init__(self, window: "MainWindow") -> None:
        self._window = window
        self.by_name: dict[str, QAction] = {}
        for command in (
            Command("new", "&New", Key.New, lambda: window.documents.new(), tip="Start a new plan"),
            Command("open", "&Open…", Key.Open, lambda: window.documents.ask_open(), tip="Open a plan"),
            Command("save", "&Save", Key.Save, lambda: window.documents.save(), tip="Save the plan"),
            Command("save_as", "Save &as…", Key.SaveAs, lambda: window.documents.ask_save()),
            Command(
                "import",
                "&Import model…",
                "Ctrl+I",
                lambda: window.documents.ask_import(),
                tip="Read a model's config.json",
            ),
            Command(
                "export", "&Export chart…", "Ctrl+E", window.export_chart, "Save chart…", "Save as PNG, SVG or PDF"
            ),
            Command("quit", "&Quit", Key.Quit, window.close),
            Command("copy_chart", "&Copy chart", "Ctrl+Shift+C", window.copy_chart, "Copy chart", "Copy as an image"),
            Command("copy_table", "Copy &table", "Ctrl+Alt+C", window.copy_table, tip="Copy the figures as text"),
            Command("model", "Pick &model", "Ctrl+M", window.pick_model),
            Command("gpus", "Add &GPUs…", "Ctrl+G", window.add_gpus),
            Command("servers", "Ser&vers…", "Ctrl+Shift+G", window.edit_servers),
            Command("rename", "Re&name plan…", "F2", window.rename),
            Command("dimensions", "Edit &dimensions…", "Ctrl+D", window.edit_dimensions),
            Command("shortcuts", "&Keyboard shortcuts", "F1", window.show_shortcuts),
            Command("about", "&About VRAM Planner", None, window.show_about),
        ):
            self._add(command)
        self._add_undo()
        self.themes = self._choices(
            THEME_CHOICES, lambda name: f"&{name.capitalize()}", window.choose_theme, window.settings.theme
        )
        self.units = self._choices(UNITS, lambda name: _UNIT_TEXTS[name], window.choose_unit, window.settings.unit)

    def fill_menus(self, bar: QMenuBar) -> None:
        file_menu = self._menu(bar, "&File", "new", "open")
        self.recent = file_menu.addMenu("Open &recent")
        self._extend(file_menu, "", "save", "save_as", "", "import", "export", "", "quit")
        edits = ("undo", "redo", "", "copy_chart", "copy_table", "", "rename", "model", "dimensions", "gpus", "servers")
        self._menu(bar, "&Edit", *edits)
        view = bar.addMenu("&View")
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
        self.unit_button = menu_button(self._window.settings.unit, "Unit", menu)
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
        action.triggered.connect(lambda _checked=False: command.run() if self._window.filled else None)
        if command.short:
            action.setIconText(command.short)
        self._finish(command.name, action, command.tip)

    def _add_undo(self) -> None:
        stack = self._window.undo_stack
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
        self, names: tuple[str, ...], text: Callable[[str], str], choose: Callable[[Any], None], current: str
    ) -> QActionGroup:
        group = QActionGroup(self._window)
        for name in names:
            action = group.addAction(text(name))
            action.setCheckable(True)
            action.setChecked(name == current)
            action.setData(name)
        group.triggered.connect(lambda action: choose(action.data()))
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
