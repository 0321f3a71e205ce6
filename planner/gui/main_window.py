"""The window: menus and toolbar, the plan's settings on the left, chart and table in the middle, why on the right."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QMimeData, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QResizeEvent, QUndoStack
from PySide6.QtWidgets import (
    QApplication,
    QInputDialog,
    QMainWindow,
    QSplitter,
    QToolBar,
    QVBoxLayout,
    QWidget,
)

from planner.chart.spec import ChartSpec
from planner.errors import PlannerError
from planner.gui.actions import Actions
from planner.gui.page_list import PAGES, Page
from planner.gui.pages import Pages
from planner.gui.settings import Settings
from planner.gui.theme import Theme, ThemeChoice
from planner.gui.tokens import Tokens
from planner.gui.views.painted_chart import PictureCard
from planner.gui.words import MODEL_SUFFIXES, PLAN_SUFFIX
from planner.units import SizeUnit

if TYPE_CHECKING:
    from planner.gui.session import Session

APPLICATION = "VRAM Planner"
LEFT_WIDTH, RIGHT_WIDTH = 356, 272
STATUS_HEIGHT = 26
_ROOMY_HEIGHT = 800
_NO_CHART = "There is no chart on this page"


class MainWindow(QMainWindow):
    """First a frame, which may show a remembered chart; `fill` puts the planner into it.

    What `fill` needs is imported there: it takes longer than everything before.
    """

    first_painted = Signal()
    """A chart with its numbers is on screen for the first time."""

    def __init__(self, settings: Settings, theme: Theme) -> None:
        super().__init__()
        self.settings, self.theme = settings, theme
        self.undo_stack = QUndoStack(self)
        self.filled = False
        self.setAcceptDrops(True)
        self.setMinimumSize(960, 620)
        self.resize(1440, 900)
        self.setWindowTitle(APPLICATION)
        self.actions_ = Actions(self, self.undo_stack, self._run)
        self.actions_.add_choices(settings.theme, settings.unit, self._choose)
        self.actions_.fill_menus(self.menuBar())
        self._add_toolbar()
        self._add_columns()
        self.statusBar().setFixedHeight(STATUS_HEIGHT)
        theme.changed.connect(self._recolour)
        self._recolour(theme.tokens)
        self._fill_recent()
        self._restore()
        self.columns.setFocus()  # else the first button of the toolbar has it

    def show_picture(self, spec: ChartSpec) -> None:
        """Show a chart that was remembered, in the place where `fill` will put the real one."""
        card = PictureCard(spec, self.theme)
        card.painted.connect(self.first_painted, Qt.ConnectionType.SingleShotConnection)
        self.pages.lifecycle.addWidget(card, 1)
        self.pages.lifecycle.addSpacing(self.pages.lifecycle.spacing() + card.room_below)

    def fill(self, session: "Session") -> None:
        """Build everything that shows and edits the plan of `session`."""
        from planner.gui.documents import Documents
        from planner.gui.panels.gpu_panel import GpuPanel
        from planner.gui.panels.model_panel import ModelPanel
        from planner.gui.panels.notice_panel import NoticePanel
        from planner.gui.panels.phases_panel import PhasesPanel
        from planner.gui.panels.side_panel import SidePanel
        from planner.gui.panels.status_line import StatusLine
        from planner.gui.presets import fill_presets
        from planner.gui.views.chart_state import charts_of
        from planner.gui.views.lifecycle import LifecycleView
        from planner.gui.views.table import FigureView
        from planner.gui.views.table_model import FigureTable

        self.session = session
        self.documents = Documents(session, self.settings, self)
        self.model_panel = ModelPanel(session, self.settings)
        self.phases_panel = PhasesPanel(session, self.theme)
        self.gpu_panel = GpuPanel(session)
        self.notice = NoticePanel(session)
        self.chart = LifecycleView(session, self.theme)
        self.table = FigureView(session, self.theme, FigureTable(), charts_of, "Figures and verdicts")
        self.side = SidePanel(session, self.theme)
        self.why = self.side.why
        self.status = StatusLine(session)
        _clear(self.pages.lifecycle)
        for column, widgets in (
            (self._left, (self.model_panel, self.phases_panel, self.gpu_panel)),
            (self._right, (self.side,)),
        ):
            for index, widget in enumerate(widgets):
                column.addWidget(widget, 1 if index == len(widgets) // 2 else 0)
        self.pages.lifecycle.addWidget(self.chart, 1)
        self.pages.lifecycle.addWidget(self.table)
        self.pages.fill(self.notice, session, self.theme)
        self.status.setFixedHeight(STATUS_HEIGHT)
        self.setStatusBar(self.status)
        self.model_panel.set_compact(self.height() < _ROOMY_HEIGHT)
        fill_presets(self.actions_.new_from, self.actions_.workloads, self.documents, session)
        self._connect(session)
        self.filled = True

    def _connect(self, session: "Session") -> None:
        self.chart.first_painted.connect(self.first_painted)
        self.pages.switched.connect(self._on_page)
        self.pages.wanted.connect(self._run)
        self.model_panel.import_wanted.connect(self._run)
        self.model_panel.dimensions_wanted.connect(self.edit_dimensions)
        self.gpu_panel.add_wanted.connect(self.add_gpus)
        self.gpu_panel.servers_wanted.connect(self.edit_servers)
        self.documents.opened.connect(lambda text: self.status.showMessage(text, 4000))
        self.documents.noted.connect(self.notice.show_notes)
        self.documents.recent_changed.connect(self._fill_recent)
        session.told.connect(lambda text: self.status.showMessage(text, 8000))
        session.document_changed.connect(self._title)
        session.state_changed.connect(lambda _state, _before: self._title())
        self._title()
        self.columns.setFocus()  # else the first button of the toolbar has it

    @property
    def charts(self) -> tuple[ChartSpec, ...]:
        """What is seen in the middle, to be copied and saved."""
        view = self.pages.current_view
        if view is not None:
            return view.charts
        return () if self.chart.spec is None else (self.chart.spec,)

    def _on_page(self, page: Page) -> None:
        self.session.look_at(phase=self.session.view.phase, resource=page.resource, component=None)

    def pick_model(self) -> None:
        self.model_panel.picker.open()

    def add_gpus(self) -> None:
        from planner.gui.dialogs.gpu_dialog import GpuDialog

        dialog = GpuDialog(self.session.catalog.hardware, self.session.view.unit, self)
        dialog.chosen.connect(self.gpu_panel.add)
        dialog.exec()

    def edit_servers(self) -> None:
        from planner.gui.dialogs.servers_dialog import ServersDialog

        ServersDialog(self.session, self).exec()

    def rename(self) -> None:
        name = self.session.state.scenario.name
        name, chosen = QInputDialog.getText(self, "Rename plan", "Name of the plan:", text=name)
        if chosen:
            self.session.edit(("name",), name.strip())

    def edit_dimensions(self) -> None:
        from planner.gui.dialogs.dimensions_dialog import DimensionsDialog

        DimensionsDialog(self.session, self).exec()

    def fetch_model(self) -> None:
        from planner.gui.dialogs.hub_dialog import HubDialog

        dialog = HubDialog(self)
        dialog.fetched.connect(self.documents.take_opened)
        dialog.exec()

    def show_shortcuts(self) -> None:
        from planner.gui.dialogs.help_dialogs import ShortcutsDialog

        ShortcutsDialog(self.actions_.by_name, self).exec()

    def show_about(self) -> None:
        from planner.gui.dialogs.help_dialogs import AboutDialog

        AboutDialog(self).exec()

    def _run(self, name: str) -> None:
        """Do a command of the menus; there is nothing to do anything to before the window is filled."""
        if not self.filled:
            return
        run: dict[str, Callable[[], object]] = {
            "new": self.documents.new,
            "open": self.documents.ask_open,
            "save": self.documents.save,
            "save_as": self.documents.ask_save,
            "import": self.documents.ask_import,
            "import_folder": self.documents.ask_import_folder,
            "hub": self.fetch_model,
            "export": self.export_chart,
            "report": self.documents.ask_report,
            "quit": self.close,
            "copy_chart": self.copy_chart,
            "copy_table": self.copy_table,
            **{page.name: partial(self.pages.open, page.name) for page in PAGES},
            "advise": self.side.open_advice,
            "model": self.pick_model,
            "gpus": self.add_gpus,
            "servers": self.edit_servers,
            "rename": self.rename,
            "dimensions": self.edit_dimensions,
            "shortcuts": self.show_shortcuts,
            "about": self.show_about,
        }
        run[name]()

    def _choose(self, setting: str, value: Any) -> None:
        choices: dict[str, Callable[[Any], None]] = {"theme": self.choose_theme, "unit": self.choose_unit}
        choices[setting](value)

    def choose_theme(self, choice: ThemeChoice) -> None:
        self.settings.theme = choice
        self.theme.choose(choice)

    def choose_unit(self, unit: SizeUnit) -> None:
        self.settings.unit = unit
        self.session.look_at(unit=unit)
        self.actions_.unit_button.setText(unit)

    def copy_chart(self) -> None:
        if self.charts:
            from planner.gui.pictures import copy_picture

            copy_picture(self.charts, self.session, self.settings)
            self.status.showMessage("The chart is on the clipboard", 4000)
        else:
            self.status.showMessage(_NO_CHART, 4000)

    def copy_table(self) -> None:
        view = self.pages.current_view
        text = view.table_text if view is not None else ""
        if self.charts:
            from planner.gui.pictures import copy_table

            copy_table(self.charts)
        elif text:
            QApplication.clipboard().setText(text)
        if self.charts or text:
            self.status.showMessage("The table is on the clipboard", 4000)

    def export_chart(self) -> None:
        if not self.charts:
            self.status.showMessage(_NO_CHART, 4000)
            return
        from planner.gui.pictures import ask_picture

        try:
            said = ask_picture(self.charts, self.session, self.settings, self)
        except PlannerError as error:
            self.documents.tell("The chart could not be saved", error.message)
        else:
            self.status.showMessage(said, 4000)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.filled:
            self.model_panel.set_compact(self.height() < _ROOMY_HEIGHT)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if self.filled and dropped_file(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        path = dropped_file(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            # After the drop is over: a dialog now would keep the other program waiting.
            QTimer.singleShot(0, self, lambda: self.documents.take(path))

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.filled and not self.documents.may_close():
            event.ignore()
            return
        if self.filled:
            self.documents.journal.close()
            self.documents.lock.release()
        self.settings.keep_bytes("window", self.saveGeometry())
        self.settings.keep_bytes("columns", self.columns.saveState())
        event.accept()

    def _add_toolbar(self) -> None:
        bar = QToolBar("Toolbar", self)
        bar.setObjectName("toolbar")
        bar.setMovable(False)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.actions_.fill_toolbar(bar)
        self.addToolBar(bar)

    def _add_columns(self) -> None:
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self.columns.setHandleWidth(1)
        self.columns.setChildrenCollapsible(False)
        self._left = self._column("panel", (14, 12, 14, 12), 320)
        self.pages = Pages()
        self._column("window", (16, 4, 16, 12), 0).addWidget(self.pages)
        self._right = self._column("panel", (0, 0, 0, 0), 210)
        for index, stretch in enumerate((0, 1, 0)):
            self.columns.setStretchFactor(index, stretch)
        self.columns.setSizes([LEFT_WIDTH, 1440 - LEFT_WIDTH - RIGHT_WIDTH, RIGHT_WIDTH])
        self.setCentralWidget(self.columns)

    def _column(self, surface: str, margins: tuple[int, int, int, int], narrowest: int) -> QVBoxLayout:
        column = QWidget()
        column.setProperty("surface", surface)
        column.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column.setMinimumWidth(narrowest)
        layout = QVBoxLayout(column)
        layout.setContentsMargins(*margins)
        layout.setSpacing(10)
        self.columns.addWidget(column)
        return layout

    def _restore(self) -> None:
        geometry, columns = self.settings.bytes_of("window"), self.settings.bytes_of("columns")
        if geometry is not None:
            self.restoreGeometry(geometry)
        if columns is not None:
            self.columns.restoreState(columns)

    def _title(self) -> None:
        name = self.session.state.scenario.name or (self.session.path.stem if self.session.path else "Untitled")
        self.setWindowTitle(f"{name}[*] — {APPLICATION}")
        self.setWindowFilePath(str(self.session.path) if self.session.path else "")
        self.setWindowModified(self.session.dirty)

    def _recolour(self, tokens: Tokens) -> None:
        self.actions_.colour_icons(tokens.label, tokens.on_accent)

    def _fill_recent(self) -> None:
        menu = self.actions_.recent
        menu.clear()
        paths = self.settings.recent
        menu.setEnabled(bool(paths))
        for number, path in enumerate(paths, start=1):
            action = menu.addAction(f"&{number % 10} {str(path).replace('&', '&&')}")
            action.triggered.connect(lambda _checked=False, path=path: self._open_recent(path))
        if paths:
            menu.addSeparator()
            menu.addAction("&Clear this list").triggered.connect(self._forget_recent)

    def _open_recent(self, path: Path) -> None:
        if self.documents.may_close():
            self.documents.open_file(path)

    def _forget_recent(self) -> None:
        self.settings.forget_files()
        self._fill_recent()


def dropped_file(dropped: QMimeData) -> Path | None:
    """The one local file or folder that is dropped, if it may be a plan or a model."""
    urls = dropped.urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and (path.suffix in (PLAN_SUFFIX, *MODEL_SUFFIXES) or path.is_dir()) else None


def _clear(layout: QVBoxLayout) -> None:
    """Take away what stands in a column."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
