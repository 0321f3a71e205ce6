"""The view that explores one field: a curve over its values; a click takes a value into the plan."""

from dataclasses import replace

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QVBoxLayout

from planner.chart.explore import explore_chart
from planner.chart.names import PHASE_NAMES
from planner.chart.spec import ChartSpec
from planner.engine.explore import Exploration, explore, own_value, values_of
from planner.engine.term import Component
from planner.gui.session import Session
from planner.gui.state import State, ViewState
from planner.gui.tasks import Task
from planner.gui.theme import Theme
from planner.gui.views.chart_card import ChartCard
from planner.gui.views.chart_state import subtitle_of
from planner.gui.views.explore_state import fields_of
from planner.gui.views.lifecycle import notice
from planner.gui.views.page_view import PageView
from planner.gui.views.sight import out_of_sight
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.properties import text_label
from planner.scenario import FieldPath
from planner.units import SizeUnit

CHART_NAME = "Explore chart"
_HINT = "Click a point to take its value into the plan"


class ExploreCard(ChartCard):
    """Shows what the last sweep found; a newer edit calls an older sweep off."""

    def __init__(self, session: Session, theme: Theme) -> None:
        self._found: Exploration | None = None
        self._swept: tuple[State, FieldPath] | None = None
        self._task: Task | None = None
        self.path: FieldPath | None = None
        super().__init__(session, theme, self._chart_of, "vram", CHART_NAME)
        session.state_changed.connect(lambda _state, _before: self.sweep())

    @property
    def busy(self) -> bool:
        return self._task is not None and self._task.running

    def explore(self, path: FieldPath | None) -> None:
        """Show another field; None where the phase has nothing to explore."""
        if path != self.path:
            self.path, self._found = path, None
            self.sweep()
            self._show()

    def sweep(self) -> None:
        """Sweep the field for the plan of now, unless that is done or nobody looks."""
        state, path = self._session.state, self.path
        if (
            path is None
            or out_of_sight(self)
            or self._swept == (state, path)
            or path not in fields_of(state, str(path[1]))
        ):
            return
        if self._task is not None:
            self._task.cancel()
        self._swept = (state, path)
        scenario, catalog = state.scenario, self._session.catalog
        values, gpus = values_of(scenario, path, state.spec), [gpu.id for gpu in state.gpus]
        self._task = Task(lambda _tell, cancelled: explore(scenario, path, values, catalog, gpus, cancelled), self)
        self._task.done.connect(self._take)
        self._task.failed.connect(lambda _text: self._take(None))
        self._task.start()

    def notice(self, state: State) -> str:
        if state.problem or self.path is None:
            return (
                notice(state)
                or f"{PHASE_NAMES[self._session.view.phase]} has nothing to explore: choose another phase."
            )
        return notice(state)

    def key_of(self, _view: ViewState) -> str | None:
        return self.spec.current if self.spec else None

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.sweep()

    def _chart_of(self, state: State, unit: SizeUnit) -> ChartSpec | None:
        found = self._found
        if found is None or state.plan is None or found.path not in fields_of(state, found.phase):
            return None
        own = own_value(state.scenario, found.path)
        label = fields_of(state, found.phase)[found.path]
        chart = explore_chart(found, state.plan, label, own, gpus=state.gpus, judge=state.judge, unit=unit)
        return chart and replace(chart, subtitle=subtitle_of(state, chart.judge))

    def _take(self, found: object) -> None:
        self._found = found if isinstance(found, Exploration) else None
        self._show()

    def _on_picked(self, key: str, _component: Component | None) -> None:
        if self.path is not None:
            self._session.edit(self.path, int(key))


class ExploreView(PageView):
    """The choice of a field of the phase that is looked at, above its curve."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self.card = ExploreCard(session, theme)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addWidget(self._field_bar())
        column.addWidget(self.card, 1)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        self._show()

    @property
    def charts(self) -> tuple[ChartSpec, ...]:
        return (self.card.spec,) if self.card.spec else ()

    def _field_bar(self) -> QFrame:
        bar = QFrame()
        bar.setProperty("card", True)
        self.field = QComboBox()
        self.field.setAccessibleName("Field to explore")
        self.field.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.field.activated.connect(lambda index: self.card.explore(self.field.itemData(index)))
        self.caption = text_label("", "label")
        self.caption.setBuddy(self.field)
        hint = ElidedLabel()
        hint.setProperty("role", "hint")
        hint.setText(_HINT)
        row = QHBoxLayout(bar)
        row.setContentsMargins(12, 7, 8, 7)
        row.setSpacing(8)
        row.addWidget(self.caption)
        row.addWidget(self.field)
        row.addWidget(hint, 1)
        return bar

    def _show(self) -> None:
        phase = self._session.view.phase
        fields = fields_of(self._session.state, phase)
        self.caption.setText(PHASE_NAMES[phase])
        if [self.field.itemData(index) for index in range(self.field.count())] != list(fields):
            self.field.clear()
            for key, label in fields.items():
                self.field.addItem(label, key)
        path = self.card.path
        if path not in fields:
            path = next(iter(fields)) if fields else None
        self.field.setCurrentIndex(list(fields).index(path) if path is not None else -1)
        self.card.explore(path)
