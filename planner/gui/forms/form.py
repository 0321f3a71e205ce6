"""The form of one phase: basic fields first, groups and advanced fields behind disclosures, built when opened."""

from collections.abc import Sequence

from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from planner.gui.forms.row import LABEL_WIDTH, FieldRow
from planner.gui.forms.summaries import summary
from planner.gui.session import FieldPath, Session
from planner.gui.state import State
from planner.gui.widgets.disclosure import Disclosure
from planner.scenario import Declared, FieldDeclaration, field_applies
from planner.scenario.families import has_dimension
from planner.scenario.model_source import DimensionsModel

ROW_HEIGHT = 29


class FieldGrid(QWidget):
    """Rows of one (sub-)model below each other."""

    def __init__(self, fields: Sequence[FieldDeclaration], path: FieldPath, session: Session, name: str) -> None:
        super().__init__()
        self._path = path
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(0)
        grid.setColumnMinimumWidth(0, LABEL_WIDTH)
        grid.setColumnStretch(0, 45)
        grid.setColumnStretch(1, 55)
        self.rows = [FieldRow(declaration, (*path, declaration.name), session, name) for declaration in fields]
        for index, row in enumerate(self.rows):
            row.add_to(grid, 2 * index, ROW_HEIGHT)
        self.refresh(session.state)

    def refresh(self, state: State) -> None:
        holder = holder_at(state, self._path)
        for row in self.rows:
            row.show_if(field_at_applies(state, row.path))
            row.refresh(holder, state)


class Group(Disclosure):
    """A part of a phase behind a heading that sums it up."""

    def __init__(self, declaration: FieldDeclaration, path: FieldPath, session: Session, form: "Form") -> None:
        assert declaration.part is not None
        fields = declaration.part.declarations()
        title = f"{form.name}{declaration.label}"
        super().__init__(declaration.label, lambda: form.grid(fields, path, f"{title}: "), title)
        self.button.setToolTip(declaration.help)
        self._label = declaration.label
        self._path = path
        self.refresh(session.state)

    def refresh(self, state: State) -> None:
        self.setVisible(field_at_applies(state, self._path))
        words = summary(holder_at(state, self._path))
        self.set_title(self._label, words, wrong=state.has_error_below(self._path))


class Form(QWidget):
    """Everything that can be set in one phase."""

    def __init__(self, part: type[Declared], path: FieldPath, session: Session, name: str) -> None:
        super().__init__()
        self.name = name
        self._session = session
        self.grids: list[FieldGrid] = []
        declared = part.declarations()
        fields = [item for item in declared if item.kind != "model"]
        advanced = [item for item in fields if item.advanced]
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(1)
        column.addWidget(self.grid([item for item in fields if not item.advanced], path, name))
        groups = [item for item in declared if item.kind == "model" and item.part]
        self._groups = [Group(item, (*path, item.name), session, self) for item in groups]
        for group in self._groups:
            column.addWidget(group)
        self._more = Disclosure("More settings", lambda: self.grid(advanced, path, name), f"{name}more settings")
        self._more.setVisible(bool(advanced))
        column.addWidget(self._more)
        column.addStretch(1)

    def open_more(self) -> None:
        """Show the advanced fields."""
        self._more.open(reveal=False)

    def refresh(self, state: State) -> None:
        for grid in self.grids:
            grid.refresh(state)
        for group in self._groups:
            group.refresh(state)

    def grid(self, fields: Sequence[FieldDeclaration], path: FieldPath, name: str) -> FieldGrid:
        """Rows that are refreshed with the form."""
        grid = FieldGrid(fields, path, self._session, name)
        self.grids.append(grid)
        return grid


def field_at_applies(state: State, path: FieldPath) -> bool:
    """Whether a field means anything while the others are as they are."""
    model = state.scenario.model
    if path[:2] == ("model", "dimensions") and isinstance(model, DimensionsModel):
        return len(path) < 3 or has_dimension(model.dimensions.family, str(path[2]))
    if len(path) < 3 or path[0] != "phases":
        return True
    return field_applies(state.scenario, str(path[1]), ".".join(map(str, path[2:])), state.spec)


def holder_at(state: State, path: FieldPath) -> object | None:
    """The part of the scenario at `path`, or None if it is not planned."""
    part: object | None = state.scenario
    for name in path:
        part = getattr(part, str(name), None)
    return part
