"""Unforeseen errors become a report that can be copied; the plan is kept, and nobody sees a traceback on a terminal."""

import logging
import sys

import pytest
from PySide6.QtWidgets import QApplication, QMessageBox, QPlainTextEdit, QPushButton

from planner.errors import PlannerError
from planner.gui.dialogs.report_dialog import ReportDialog
from planner.gui.errors import Catcher, log, report, start_log


@pytest.fixture
def quiet_log():
    """The log without its file, and as it was afterwards."""
    handlers = list(log.handlers)
    log.propagate = False
    yield
    log.propagate = True
    for handler in [handler for handler in log.handlers if handler not in handlers]:
        log.removeHandler(handler)
        handler.close()


def raised(error):
    try:
        raise error
    except type(error):
        return sys.exc_info()


@pytest.mark.usefixtures("quiet_log")
def test_an_unforeseen_error_shows_a_report_to_copy_and_keeps_the_plan(window, answer):
    before, seen = window.session.state, []

    def look(dialog):
        assert isinstance(dialog, ReportDialog)
        seen.append(dialog.findChild(QPlainTextEdit).toPlainText())
        next(button for button in dialog.findChildren(QPushButton) if button.text() == "&Copy report").click()
        dialog.reject()

    answer(look)
    Catcher().catch(*raised(ZeroDivisionError("by zero")))
    assert "ZeroDivisionError: by zero" in seen[0]
    assert QApplication.clipboard().text() == seen[0]
    assert window.session.state is before


@pytest.mark.usefixtures("quiet_log", "window")
def test_an_error_for_people_is_told_in_its_own_words(answer):
    told = []
    answer(lambda box: (told.append(box), box.accept()))
    Catcher().catch(*raised(PlannerError("The catalogue has no GPU 'x'.")))
    assert isinstance(told[0], QMessageBox)


@pytest.mark.usefixtures("quiet_log")
def test_a_failing_edit_leaves_plan_and_history_as_they_were(window, monkeypatch):
    def fail(*_arguments):
        raise ZeroDivisionError

    before = window.session.state
    monkeypatch.setattr("planner.gui.state.estimate", fail)
    with pytest.raises(ZeroDivisionError):
        window.session.edit(("phases", "training", "micro_batch_size"), 7)
    assert window.session.state is before
    assert window.session.undo_stack.count() == 0


@pytest.mark.usefixtures("quiet_log")
def test_the_log_is_written_in_the_users_folder():
    path = start_log()
    assert path is not None
    log.error("something")
    for handler in log.handlers:
        handler.flush()
    assert "something" in path.read_text(encoding="utf-8")
    assert logging.getLogger("planner") is log


def test_the_report_names_versions_and_nothing_of_the_plan():
    text = report("Traceback …")
    assert text.startswith("VRAM Planner ")
    assert "PySide6" in text
    assert "Llama" not in text
