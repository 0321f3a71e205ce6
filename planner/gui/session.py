"""The only place with state: the open scenario, its plan, undo, and what the user looks at."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack

from planner.catalog import Catalog
from planner.engine.plan import PhaseName
from planner.gui.commands import ScenarioCommand
from planner.gui.state import State, ViewState, derive
from planner.model import ModelSpec, resolve_model
from planner.scenario import Scenario, ScenarioError, edited, issue_text, save_scenario, undo_text, validate
from planner.scenario.starting import starting_scenario

FieldPath = tuple[str | int, ...]


class Session(QObject):
    """Edits go in through `edit` and `replace`; views listen to the three signals."""

    state_changed = Signal(object, object)
    """The new `State` and the one before."""
    view_changed = Signal(object, object)
    """The new `ViewState` and the one before."""
    told = Signal(str)
    """Something the user should know, in a sentence."""
    document_changed = Signal()
    """The file, its name, or whether there is something to save."""

    def __init__(self, scenario: Scenario, catalog: Catalog, undo_stack: QUndoStack) -> None:
        super().__init__(undo_stack.parent())
        self.catalog = catalog
        self.state: State = derive(scenario, catalog, None)
        self.view = ViewState()
        self.path: Path | None = None
        self.saved_at: datetime | None = None
        self.undo_stack = undo_stack
        self.undo_stack.cleanChanged.connect(self.document_changed)
        self._parked: dict[PhaseName, Any] = {}
        self._ready: State | None = None

    @property
    def dirty(self) -> bool:
        return not self.undo_stack.isClean()

    def edit(self, path: FieldPath, value: object) -> str:
        """Set one field. Returns what is wrong with `value` when it was refused, else an empty text."""
        try:
            scenario = edited(self.state.scenario, path, value)
        except ScenarioError as error:
            return " ".join(issue_text(issue) for issue in error.issues) or error.message
        self.replace(scenario, undo_text(path, value), ".".join(str(part) for part in path))
        return ""

    def reset(self, path: FieldPath) -> None:
        """Take one field back to its default, in a step of its own."""
        self.replace(edited(self.state.scenario, path, None), f"Re{undo_text(path)[:1].lower()}{undo_text(path)[1:]}")

    def replace(self, scenario: Scenario, text: str, key: str = "") -> None:
        """Go over to `scenario` in one undoable step; steps with the same `key` in a row become one."""
        if scenario == self.state.scenario:
            return
        # Derived before anything changes, so that a failure leaves plan and undo history as they were.
        self._ready = derive(scenario, self.catalog, self.state)
        self.undo_stack.push(ScenarioCommand(self._take, self.state.scenario, scenario, text, key))

    def take_model(self, source: object, text: str) -> None:
        """Plan for another model, in one step.

        The name of the starting plan goes, as it names its model; others stay. Lengths that the new model cannot take
        become the longest it can, and the user is told. Raises `PlannerError`, and changes nothing, for a model that
        cannot be read.
        """
        scenario = self.state.scenario.with_value(("model",), source)
        spec = resolve_model(scenario.model, self.catalog.presets)
        if scenario.name == starting_scenario().name:
            scenario = scenario.with_value(("name",), "")
        shortened = shorten_lengths(scenario, spec, self.catalog)
        self.replace(shortened, text)
        if shortened is not scenario:
            self.told.emit(f"Lengths were shortened to the {spec.max_positions} positions of this model")

    def switch_phase(self, phase: PhaseName, on: bool) -> None:
        """Plan a phase, or leave it out; its values come back when it is switched on again."""
        current = getattr(self.state.scenario.phases, phase)
        if (current is not None) == on:
            return
        if current is not None:
            self._parked[phase] = current
        value = self._parked.get(phase, {}) if on else None
        path = ("phases", phase)
        self.replace(self.state.scenario.with_value(path, value), undo_text(path, value))

    def look_at(self, **changes: Any) -> None:
        """Change what is looked at: `phase`, `moment`, `resource`, `component`, `unit`.

        A phase is one instead of the `whole`, at its peak and on its own GPUs where nothing else is said.
        """
        before = self.view
        if "phase" in changes:
            changes = {"whole": False, "moment": "", "group": "", **changes}
        self.view = replace(before, **changes)
        if self.view != before:
            self.view_changed.emit(self.view, before)

    def start_with(self, scenario: Scenario, path: Path | None = None) -> None:
        """Take a scenario as the open document: nothing to undo, nothing to save."""
        self._ready = derive(scenario, self.catalog, None)
        self._parked.clear()
        self.undo_stack.clear()
        self.path = path
        self.saved_at = None
        self._take(scenario)
        self.document_changed.emit()

    def recover(self, scenario: Scenario, path: Path | None) -> None:
        """Take a scenario that was never saved as the open document, with something to save."""
        self.start_with(scenario, path)
        self.undo_stack.resetClean()
        self.document_changed.emit()

    def save(self, path: Path) -> None:
        """Write the scenario to `path`, which becomes the document's file."""
        save_scenario(self.state.scenario, path)
        self.path = path
        self.saved_at = datetime.now()
        self.undo_stack.setClean()
        self.document_changed.emit()

    def _take(self, scenario: Scenario) -> None:
        before, ready = self.state, self._ready
        self._ready = None
        self.state = ready if ready and ready.scenario is scenario else derive(scenario, self.catalog, before)
        self.state_changed.emit(self.state, before)


def shorten_lengths(scenario: Scenario, spec: ModelSpec, catalog: Catalog) -> Scenario:
    """The scenario with no sequence longer than the model has positions for; the same object if there was none."""
    for issue in validate(scenario, spec, catalog.hardware):
        if issue.code == "beyond_positions" and issue.severity == "error":
            scenario = scenario.with_value(tuple(issue.path.split(".")), issue.parameters["positions"])
    return scenario
