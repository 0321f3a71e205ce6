"""A report from the window: where it goes, and how far it is while it is written."""

from datetime import datetime
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QFileDialog, QMessageBox, QProgressDialog, QWidget

from planner.catalog import Catalog
from planner.engine.plan import Plan
from planner.errors import PlannerError
from planner.gui.dialogs.report_options import ReportOptions
from planner.gui.session import Session
from planner.gui.settings import Settings
from planner.report.findings import Findings, search_advice, search_fleet
from planner.report.progress import CalledOffError
from planner.report.tables import NOTHING_FOUND, build_report
from planner.report.write import check_target, write_report
from planner.scenario import Scenario, issue_line

_KINDS = (
    "HTML page (*.html);;PDF document (*.pdf);;Excel workbook (*.xlsx);;PowerPoint slides (*.pptx);;"
    "Markdown text (*.md);;CSV table (*.csv)"
)
_PATIENCE_MS = 300
"""A report that is done sooner shows no progress."""


def ask_report(session: Session, settings: Settings, window: QWidget, folder: Path) -> str:
    """Ask what it should say and where it goes, and write the report; a sentence for the status bar.

    Raises `PlannerError`.
    """
    state = session.state
    if state.plan is None or any(issue.severity == "error" for issue in state.issues):
        raise PlannerError("This plan contradicts itself. Mend the settings that are marked, then try again.")
    options = ReportOptions(settings, window)
    agreed = options.exec() == QDialog.DialogCode.Accepted
    template, searches = options.template, options.searches
    options.deleteLater()
    path = _ask_path(session, settings, window, folder) if agreed else None
    if path is None:
        return ""
    watch = _Watch(path, window)
    try:
        report = build_report(
            state.scenario,
            state.plan,
            session.catalog,
            created=datetime.now().astimezone(),
            template=template,
            notes=tuple(map(issue_line, state.issues)),
            unit=session.view.unit,
            findings=_search(state.scenario, state.plan, session.catalog, watch) if searches else NOTHING_FOUND,
        )
        watch.say(f"Writing {path.name}…")
        write_report(report, path, watch)
    except CalledOffError:
        return f"{path.name} was not written"
    finally:
        watch.close()
    return f"Saved {path.name}"


def _ask_path(session: Session, settings: Settings, window: QWidget, folder: Path) -> Path | None:
    """Where the report goes; None where nobody says so. The kind chosen last is offered first."""
    stem = session.path.stem if session.path else "report"
    ending = settings.text("report/ending") or ".html"
    kinds = sorted(_KINDS.split(";;"), key=lambda kind: f"*{ending})" not in kind)
    chosen, kind = QFileDialog.getSaveFileName(
        window, "Export report", str(folder / f"{stem}{ending}"), ";;".join(kinds)
    )
    if not chosen:
        return None
    path = _completed(Path(chosen), kind)
    check_target(path)
    if path != Path(chosen) and path.exists() and not may_replace(path, "Export report", window):
        return None
    settings.keep_text("report/ending", path.suffix.lower())
    return path


def _search(scenario: Scenario, plan: Plan, catalog: Catalog, watch: "_Watch") -> Findings:
    """What takes seconds, part by part."""
    from planner.evidence.alike import cases_alike

    def tell(what: str, done: int, most: int) -> None:
        watch.say(f"{what}…")
        watch(done, most)

    advice = search_advice(scenario, plan, catalog, tell)
    fleet = search_fleet(scenario, catalog, tell)
    alike = cases_alike(scenario, plan, lambda done, most: tell("How near cases like it were", done, most))
    return Findings(advice, fleet, alike)


def _completed(path: Path, kind: str) -> Path:
    """The file with the ending of the kind that was chosen, where a person typed none."""
    return path if path.suffix else path.with_suffix(kind[kind.find("*") + 1 : -1] or ".html")


def may_replace(path: Path, title: str, window: QWidget) -> bool:
    """The file dialog asked about another name."""
    button = QMessageBox.StandardButton
    box = QMessageBox(window)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle(title)
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

    def say(self, text: str) -> None:
        """What is going on now."""
        if self._dialog.labelText() != text:
            self._dialog.setLabelText(text)

    def __call__(self, done: int, parts: int) -> None:
        self._dialog.setMaximum(parts)
        self._dialog.setValue(done)
        if self._dialog.wasCanceled():
            raise CalledOffError

    def close(self) -> None:
        self._dialog.close()
        self._dialog.deleteLater()
