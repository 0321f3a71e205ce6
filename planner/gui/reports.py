"""A report from the window: where it goes, and how far it is while it is written."""

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMessageBox, QProgressDialog, QWidget

from planner.errors import PlannerError
from planner.gui.session import Session
from planner.report.progress import CalledOffError
from planner.report.tables import build_report
from planner.report.write import check_target, write_report
from planner.scenario import issue_line

_KINDS = "HTML page (*.html);;PDF document (*.pdf);;Excel workbook (*.xlsx);;Markdown text (*.md);;CSV table (*.csv)"
_PATIENCE_MS = 300
"""A report that is done sooner shows no progress."""


def ask_report(session: Session, window: QWidget, folder: Path) -> str:
    """Ask for a file and write the report; a sentence for the status bar. Raises `PlannerError`."""
    state = session.state
    if state.plan is None or any(issue.severity == "error" for issue in state.issues):
        raise PlannerError("This plan contradicts itself. Mend the settings that are marked, then try again.")
    stem = session.path.stem if session.path else "report"
    chosen, kind = QFileDialog.getSaveFileName(window, "Export report", str(folder / f"{stem}.html"), _KINDS)
    if not chosen:
        return ""
    path = _completed(Path(chosen), kind)
    check_target(path)
    if path != Path(chosen) and path.exists() and not _may_replace(path, window):
        return ""
    report = build_report(
        state.scenario,
        state.plan,
        session.catalog,
        created=datetime.now().astimezone(),
        notes=tuple(map(issue_line, state.issues)),
        unit=session.view.unit,
    )
    watch = _Watch(path, window)
    try:
        write_report(report, path, watch)
    except CalledOffError:
        return f"{path.name} was not written"
    finally:
        watch.close()
    return f"Saved {path.name}"


def _completed(path: Path, kind: str) -> Path:
    """The file with the ending of the kind that was chosen, where a person typed none."""
    return path if path.suffix else path.with_suffix(kind[kind.find("*") + 1 : -1] or ".html")


def _may_replace(path: Path, window: QWidget) -> bool:
    """The file dialog asked about another name."""
    button = QMessageBox.StandardButton
    box = QMessageBox(window)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle("Export report")
    box.setText(f"{path.name} exists already. Replace it?")
    box.setStandardButtons(button.Yes | button.No)
    box.setDefaultButton(button.No)
    return box.exec() == button.Yes


class _Watch:
    """Between the parts of a report, shows how far it is and listens whether it is still wanted.

    Qt lays out rich text in the window's thread only, part by part, so that the window answers in between.
    """

    def __init__(self, path: Path, window: QWidget) -> None:
        self._dialog = QProgressDialog(f"Writing {path.name}…", "Cancel", 0, 0, window)
        self._dialog.setWindowTitle("Export report")
        self._dialog.setAccessibleName("Progress of the report")
        self._dialog.setWindowModality(Qt.WindowModality.WindowModal)
        self._dialog.setMinimumDuration(_PATIENCE_MS)

    def __call__(self, done: int, parts: int) -> None:
        self._dialog.setMaximum(parts)
        self._dialog.setValue(done)
        if self._dialog.wasCanceled():
            raise CalledOffError

    def close(self) -> None:
        self._dialog.close()
        self._dialog.deleteLater()
