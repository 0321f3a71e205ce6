"""The fleet: every GPU of the catalogue, with the fewest of them on which each phase fits, found by search."""

from PySide6.QtCore import QModelIndex, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout

from planner.chart.names import PHASE_NAMES
from planner.engine.fleet import Found, scenario_with
from planner.gui.session import Session
from planner.gui.theme import Theme
from planner.gui.views.chart_state import model_of
from planner.gui.views.fleet_filter import FleetFilter
from planner.gui.views.fleet_grid import FleetGrid
from planner.gui.views.fleet_search import FleetSearch, asked_of
from planner.gui.views.fleet_table import GPU, FleetTable
from planner.gui.views.lifecycle import notice
from planner.gui.views.page_view import PageView
from planner.gui.views.sight import out_of_sight
from planner.gui.widgets.elided_label import ElidedLabel
from planner.gui.widgets.properties import plain_label, text_label
from planner.hardware import Gpu

_PAUSE_MS = 400
"""Edits that follow each other more closely are searched for once."""


class FleetView(PageView):
    """The filter above the table, and below it what the chosen cell means and what can be done with it."""

    def __init__(self, session: Session, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self._chosen: tuple[str, int] | None = None
        self.search = FleetSearch(session.catalog, self)
        self.filter = FleetFilter(session.catalog.hardware)
        self.table = FleetTable(session.catalog.hardware)
        self.table.setParent(self)
        self.grid = FleetGrid(self.table, theme)
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addWidget(self._head())
        column.addWidget(self.grid, 1)
        column.addWidget(self._foot())
        self._connect(theme)
        self.table.sort(self.table.bought)
        self._show_filter()
        self._follow()

    @property
    def table_text(self) -> str:
        return self.table.as_text()

    def _head(self) -> QFrame:
        card = QFrame()
        card.setProperty("card", True)
        self.subtitle = ElidedLabel()
        self.subtitle.setProperty("role", "hint")
        self.stop = QPushButton("S&top")
        self.stop.setAccessibleName("Stop the search")
        self.again = QPushButton("Search a&gain")
        self.again.setAccessibleName("Search the fleet again")
        self.progress = QProgressBar()
        self.progress.setAccessibleName("Progress of the search")
        self.progress.setTextVisible(False)
        self.progress.setRange(0, 1000)
        first = QHBoxLayout()
        first.setSpacing(10)
        first.addWidget(text_label("Fleet · fewest GPUs for each phase", "title"))
        first.addWidget(self.subtitle, 1)
        first.addWidget(self.stop)
        first.addWidget(self.again)
        column = QVBoxLayout(card)
        column.setContentsMargins(12, 8, 10, 10)
        column.setSpacing(8)
        column.addLayout(first)
        column.addWidget(self.filter)
        column.addWidget(self.progress)
        return card

    def _foot(self) -> QFrame:
        card = QFrame()
        card.setProperty("card", True)
        self.meaning = plain_label()
        self.meaning.setWordWrap(True)
        self.meaning.setAccessibleName("What the cell means")
        self.meaning.setMinimumHeight(36)
        self.judge = QPushButton("&Judge by it")
        self.judge.setToolTip("Judge the plan by this GPU (Enter)")
        self.judge.setAccessibleName("Judge by this GPU")
        self.take = QPushButton("Take this &layout")
        self.take.setProperty("primary", True)
        row = QHBoxLayout(card)
        row.setContentsMargins(12, 6, 10, 6)
        row.setSpacing(8)
        row.addWidget(self.meaning, 1)
        row.addWidget(self.judge)
        row.addWidget(self.take)
        return card

    def _connect(self, theme: Theme) -> None:
        self._pause.timeout.connect(self._start)
        self.filter.changed.connect(self._show_filter)
        self.stop.clicked.connect(self._stop)
        self.again.clicked.connect(self._start)
        self.search.found.connect(self._show_answers)
        self.search.progressed.connect(lambda share: self.progress.setValue(round(1000 * share)))
        self.search.ended.connect(self._show_end)
        self.grid.selectionModel().currentChanged.connect(self._on_current)
        self.grid.clicked.connect(lambda index: self._judge() if index.column() == GPU else None)
        self.grid.activated.connect(lambda _index: self._judge())
        self.grid.horizontalHeader().sectionClicked.connect(self._sort)
        self.judge.clicked.connect(self._judge)
        self.take.clicked.connect(self._take)
        self._session.state_changed.connect(lambda _state, _before: self._follow())
        self._session.view_changed.connect(lambda _view, _before: self._show_choice())
        theme.changed.connect(lambda _tokens: self.grid.viewport().update())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._follow()

    def _follow(self) -> None:
        """Search anew where the plan asks something else than before, once somebody looks."""
        self._show_choice()
        if out_of_sight(self) or asked_of(self._session.state) == self.search.asked:
            return
        self.search.stop()
        self._pause.start()
        self._show_end("the plan has changed" if self.search.asked else "")

    def _start(self) -> None:
        self._pause.stop()
        state = self._session.state
        if state.problem:
            self._show_end(notice(state))
            return
        self.progress.setValue(0)
        self.search.start(state)
        self._show_buttons()

    def _stop(self) -> None:
        self.search.stop()
        self._show_end("the search was stopped")

    def _show_answers(self) -> None:
        self.table.show_answers(self.search.phases, self.search.answers)
        self.grid.fit()
        self._choose_again()
        self._show_subtitle()

    def _show_filter(self) -> None:
        self.table.show_gpus(self.filter.gpus)
        self._choose_again()
        self._show_subtitle()

    def _show_choice(self) -> None:
        state = self._session.state
        self.table.show_choice(state.judge, self._session.view.unit)
        self._show_meaning()

    def _show_end(self, text: str) -> None:
        self._show_subtitle(text)
        self._show_buttons()

    def _show_subtitle(self, told: str = "") -> None:
        shown = f"{self.table.rowCount()} of {len(self._session.catalog.hardware.gpus)} GPUs"
        current = self.search.current
        told = told or (f"searching {PHASE_NAMES[current].lower()}…" if current else "")
        self.subtitle.setText(" · ".join(part for part in (model_of(self._session.state), shown, told) if part))

    def _show_buttons(self) -> None:
        busy = self.search.busy
        self.stop.setVisible(busy)
        self.again.setVisible(not (busy or self.search.complete or self._pause.isActive()))
        self.progress.setVisible(busy)
        self._show_meaning()

    def _sort(self, column: int) -> None:
        """By that column; the other way round where it is sorted by it."""
        turned = self.table.sorted_by == column and self.table.order == Qt.SortOrder.AscendingOrder
        self.table.sort(column, Qt.SortOrder.DescendingOrder if turned else Qt.SortOrder.AscendingOrder)
        self._choose_again()

    def _on_current(self, index: QModelIndex, before: QModelIndex) -> None:
        if index.isValid():
            self._chosen = (self.table.rows[index.row()].gpu.id, index.column())
        if index.row() != before.row():
            self.grid.viewport().update()
        self._show_meaning()

    def _choose_again(self) -> None:
        """Go back to the cell that was looked at, which may stand elsewhere now."""
        if self._chosen is None:
            self._show_meaning()
            return
        gpu, column = self._chosen
        row = self.table.place_of(gpu)
        if row is not None:
            self.grid.setCurrentIndex(self.table.index(row, min(column, self.table.bought)))
        self._show_meaning()

    @property
    def current(self) -> tuple[Gpu, int, int] | None:
        """The GPU type that is looked at, its row and the column."""
        index = self.grid.currentIndex()
        return (self.table.rows[index.row()].gpu, index.row(), index.column()) if index.isValid() else None

    @property
    def layouts(self) -> tuple[Found, ...]:
        """What *Take* would take: the layout of one phase, or those of all that there are."""
        if self.current is None or asked_of(self._session.state) != self.search.asked:
            return ()
        _, row, column = self.current
        answer = self.table.answer_at(row, column)
        if self.table.phase_at(column) is not None:
            return () if answer is None or answer.best is None else (answer.best,)
        best = [answer.best for answer in self.table.rows[row].answers.values()]
        return tuple(found for found in best if found is not None) if self.table.is_complete(row) and all(best) else ()

    def _show_meaning(self) -> None:
        current = self.current
        if current is None:
            self.meaning.setText("Choose a cell to see its layout. Click a GPU, or press Enter, to judge by it.")
        else:
            _, row, column = current
            phase = self.table.phase_at(column)
            self.meaning.setText(self.table.sentence(row, column if phase else self.table.whole))
            self.take.setText("Take this &layout" if phase else "Take all &layouts")
        self.take.setAccessibleName(self.take.text().replace("&", ""))
        self.judge.setEnabled(current is not None and current[0].id != self._session.state.judge)
        self.take.setEnabled(bool(self.layouts))

    def _judge(self) -> None:
        if self.current is not None:
            gpu = self.current[0]
            scenario = scenario_with(self._session.state.scenario, gpu.id, (), 0)
            self._session.replace(scenario, f"Judge by {gpu.title}")

    def _take(self) -> None:
        """The layout of the cell, its GPU and as many servers as it takes, in one step."""
        found = self.layouts
        if self.current is None or not found:
            return
        gpu, row, _ = self.current
        edits = [edit for one in found for edit in one.edits]
        most, per_server = max(one.gpus for one in found), self.table.per_server(row)
        scenario = scenario_with(self._session.state.scenario, gpu.id, edits, most, per_server)
        self._session.replace(scenario, f"Lay out for {gpu.title}")
