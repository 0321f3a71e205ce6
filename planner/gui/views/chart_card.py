"""A card with a chart: one stacked bar per phase against what GPUs or servers offer.

The first picture comes from the painter of exports, so that it is there before pyqtgraph is loaded, which takes longer
than everything else at the start. The plot, with tooltips, clicks and keys, then takes its place, in the same geometry.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QStackedLayout, QVBoxLayout, QWidget

from planner.chart.spec import WHOLE, ChartSpec, Resource
from planner.chart.table import chart_description
from planner.engine.term import Component
from planner.gui.session import Session
from planner.gui.state import State, ViewState
from planner.gui.theme import Theme
from planner.gui.views.painted_chart import PaintedChart
from planner.gui.views.screen_style import screen_style
from planner.gui.views.sight import out_of_sight
from planner.gui.widgets.properties import plain_label
from planner.units import SizeUnit

if TYPE_CHECKING:
    from planner.gui.views.bar_plot import BarPlot

ChartOf = Callable[[State, SizeUnit], ChartSpec | None]
_PLOT_DELAY_MS = 30
"""What is on screen first may be used before the import of pyqtgraph stops everything for a moment."""


class ChartCard(QFrame):
    """Shows the chart that `chart_of` makes of a state; a click looks at a bar's `resource`."""

    first_painted = Signal()

    def __init__(self, session: Session, theme: Theme, chart_of: ChartOf, resource: Resource, name: str) -> None:
        super().__init__()
        self.setProperty("card", True)
        self.setMinimumSize(420, 260)
        self._session = session
        self._theme = theme
        self._chart_of = chart_of
        self._resource = resource
        self._name = name
        self._late = False
        self.spec: ChartSpec | None = None
        self.plot: BarPlot | None = None
        self._notice = plain_label()
        self._notice.setProperty("role", "notice")
        self._notice.setWordWrap(True)
        self._notice.setAccessibleName("Notice")
        self._notice.hide()
        self._picture = PaintedChart(theme, name=name)
        self._picture.painted.connect(self._on_first_painting, Qt.ConnectionType.SingleShotConnection)
        self._stack = QStackedLayout()
        self._stack.addWidget(self._picture)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 1, 1, 1)
        column.setSpacing(0)
        column.addWidget(self._notice)
        column.addLayout(self._stack)
        session.state_changed.connect(lambda _state, _before: self._show())
        session.view_changed.connect(lambda _view, _before: self._show())
        theme.changed.connect(lambda _tokens: self._restyle())
        self._show()

    def notice(self, _state: State) -> str:
        """What is to be said above the chart; nothing by default."""
        return ""

    def key_of(self, view: ViewState) -> str | None:
        """The bar that is looked at; None where it is not in this chart."""
        return view.bar if view.resource == self._resource else None

    def looks_at(self, key: str) -> dict[str, Any]:
        """What a click on a bar looks at."""
        return {"whole": True} if key == WHOLE else {"phase": key}

    def load_plot(self) -> "BarPlot":
        """Put the pyqtgraph plot in place of the first picture; imported here because it takes long."""
        if self.plot is None:
            from planner.gui.views.bar_plot import BarPlot

            self.plot = BarPlot(screen_style(self._theme.tokens))
            self.plot.setAccessibleName(self._name)
            self.plot.picked.connect(self._on_picked)
            self._stack.addWidget(self.plot)
            QWidget.setTabOrder(self._picture, self.plot)
            self._picture.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            self._stack.setCurrentWidget(self.plot)
            self._show()
        return self.plot

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._late:
            self._show()

    def _show(self) -> None:
        self._late = out_of_sight(self)
        if self._late:
            return
        state, view = self._session.state, self._session.view
        text = self.notice(state)
        self._notice.setText(text)
        self._notice.setVisible(bool(text))
        spec = self._chart_of(state, view.unit)
        if spec != self.spec:
            self.spec = spec
            self.setAccessibleDescription(chart_description(spec) if spec else "")
        if self.plot is None:
            self._picture.spec = spec
            self._picture.update()
        else:
            self.plot.show_chart(spec)
            self.plot.select(self.key_of(view), view.component)

    def _on_first_painting(self) -> None:
        self.first_painted.emit()
        QTimer.singleShot(_PLOT_DELAY_MS, self, self.load_plot)

    def _restyle(self) -> None:
        if self.plot is not None:
            self.plot.set_style(screen_style(self._theme.tokens))
        self._picture.update()

    def _on_picked(self, key: str, component: Component | None) -> None:
        self._session.look_at(**self.looks_at(key), resource=self._resource, component=component)
