"""Nothing is lost: unsaved edits are on disk within a second, and offered back after a window that was killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PySide6.QtWidgets import QListWidget, QMessageBox

from planner.gui.journal import Journal, journal_folder, lost_plans
from planner.scenario.files import scenario_to_json

ROOT = Path(__file__).resolve().parents[2]
BATCH = ("phases", "training", "micro_batch_size")


@pytest.fixture(autouse=True)
def _empty_folder():
    for file in journal_folder().glob("*"):
        file.unlink()


def journals():
    return list(journal_folder().glob("*.json"))


def test_an_edit_is_written_down_within_a_second(window, qtbot):
    window.session.edit(BATCH, 7)
    qtbot.waitUntil(lambda: len(journals()) == 1, timeout=1000)
    content = json.loads(journals()[0].read_text("utf-8"))
    assert content["scenario"]["phases"]["training"]["micro_batch_size"] == 7
    assert lost_plans() == []  # the window still lives


def test_what_is_saved_or_undone_is_not_kept(window, qtbot, tmp_path):
    window.session.edit(BATCH, 7)
    qtbot.waitUntil(lambda: len(journals()) == 1, timeout=1000)
    window.undo_stack.undo()
    qtbot.waitUntil(lambda: journals() == [], timeout=1000)
    window.session.edit(BATCH, 9)
    qtbot.waitUntil(lambda: len(journals()) == 1, timeout=1000)
    window.session.save(tmp_path / "plan.vramplan")
    qtbot.waitUntil(lambda: journals() == [], timeout=1000)


def test_a_window_that_closes_leaves_nothing(window):
    window.session.edit(BATCH, 7)
    window.documents.journal.write()
    assert journals()
    window.undo_stack.setClean()
    window.close()
    assert list(journal_folder().glob("*")) == []


def abandon(scenario_path):
    """A window of another process, which edits and is killed; returns when it said that the edit was shown."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from planner.gui.application import build_window, make_application\n"
        "app = make_application()\n"
        "window = build_window(app)\n"
        "window.show()\n"
        f"window.documents.open_file(Path({str(scenario_path)!r}))\n"
        f"window.session.edit({BATCH!r}, 11)\n"
        "print('edited', flush=True)\n"
        "app.exec()\n"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "edited\n"
    edited = time.monotonic()
    while not journals() and time.monotonic() - edited < 1.0:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="kills as Linux does")
def test_a_killed_window_gives_its_plan_back(window, drive, answer, tmp_path):
    path = tmp_path / "plan.vramplan"
    path.write_text(scenario_to_json(window.session.state.scenario), encoding="utf-8")
    abandon(path)
    (lost,) = lost_plans()
    assert lost.path == path

    def recover(dialog):
        assert "1" not in dialog.windowTitle()
        assert "plan.vramplan" in drive.find(QListWidget, "Plans that were not saved", dialog).item(0).text()
        drive.click(dialog.open_plan)

    answer(recover)
    window.documents.offer_lost_plans()
    assert drive.scenario.phases.training.micro_batch_size == 11
    assert window.session.path == path
    assert window.isWindowModified()
    assert lost_plans() == []
    assert len(journals()) == 1  # now this window's own


def left_behind(window, name):
    """A journal whose window is gone."""
    journal = Journal(window.session)
    window.session.edit(("name",), name)
    journal.write()
    journal._lock.unlock()
    journal._file.with_suffix(".lock").unlink(missing_ok=True)
    journal.deleteLater()


def test_plans_can_be_thrown_away_or_left_for_later(window, drive, answer):
    window.documents.journal._timer.blockSignals(True)
    left_behind(window, "one")
    left_behind(window, "two")
    assert {lost.scenario.name for lost in lost_plans()} == {"one", "two"}
    answer(lambda dialog: drive.click(dialog.later))
    window.documents.offer_lost_plans()
    assert len(lost_plans()) == 2
    answer(lambda dialog: [drive.click(dialog.discard) for _ in range(2)])
    window.documents.offer_lost_plans()
    assert lost_plans() == []


def test_a_journal_that_cannot_be_read_goes():
    journal_folder().mkdir(parents=True, exist_ok=True)
    for content in ("", "{", '{"format": "something"}', '{"format": "vram-planner/journal", "scenario": {}}'):
        (journal_folder() / "broken.json").write_text(content, encoding="utf-8")
        assert lost_plans() == []
        assert journals() == []


def test_a_folder_that_cannot_be_written_stops_nobody(window, tmp_path):
    (tmp_path / "file").write_text("in the way")
    journal = Journal(window.session, tmp_path / "file" / "journal")
    window.session.edit(BATCH, 7)
    journal.write()
    assert window.session.state.scenario.phases.training.micro_batch_size == 7
    journal.close()


def test_recovering_asks_about_what_is_open(window, drive, answer, monkeypatch):
    window.documents.journal._timer.blockSignals(True)
    left_behind(window, "lost")
    window.undo_stack.setClean()
    window.session.edit(("name",), "open")
    monkeypatch.setattr(QMessageBox, "exec", lambda _box: QMessageBox.StandardButton.Cancel)
    answer(lambda dialog: drive.click(dialog.open_plan))
    window.documents.offer_lost_plans()
    assert drive.scenario.name == "open"
    assert [lost.scenario.name for lost in lost_plans()] == ["lost"]
