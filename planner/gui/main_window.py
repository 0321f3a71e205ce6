"""The window: menus and toolbar, the plan's settings on the left, chart and table in the middle, why on the right."""

from pathlib import Path

from PySide6.QtCore import QMimeData, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QMainWindow,
    QSplitter,
    QToolBar,
    QVBoxLayout,
    QWidget,
)

from planner.errors import PlannerError
from planner.gui.actions import Actions
from planner.gui.documents import SUFFIX, Documents
from planner.gui.panels.gpu_panel import GpuPanel
from planner.gui.panels.model_panel import ModelPanel
from planner.gui.panels.phases_panel import PhasesPanel
from planner.gui.panels.status_line import StatusLine
from planner.gui.panels.why_panel import WhyPanel
from planner.gui.session import Session
from planner.gui.settings import Settings
from planner.gui.theme import Theme, ThemeChoice
from planner.gui.tokens import Tokens
from planner.gui.views.lifecycle import LifecycleView
from planner.gui.views.table import FigureView
from planner.units import SizeUnit

APPLICATION = "VRAM Planner"
LEFT_WIDTH, RIGHT_WIDTH = 356, 272
_ROOMY_HEIGHT = 800
_CHARTS = "PNG image (*.png);;SVG drawing (*.svg);;PDF document (*.pdf)"


class MainWindow(QMainWindow):
    def __init__(self, session: Session, settings: Settings, theme: Theme) -> None:
        super().__init__()
        self.session, self.settings, self.theme = session, settings, theme
        self.documents = Documents(session, settings, self)
        self.setAcceptDrops(True)
        self.setMinimumSize(960, 620)
        self.resize(1440, 900)
        self.actions_ = Actions(self)
        self.actions_.fill_menus(self.menuBar())
        self._add_toolbar()
        self._add_panels()
        self.status = StatusLine(session)
        self.setStatusBar(self.status)
        self.documents.opened.connect(lambda text: self.status.showMessage(text, 4000))
        self.documents.recent_changed.connect(self._fill_recent)
        session.document_changed.connect(self._title)
        session.state_changed.connect(lambda _state, _before: self._title())
        theme.changed.connect(self._recolour)
        self._recolour(theme.tokens)
        self._fill_recent()
        self._title()
        self._restore()
        self.columns.setFocus()  # else the first button of the toolbar has it

    def pick_model(self) -> None:
        self.model_panel.picker.open()

    def add_gpus(self) -> None:
        from planner.gui.dialogs.gpu_dialog import GpuDialog

        dialog = GpuDialog(self.session.catalog.hardware, self.session.view.unit, self)
        dialog.chosen.connect(self.gpu_panel.add)
        dialog.exec()

    def edit_dimensions(self) -> None:
        from planner.gui.dialogs.dimensions_dialog import DimensionsDialog

        DimensionsDialog(self.session, self).exec()

    def show_shortcuts(self) -> None:
        from planner.gui.dialogs.help_dialogs import ShortcutsDialog

        ShortcutsDialog(self.actions_.by_name, self).exec()

    def show_about(self) -> None:
        from planner.gui.dialogs.help_dialogs import AboutDialog

        AboutDialog(self).exec()

    def choose_theme(self, choice: ThemeChoice) -> None:
        self.settings.theme = choice
        self.theme.choose(choice)

    def choose_unit(self, unit: SizeUnit) -> None:
        self.settings.unit = unit
        self.session.look_at(unit=unit)
        self.actions_.unit_button.setText(unit)

    def copy_chart(self) -> None:
        if self.chart.spec is not None:
            from planner.chart.paint import chart_image

            QApplication.clipboard().setImage(chart_image(self.chart.spec))
            self.status.showMessage("The chart is on the clipboard", 4000)

    def copy_table(self) -> None:
        if self.chart.spec is not None:
            from planner.chart.table import chart_table

            QApplication.clipboard().setText(chart_table(self.chart.spec))
            self.status.showMessage("The table is on the clipboard", 4000)

    def export_chart(self) -> None:
        if self.chart.spec is None:
            return
        folder = self.session.path.parent if self.session.path else Path.home()
        name = self.session.path.stem if self.session.path else "chart"
        chosen, kind = QFileDialog.getSaveFileName(self, "Save chart", str(folder / f"{name}.png"), _CHARTS)
        if chosen:
            path = Path(chosen)
            self._export_to(path if path.suffix else path.with_suffix(f".{kind[:3].lower()}"))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.model_panel.set_compact(self.height() < _ROOMY_HEIGHT)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped_file(event.mimeData()) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        path = dropped_file(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            # After the drop is over: a dialog now would keep the other program waiting.
            QTimer.singleShot(0, self, lambda: self.documents.take(path))

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.documents.may_close():
            event.ignore()
            return
        self.settings.keep_bytes("window", self.saveGeometry())
        self.settings.keep_bytes("columns", self.columns.saveState())
        event.accept()

    def _export_to(self, path: Path) -> None:
        assert self.chart.spec is not None
        from planner.chart.paint import export_chart

        try:
            export_chart(self.chart.spec, path)
        except PlannerError as error:
            self.documents.tell("The chart could not be saved", error.message)
        else:
            self.status.showMessage(f"Saved {path.name}", 4000)

    def _add_toolbar(self) -> None:
        bar = QToolBar("Toolbar", self)
        bar.setObjectName("toolbar")
        bar.setMovable(False)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.actions_.fill_toolbar(bar)
        self.addToolBar(bar)

    def _add_panels(self) -> None:
        self.model_panel = ModelPanel(self.session)
        self.phases_panel = PhasesPanel(self.session, self.theme)
        self.gpu_panel = GpuPanel(self.session)
        self.model_panel.import_wanted.connect(self.documents.ask_import)
        self.model_panel.dimensions_wanted.connect(self.edit_dimensions)
        self.gpu_panel.add_wanted.connect(self.add_gpus)
        self.chart = LifecycleView(self.session, self.theme)
        self.table = FigureView(self.session, self.theme)
        self.why = WhyPanel(self.session, self.theme)
        left = _column("panel", (14, 12, 14, 12), self.model_panel, self.phases_panel, self.gpu_panel)
        centre = _column("window", (16, 12, 16, 12), self.chart, self.table)
        self.columns = QSplitter(Qt.Orientation.Horizontal)
        self.columns.setHandleWidth(1)
        self.columns.setChildrenCollapsible(False)
        for widget, stretch in ((left, 0), (centre, 1), (self.why, 0)):
            self.columns.addWidget(widget)
            self.columns.setStretchFactor(self.columns.count() - 1, stretch)
        left.setMinimumWidth(320)
        self.why.setMinimumWidth(210)
        self.columns.setSizes([LEFT_WIDTH, 1440 - LEFT_WIDTH - RIGHT_WIDTH, RIGHT_WIDTH])
        self.setCentralWidget(self.columns)

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
    """The one local file that is dropped, if it is a plan or a configuration."""
    urls = dropped.urls()
    path = Path(urls[0].toLocalFile()) if len(urls) == 1 and urls[0].isLocalFile() else None
    return path if path is not None and path.suffix in (SUFFIX, ".json") else None


def _column(surface: str, margins: tuple[int, int, int, int], *widgets: QWidget) -> QWidget:
    column = QWidget()
    column.setProperty("surface", surface)
    column.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    layout = QVBoxLayout(column)
    layout.setContentsMargins(*margins)
    layout.setSpacing(10)
    for index, widget in enumerate(widgets):
        layout.addWidget(widget, 1 if index == len(widgets) // 2 else 0)
    return column
