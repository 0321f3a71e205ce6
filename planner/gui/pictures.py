"""Charts that leave the window: to a file, as a person wants it, and to the clipboard."""

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QWidget

from planner.chart.paint import ChartStyle, chart_image, export_chart
from planner.chart.spec import ChartSpec
from planner.chart.table import chart_html, chart_table
from planner.gui.dialogs.picture_dialog import FORMATS, Picture, PictureDialog, kept_picture
from planner.gui.reports import may_replace
from planner.gui.session import Session
from planner.gui.settings import Settings
from planner.report.imprint import imprint

Charts = tuple[ChartSpec, ...]


def copy_picture(charts: Charts, session: Session, settings: Settings) -> None:
    """The charts as they were last saved, light and with what they say of themselves, whatever the window's theme."""
    wanted = kept_picture(settings)
    style = ChartStyle(
        transparent=wanted.transparent,
        patterns=wanted.patterns,
        imprint=_imprint(charts, session) if wanted.imprint else (),
    )
    image = chart_image(charts, width=wanted.width, height=wanted.height, scale=wanted.scale, style=style)
    QApplication.clipboard().setImage(image)


def copy_table(charts: Charts) -> None:
    """As text for spreadsheets and as a table for documents."""
    copied = QMimeData()
    copied.setText("\n".join(map(chart_table, charts)))
    copied.setHtml("".join(map(chart_html, charts)))
    QApplication.clipboard().setMimeData(copied)


def ask_picture(charts: Charts, session: Session, settings: Settings, window: QWidget) -> str:
    """Ask how and where, and save; a sentence for the status bar. Raises `PlannerError`."""
    said = _imprint(charts, session)
    dialog = PictureDialog(settings, charts, said, window)
    agreed = dialog.exec() == QDialog.DialogCode.Accepted
    wanted = dialog.picture
    dialog.deleteLater()
    path = _ask_path(session, wanted, window) if agreed else None
    if path is None:
        return ""
    export_chart(
        charts,
        path,
        width=wanted.width,
        height=wanted.height,
        scale=wanted.scale,
        transparent=wanted.transparent,
        patterns=wanted.patterns,
        imprint=said if wanted.imprint else (),
    )
    return f"Saved {path.name}"


def _ask_path(session: Session, wanted: Picture, window: QWidget) -> Path | None:
    """The file; one whose name got its ending here was not asked about by the dialog for files."""
    folder = session.path.parent if session.path else Path.home()
    stem = session.path.stem if session.path else "chart"
    kinds = sorted(FORMATS, key=lambda ending: ending != wanted.ending)
    told = ";;".join(f"{FORMATS[ending]} (*.{ending})" for ending in kinds)
    chosen, kind = QFileDialog.getSaveFileName(window, "Save chart", str(folder / f"{stem}.{wanted.ending}"), told)
    if not chosen:
        return None
    path = Path(chosen)
    if path.suffix:
        return path
    named = next((ending for ending in FORMATS if f"*.{ending})" in kind), wanted.ending)
    path = path.with_suffix(f".{named}")
    return path if not path.exists() or may_replace(path, "Export chart", window) else None


def _imprint(charts: Charts, session: Session) -> tuple[str, ...]:
    state = session.state
    return () if state.plan is None else imprint(state.scenario, state.plan, charts, datetime.now().astimezone())
