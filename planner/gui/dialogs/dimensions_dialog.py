"""A model by hand: layers, widths, heads. The plan takes it over in one step."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QScrollArea, QVBoxLayout, QWidget

from planner.gui.dialogs.dimensions import dimensions_of, what_is_lost, without_others
from planner.gui.forms.form import Form
from planner.gui.session import Session
from planner.gui.widgets.properties import text_label
from planner.scenario.families import families
from planner.scenario.model_source import Dimensions, DimensionsModel

ANY = "A transformer whose every part is chosen here."


class DimensionsDialog(QDialog):
    """Edits a session of its own, so that nothing changes until it is accepted, and undo is one step."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Model dimensions")
        self.resize(500, 640)
        self._session = session
        start = dimensions_of(session.state)
        scenario = session.state.scenario.with_value(("model",), {"dimensions": start})
        self.draft = Session(scenario, session.catalog, QUndoStack(self))
        self._form = Form(Dimensions, ("model", "dimensions"), self.draft, "")
        self._untouched = self.draft.state
        self._lost = what_is_lost(session.state, self._untouched)
        self.lost = text_label(self._lost, "warning", wrap=True)
        self.lost.setAccessibleName("What the form cannot say")
        self.facts = text_label("", "hint", wrap=True)
        self.facts.setAccessibleName("Draft facts")
        self.about = text_label("", "hint", wrap=True)
        self.about.setAccessibleName("What the family is")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        buttons.button(QDialogButtonBox.StandardButton.Ok).setText("&Use this model")
        buttons.accepted.connect(self._accept)
        buttons.rejected.connect(self.reject)
        self._use = buttons.button(QDialogButtonBox.StandardButton.Ok)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(self._form)
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 14)
        column.setSpacing(10)
        column.addWidget(self.about)
        column.addWidget(scroll, 1)
        column.addWidget(self.lost)
        column.addWidget(self.facts)
        column.addWidget(buttons)
        self.draft.state_changed.connect(lambda _state, _before: self._show())
        self._show()

    def _show(self) -> None:
        from planner.gui.model_facts import facts_line

        state = self.draft.state
        self._form.refresh(state)
        wrong = state.spec is None or any(
            issue.severity == "error" and issue.path.startswith("model") for issue in state.issues
        )
        model = state.scenario.model
        if isinstance(model, DimensionsModel):
            family = families().get(model.dimensions.family)
            self.about.setText(f"{family.about if family else ANY} Fields left empty follow from the others.")
            if model.dimensions.experts or (family and "experts" in family.keys):
                self._form.open_more()
        self.facts.setText(facts_line(state))
        self.lost.setVisible(bool(self._lost) and state is self._untouched)
        self._use.setEnabled(not wrong)

    def _accept(self) -> None:
        model = self.draft.state.scenario.model
        if isinstance(model, DimensionsModel):
            model = DimensionsModel(dimensions=without_others(model.dimensions))
        self._session.take_model(model, "Edit dimensions")
        self.accept()
