"""Files: new, open, save, import, recent, and the question about unsaved changes."""

from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from planner.errors import PlannerError
from planner.gui.file_lock import FileLock
from planner.gui.journal import Journal, Lost, forget, lost_plans
from planner.gui.session import Session
from planner.gui.settings import Settings
from planner.gui.words import MODEL_SUFFIXES, PLAN_SUFFIX
from planner.model.files import OpenedModel, open_model
from planner.report import REPORT_SUFFIXES
from planner.scenario import load_scenario
from planner.scenario.starting import starting_scenario

_SCENARIOS = f"Plans (*{PLAN_SUFFIX} *.json);;All files (*)"
_MODELS = f"Models ({' '.join(f'*{suffix}' for suffix in MODEL_SUFFIXES)});;All files (*)"
_READABLE = (PLAN_SUFFIX, *MODEL_SUFFIXES, *REPORT_SUFFIXES)
_ANYTHING = f"Plans, models and reports ({' '.join(f'*{suffix}' for suffix in _READABLE)});;All files (*)"


class Documents(QObject):
    """Everything that reads or writes files for the window. The open plan only changes when a file was read whole."""

    recent_changed = Signal()
    opened = Signal(str)
    """A sentence for the status bar."""
    noted = Signal(str, tuple)
    """The name of a model that was imported, and what a person should know about it."""

    def __init__(self, session: Session, settings: Settings, window: QWidget) -> None:
        super().__init__(window)
        self._session = session
        self._settings = settings
        self._window = window
        self.journal = Journal(session)
        self.lock = FileLock(session)

    def offer_lost_plans(self) -> None:
        """Ask about plans of a session that ended unexpectedly, where there are any."""
        lost = lost_plans()
        if not lost:
            return
        from planner.gui.dialogs.recovery_dialog import RecoveryDialog

        dialog = RecoveryDialog(lost, self._window)
        dialog.recovered.connect(self._recover)
        dialog.discarded.connect(forget)
        dialog.exec()

    def _recover(self, lost: Lost) -> None:
        if self.may_close():
            self._session.recover(lost.scenario, lost.path)
            self.journal.write()  # before the old one goes
            forget(lost)
            self.opened.emit("The plan is open again; it is not saved yet")

    def new(self) -> None:
        if self.may_close():
            self._session.start_with(starting_scenario())

    def ask_open(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self._window, "Open plan or model", self._folder(), _ANYTHING)
        if name:
            self.take(Path(name))

    def ask_import(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self._window, "Import model", self._folder(), _MODELS)
        if name:
            self.take(Path(name))

    def ask_import_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self._window, "Import the folder of a model", self._folder())
        if name:
            self.import_model(Path(name))

    def take(self, path: Path) -> bool:
        """Open a plan or import a model, whichever it is; for drag and drop and the command line."""
        if _is_plan(path):
            return self.may_close() and self.open_file(path)
        return self.import_model(path)

    def read(self, path: Path) -> None:
        """As `take`, where nobody is there to be asked or told. Raises `PlannerError`."""
        if _is_plan(path):
            self._open(path)
        else:
            self.take_opened(open_model(path))

    def open_file(self, path: Path) -> bool:
        """Make a file the open plan; returns whether that went well. Never asks about unsaved changes."""
        taken = self.lock.is_taken(path)
        if taken and not self._wants_copy(path):
            return False
        try:
            self._open(path, as_copy=taken)
        except PlannerError as error:
            self.tell("The plan could not be opened", error.message)
            return False
        return True

    def _wants_copy(self, path: Path) -> bool:
        """Ask whether a plan that another window has open is to be opened as a copy."""
        button = QMessageBox.StandardButton
        box = QMessageBox(self._window)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Open plan")
        box.setText(f"“{path.name}” is open in another window.")
        box.setInformativeText("Open a copy of it here? Saving the copy asks for a name.")
        box.setStandardButtons(button.Open | button.Cancel)
        box.setDefaultButton(button.Open)
        return box.exec() == button.Open

    def import_model(self, path: Path) -> bool:
        """Take a model from a file or folder, in one step that can be undone."""
        try:
            self.take_opened(open_model(path))
        except PlannerError as error:
            self.tell("The model could not be imported", error.message)
            return False
        return True

    def take_opened(self, opened: OpenedModel) -> None:
        """Plan for a model that was read, and tell what is to be known about it."""
        source = dict(opened.source)
        if "config" in source and not source["config"].get("_name_or_path"):
            source["config"] = {**source["config"], "_name_or_path": opened.name}
        self._session.take_model(source, f"Import {opened.name}")
        self.noted.emit(opened.name, opened.notes)

    def save(self) -> bool:
        path = self._session.path
        return self._write(path) if path is not None else self.ask_save()

    def ask_save(self) -> bool:
        name = self._session.state.scenario.name.replace("/", "-") or "plan"
        proposal = self._session.path or Path(self._folder()) / f"{name}{PLAN_SUFFIX}"
        chosen, _ = QFileDialog.getSaveFileName(self._window, "Save plan", str(proposal), _SCENARIOS)
        if not chosen:
            return False
        path = Path(chosen)
        return self._write(path if path.suffix else path.with_suffix(PLAN_SUFFIX))

    def ask_report(self) -> None:
        """Write a report of the plan to a file that a person chooses."""
        from planner.gui.reports import ask_report

        try:
            said = ask_report(self._session, self._settings, self._window, Path(self._folder()))
        except PlannerError as error:
            self.tell("The report could not be saved", error.message)
        else:
            if said:
                self.opened.emit(said)

    def may_close(self) -> bool:
        """Ask about unsaved changes; True when it is all right to go on without them."""
        if not self._session.dirty:
            return True
        button = QMessageBox.StandardButton
        box = QMessageBox(self._window)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Unsaved changes")
        box.setText(f"Save the changes to “{self._session.state.scenario.name}”?")
        box.setInformativeText("They are lost otherwise.")
        box.setStandardButtons(button.Save | button.Discard | button.Cancel)
        box.setDefaultButton(button.Save)
        answer = box.exec()
        return self.save() if answer == button.Save else answer == button.Discard

    def tell(self, what: str, why: str) -> None:
        """One clear message; the plan stays as it is."""
        box = QMessageBox(QMessageBox.Icon.Warning, "VRAM Planner", what, QMessageBox.StandardButton.Ok, self._window)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setInformativeText(why)
        box.exec()

    def _open(self, path: Path, *, as_copy: bool = False) -> None:
        if _is_report(path):
            from planner.report.opening import load_report

            self._session.start_with(load_report(path))  # without a file: saving must not replace the report
        else:
            self._session.start_with(load_scenario(path), None if as_copy else path)
        self._remember(path)
        self.opened.emit(f"Opened {path.name}")

    def _write(self, path: Path) -> bool:
        if self.lock.is_taken(path):
            self.tell("The plan could not be saved", f"“{path.name}” is open in another window. Choose another name.")
            return False
        try:
            self._session.save(path)
        except PlannerError as error:
            self.tell("The plan could not be saved", error.message)
            return False
        self._remember(path)
        return True

    def _remember(self, path: Path) -> None:
        self._settings.remember_file(path.resolve())
        self.recent_changed.emit()

    def _folder(self) -> str:
        path = self._session.path or next(iter(self._settings.recent), None)
        return str(path.parent) if path else str(Path.home())


def _is_plan(path: Path) -> bool:
    return path.suffix == PLAN_SUFFIX or _is_report(path) or _looks_like_plan(path)


def _is_report(path: Path) -> bool:
    return path.suffix.lower() in REPORT_SUFFIXES


def _looks_like_plan(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"vram-planner/scenario" in file.read(4096)
    except OSError:
        return False
