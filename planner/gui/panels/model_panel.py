"""The model: picked from the presets, imported from a file, or described by its dimensions."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QPushButton, QVBoxLayout, QWidget

from planner.gui.model_facts import facts_line, model_title, preset_hint, weights_line
from planner.gui.session import Session
from planner.gui.settings import Settings
from planner.gui.state import State
from planner.gui.widgets.choice_list import Choice
from planner.gui.widgets.menu_button import menu_button
from planner.gui.widgets.properties import plain_label, set_property, text_label
from planner.gui.widgets.search_popup import PickerButton
from planner.model import Preset
from planner.model.presets import families

_LIST_WIDTH = 640
_IMPORTS = (("import", "&File…"), ("import_folder", "F&older…"), ("hub", "From the &Hub…"))


class ModelPanel(QFrame):
    """The card on top of the left side. Files and dialogs are opened by whoever listens."""

    import_wanted = Signal(str)
    """The command that imports: `import`, `import_folder` or `hub`."""
    dimensions_wanted = Signal()

    def __init__(self, session: Session, settings: Settings) -> None:
        super().__init__()
        self.setProperty("card", True)
        self._session = session
        self._settings = settings
        self.picker = PickerButton("Model", self._choices, _LIST_WIDTH)
        self.picker.setToolTip("The model to plan for. Press to search the presets.")
        self.picker.chosen.connect(self._on_chosen)
        self.facts = text_label("", "hint", wrap=True)
        self.facts.setAccessibleName("Model facts")
        self.weights = plain_label()
        self.weights.setAccessibleName("Weights on disk")
        menu = QMenu(self)
        for name, text in _IMPORTS:
            menu.addAction(text).triggered.connect(lambda _checked=False, name=name: self.import_wanted.emit(name))
        import_button = menu_button("&Import", "Import", menu)
        import_button.setToolTip(
            "Read a model from its files or from the Hub. Files may also be dropped on the window."
        )
        dimensions_button = QPushButton("Edit &dimensions…")
        dimensions_button.setToolTip("Describe a model by its layers, widths and heads.")
        dimensions_button.clicked.connect(self.dimensions_wanted)
        self._weights_row = QWidget()
        weights_row = QHBoxLayout(self._weights_row)
        weights_row.setContentsMargins(0, 0, 0, 0)
        weights_row.addWidget(text_label("Weights on disk", "label"), 45)
        weights_row.addWidget(self.weights, 55)
        buttons = QHBoxLayout()
        buttons.setSpacing(6)
        buttons.addWidget(import_button)
        buttons.addWidget(dimensions_button)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 12)
        column.setSpacing(7)
        column.addWidget(text_label("MODEL", "heading"))
        column.addWidget(self.picker)
        column.addWidget(self.facts)
        column.addWidget(self._weights_row)
        column.addLayout(buttons)
        session.state_changed.connect(self._on_state)
        session.view_changed.connect(
            lambda view, before: self._show(session.state) if view.unit != before.unit else None
        )
        self._show(session.state)

    def set_compact(self, compact: bool) -> None:
        """Leave out what a low window has no room for."""
        self._weights_row.setVisible(not compact)

    def _on_state(self, state: State, before: State) -> None:
        if state.scenario.model is not before.scenario.model or state.spec is not before.spec:
            self._show(state)

    def _show(self, state: State) -> None:
        key, title = model_title(state)
        self.picker.show_choice(key, title)
        self.facts.setText(facts_line(state))
        self.facts.setToolTip(
            f"Approximate: {state.spec.approximate}." if state.spec and state.spec.approximate else ""
        )
        set_property(self.facts, "role", "hint" if state.spec else "error")
        self.weights.setText(weights_line(state, self._session.view.unit))

    def _choices(self) -> list[Choice]:
        presets = self._session.catalog.presets
        recent = [presets[key] for key in self._settings.recent_models if key in presets]
        return [
            *(_choice(preset, "Recent") for preset in recent),
            *(_choice(preset, family) for family, members in families(presets).items() for preset in members),
        ]

    def _on_chosen(self, key: str) -> None:
        self._session.take_model({"preset": key}, f"Pick {key.rpartition('/')[2]}")
        self._settings.remember_model(key)


def _choice(preset: Preset, group: str) -> Choice:
    words = f"{preset.title} {preset.family}"
    return Choice(preset.id, preset.id.replace("/", " / "), preset_hint(preset), words, group)
