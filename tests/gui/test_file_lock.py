"""Two windows do not write over one another: a file that is open elsewhere opens as a copy, and is not saved over."""

import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox

from planner.gui.file_lock import _lock_of
from planner.scenario.files import scenario_to_json
from planner.scenario.starting import starting_scenario


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.vramplan"
    path.write_text(scenario_to_json(starting_scenario()), encoding="utf-8")
    return path


@pytest.fixture
def elsewhere(plan):
    """The file is open in another window."""
    lock = _lock_of(plan.resolve())
    assert lock.tryLock(0)
    yield
    lock.unlock()


@pytest.fixture
def asked(monkeypatch):
    """What was asked, each answered with Open."""
    texts = []

    def reply(box):
        texts.append(f"{box.text()} {box.informativeText()}")
        return QMessageBox.StandardButton.Open

    monkeypatch.setattr(QMessageBox, "exec", reply)
    return texts


@pytest.mark.usefixtures("elsewhere")
def test_a_file_that_is_open_elsewhere_opens_as_a_copy(window, plan, asked):
    assert window.documents.open_file(plan)
    assert "“plan.vramplan” is open in another window." in asked[0]
    assert window.session.path is None


@pytest.mark.usefixtures("elsewhere")
def test_nobody_has_to_open_a_copy(window, plan, monkeypatch):
    monkeypatch.setattr(QMessageBox, "exec", lambda _box: QMessageBox.StandardButton.Cancel)
    before = window.session.state.scenario
    assert not window.documents.open_file(plan)
    assert window.session.state.scenario is before


@pytest.mark.usefixtures("elsewhere")
def test_it_is_not_saved_over(window, plan, asked, monkeypatch):
    before = plan.read_bytes()
    window.session.edit(("name",), "Mine")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_arguments: (str(plan), ""))
    assert not window.documents.ask_save()
    assert "Choose another name." in asked[0]
    assert plan.read_bytes() == before


def test_a_window_locks_what_it_has_open_and_nothing_else(window, plan, tmp_path):
    window.documents.open_file(plan)
    assert not _lock_of(plan.resolve()).tryLock(0)
    other = tmp_path / "other.vramplan"
    window.session.save(other)
    assert _lock_of(plan.resolve()).tryLock(0)
    assert not _lock_of(other.resolve()).tryLock(0)
    window.close()
    assert _lock_of(other.resolve()).tryLock(0)


def test_one_window_may_open_and_save_its_own_file_again(window, plan):
    window.documents.open_file(plan)
    assert window.documents.open_file(plan)
    window.session.edit(("name",), "New")
    assert window.documents.save()
