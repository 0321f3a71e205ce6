"""What would make it fit? — the right side: changes that were searched for, each with what it promises and costs."""

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QScrollArea, QVBoxLayout, QWidget

from planner.chart.names import PHASE_NAMES
from planner.engine.advisor import Advice, Suggestion, advise
from planner.engine.limits import Limit, limits
from planner.engine.plan import PhaseName
from planner.errors import PlannerError
from planner.gui.panels.advice_card import AdviceCard
from planner.gui.panels.advice_text import limit_text, purchase_text
from planner.gui.session import Session
from planner.gui.state import State
from planner.gui.tasks import Task
from planner.gui.verdicts import judged, needs_nothing, verdict_sentence
from planner.gui.widgets.properties import plain_label, set_property, text_label

_ROLES = {"fits": "good", "tight": "warning", "oom": "error"}


class _CalledOffError(PlannerError):
    """The plan was changed, or somebody pressed Stop."""


@dataclass(frozen=True, slots=True)
class _Found:
    state: State
    phase: PhaseName
    advice: Advice
    sizes: tuple[Limit, ...]


class AdvicePanel(QWidget):
    """Searches when asked to, for the phase that is looked at; an edit makes what was found out of date."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setProperty("surface", "panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("What would make it fit")
        self._session = session
        self._task: Task | None = None
        self._found: _Found | None = None
        self.title = text_label("", "heading", wrap=True)
        self.verdict = plain_label()
        self.verdict.setWordWrap(True)
        self.begin = QPushButton("Find what would make it fit")
        self.begin.clicked.connect(self.search)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName("Combinations that were tried")
        self.stop = QPushButton("Stop")
        self.stop.clicked.connect(self.call_off)
        self._running = QWidget()
        row = QHBoxLayout(self._running)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._progress, 1)
        row.addWidget(self.stop)
        self._list = QVBoxLayout()
        self._list.setContentsMargins(0, 0, 6, 0)
        self._list.setSpacing(8)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 14, 6, 8)
        column.setSpacing(8)
        for widget in (self.title, self.verdict, self.begin, self._running):
            column.addWidget(widget)
        column.addWidget(self._scroll(), 1)
        session.state_changed.connect(lambda _state, _before: self._on_change())
        session.view_changed.connect(lambda _view, _before: self._on_change())
        self._show()

    @property
    def busy(self) -> bool:
        return self._task is not None and self._task.running

    @property
    def cards(self) -> list[AdviceCard]:
        """The suggestions that are shown."""
        items = (self._list.itemAt(index) for index in range(self._list.count()))
        widgets = (item.widget() for item in items if item is not None)
        return [widget for widget in widgets if isinstance(widget, AdviceCard)]

    def search(self) -> None:
        """Look for what would make the phase fit; it goes on beside the window."""
        self.call_off()
        state, phase, catalog = self._session.state, self._session.view.phase, self._session.catalog
        scenario, judge = state.scenario, state.judge

        def work(tell: object, cancelled: object) -> _Found:
            assert callable(tell)
            assert callable(cancelled)

            def told(done: int, whole: int) -> None:
                if cancelled():
                    raise _CalledOffError("The search was called off.")
                tell(done, whole)

            advice = advise(scenario, phase, catalog, judge, tell=told)
            return _Found(state, phase, advice, limits(scenario, phase, catalog, judge))

        self._task = Task(work, self)
        self._task.progressed.connect(self._on_progress)
        self._task.done.connect(self._take)
        self._task.failed.connect(self._fail)
        self._progress.setRange(0, 0)
        self._task.start()
        self._show()

    def call_off(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._show()

    def _scroll(self) -> QScrollArea:
        inside = QWidget()
        inside.setProperty("surface", "panel")
        inside.setLayout(self._list)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setAccessibleName("Suggestions")
        area.setWidget(inside)
        return area

    def _on_change(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._show()

    def _on_progress(self, done: int, whole: int | None) -> None:
        self._progress.setRange(0, whole or 0)
        self._progress.setValue(done)

    def _take(self, found: object) -> None:
        self._task = None
        self._found = found if isinstance(found, _Found) else None
        self._show()

    def _fail(self, text: str) -> None:
        self._task = None
        self._show()
        self._say(text, "error")

    def _show(self) -> None:
        state, phase = self._session.state, self._session.view.phase
        verdict = judged(state, phase)
        gpu = next((gpu for gpu in state.gpus if gpu.id == state.judge), None)
        self.title.setText(f"WHAT WOULD MAKE {PHASE_NAMES[phase].upper()} FIT?")
        planned = verdict is not None and gpu is not None and not needs_nothing(state, phase) and not state.problem
        if planned and verdict is not None and gpu is not None:
            unit = self._session.view.unit
            self.verdict.setText(verdict_sentence(verdict, gpu.name, unit, gpu.capacities.usable_bytes))
            set_property(self.verdict, "role", _ROLES.get(verdict.verdict, "hint"))
        else:
            self.verdict.setText("It needs no GPU memory." if needs_nothing(state, phase) else "It is not judged.")
            set_property(self.verdict, "role", "hint")
        fits = verdict is not None and verdict.verdict == "fits"
        self.begin.setText("Find the largest sizes that fit" if fits else "Find what would make it fit")
        found = self._found
        shown = found is not None and found.state is state and found.phase == phase
        self.begin.setVisible(not self.busy and not shown)
        self.begin.setEnabled(planned and phase not in state.stale)
        self._running.setVisible(self.busy)
        self._clear()
        if shown and found is not None:
            self._list_found(found)
        self._list.addStretch(1)

    def _list_found(self, found: _Found) -> None:
        unit, advice = self._session.view.unit, found.advice
        if advice.suggestions:
            self._say(f"{len(advice.suggestions)} of {advice.tried} combinations, least disturbing first.", "hint")
        elif advice.nearly:
            self._say("Nothing that was tried makes it fit. Nearest:", "label")
        for suggestion in (*advice.suggestions, *advice.nearly):
            card = AdviceCard(advice, suggestion, unit)
            card.applied.connect(self._apply)
            self._list.addWidget(card)
        if advice.purchase is not None:
            gpus = self._session.catalog.hardware.gpus
            self._say(purchase_text(advice.purchase, {key: gpu.title for key, gpu in gpus.items()}, unit), "label")
        for text in filter(None, map(limit_text, found.sizes)):
            self._say(text, "label")

    def _say(self, text: str, role: str) -> None:
        self._list.addWidget(text_label(text, role, wrap=True))

    def _clear(self) -> None:
        while (item := self._list.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def _apply(self, suggestion: Suggestion) -> None:
        scenario = self._session.state.scenario
        for path, value in suggestion.edits:
            scenario = scenario.with_value(path, value)
        self._session.replace(scenario, f"Apply “{suggestion.title}”")
        self._session.told.emit(f"Applied: {suggestion.title}")
