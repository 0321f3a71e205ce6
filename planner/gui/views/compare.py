"""The view that compares plans: this one, as it was kept at some time, and others from files, for one phase."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QFrame, QHBoxLayout, QInputDialog, QMenu, QPushButton, QVBoxLayout

from planner.chart.compare import MOST, Compared, compare_chart
from planner.chart.names import PHASE_NAMES
from planner.chart.spec import ChartSpec
from planner.engine.term import Component
from planner.errors import PlannerError
from planner.gui.session import Session
from planner.gui.state import State, ViewState, derive
from planner.gui.theme import Theme
from planner.gui.views.chart_card import ChartCard
from planner.gui.views.compare_table import CompareTable
from planner.gui.views.lifecycle import notice
from planner.gui.views.page_view import PageView
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.menu_button import menu_button
from planner.gui.words import PLAN_SUFFIX
from planner.report.differences import differences
from planner.scenario import Scenario, load_scenario
from planner.units import SizeUnit

NOW = "as planned now"
_HINT = "Keep this plan, change it, and see what moves. Up to four plans."


@dataclass(frozen=True, slots=True)
class Kept:
    """A plan that was kept or opened to be compared with."""

    name: str
    state: State


class CompareCard(ChartCard):
    """The chart; a click on a bar looks at nothing but that bar."""

    def __init__(self, session: Session, theme: Theme, view: "CompareView") -> None:
        self._view = view
        super().__init__(session, theme, self._chart, "vram", "Comparison chart")

    def notice(self, state: State) -> str:
        phase = self._session.view.phase
        if state.plan is not None and phase not in state.plan.phases and not state.problem:
            return f"{PHASE_NAMES[phase]} is not planned: choose another phase."
        return notice(state)

    def key_of(self, _view: ViewState) -> str | None:
        return None

    def refresh(self) -> None:
        self._show()

    def _chart(self, state: State, unit: SizeUnit) -> ChartSpec | None:
        if state.plan is None:
            return None
        phase = self._session.view.phase
        return compare_chart(self._view.compared(), phase, gpus=state.gpus, judge=state.judge, unit=unit)

    def _on_picked(self, _key: str, _component: Component | None) -> None:
        """Nothing is looked at elsewhere."""

    def looks_at(self, _key: str) -> dict[str, Any]:
        return {}


class CompareView(PageView):
    """What is compared stays in the window; files and the open plan are not changed by it."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self.kept: list[Kept] = []
        self.card = CompareCard(session, theme, self)
        self.table = CompareTable()
        self.table.setMinimumHeight(150)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addWidget(self._bar())
        column.addWidget(self.card, 3)
        column.addWidget(self.table, 2)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        self._show()

    @property
    def charts(self) -> tuple[ChartSpec, ...]:
        return (self.card.spec,) if self.card.spec else ()

    def compared(self) -> list[Compared]:
        """What was kept, in order, and the plan as it is now at the end."""
        now = self._session.state
        found = [Compared(one.name, one.state.plan) for one in self.kept if one.state.plan is not None]
        return [*found, Compared(NOW, now.plan)] if now.plan is not None else found

    def keep(self, name: str) -> None:
        """Keep the plan as it is now under a name."""
        self._add(Kept(name, self._session.state))

    def add_file(self, path: Path) -> None:
        """Compare with the plan of a file. Raises `PlannerError`."""
        scenario = load_scenario(path)
        state = derive(scenario, self._session.catalog, None)
        if state.problem:
            raise PlannerError(state.problem)
        self._add(Kept(scenario.name or path.stem, state))

    def _bar(self) -> QFrame:
        bar = QFrame()
        bar.setProperty("card", True)
        self.keep_button = QPushButton("&Keep this plan…")
        self.keep_button.setToolTip("Compare what you change from here with the plan as it is now")
        self.keep_button.clicked.connect(self._ask_keep)
        self.file_button = QPushButton("Add &file…")
        self.file_button.clicked.connect(self._ask_file)
        self.menu = QMenu(self)
        self.more = menu_button("Compared", "Plans that are compared", self.menu)
        self.hint = ElidedLabel()
        self.hint.setProperty("role", "hint")
        row = QHBoxLayout(bar)
        row.setContentsMargins(12, 7, 8, 7)
        row.setSpacing(8)
        row.addWidget(self.hint, 1)
        for button in (self.keep_button, self.file_button, self.more):
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignRight)
        return bar

    def _add(self, kept: Kept) -> None:
        self.kept = [*self.kept, kept][-(MOST - 1) :]
        self._show()

    def _ask_keep(self) -> None:
        proposal = f"plan {len(self.kept) + 1}"
        name, chosen = QInputDialog.getText(self, "Keep this plan", "Compare it as:", text=proposal)
        if chosen and name.strip():
            self.keep(name.strip())

    def _ask_file(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, "Compare with a plan", "", f"Plans (*{PLAN_SUFFIX} *.json)")
        if not name:
            return
        try:
            self.add_file(Path(name))
        except PlannerError as error:
            self._session.told.emit(error.message)

    def _take(self, scenario: Scenario, name: str) -> None:
        self._session.replace(scenario, f"Go back to “{name}”")

    def _remove(self, kept: Kept) -> None:
        self.kept = [one for one in self.kept if one is not kept]
        self._show()

    def _show(self) -> None:
        phase = self._session.view.phase
        self.hint.setText(_HINT if not self.kept else f"{PHASE_NAMES[phase]}, against “{self.kept[0].name}”")
        self.menu.clear()
        for kept in self.kept:
            entry = self.menu.addMenu(kept.name.replace("&", "&&"))
            entry.addAction("&Go back to it").triggered.connect(
                lambda _checked=False, kept=kept: self._take(kept.state.scenario, kept.name)
            )
            entry.addAction("&Remove").triggered.connect(lambda _checked=False, kept=kept: self._remove(kept))
        self.more.setEnabled(bool(self.kept))
        scenarios = [*(one.state.scenario for one in self.kept if one.state.plan), self._session.state.scenario]
        changed = differences(scenarios, phase) if len(scenarios) > 1 else ()
        self.table.show_plans(self.compared(), phase, changed, self._session.view.unit)
        self.card.refresh()
