"""Files: a plan is saved, opened and never lost."""

import os
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMessageBox

from planner.gui.main_window import dropped_file
from planner.scenario import load_scenario, scenario_to_json


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Where "Save as" will save."""
    path = tmp_path / "My plan.vramplan"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: (str(path), ""))
    return path


def press(name):
    button = getattr(QMessageBox.StandardButton, name)
    return lambda box: box.button(button).click()


def test_a_saved_plan_opens_as_it_was(drive, window, saved):
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    written = scenario_to_json(drive.scenario)
    drive.do("save")
    assert not window.session.dirty
    assert window.status.saved.text().startswith("Saved ")
    window.session.edit(("phases", "training", "micro_batch_size"), 5)
    window.session.undo_stack.setClean()
    assert window.documents.open_file(saved)
    assert scenario_to_json(drive.scenario) == written
    assert window.session.undo_stack.count() == 0


def test_save_as_adds_the_suffix_and_names_the_window(drive, window, tmp_path, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: (str(tmp_path / "plan"), ""))
    drive.do("save_as")
    assert window.session.path == tmp_path / "plan.vramplan"
    assert load_scenario(tmp_path / "plan.vramplan") == drive.scenario
    assert window.windowFilePath().endswith("plan.vramplan")


@pytest.mark.parametrize(
    "content",
    [b'{"format": "vram-planner/sce', b"\x00\x01\x02", b"[]", b'{"format": "vram-planner/scenario", "version": 99}'],
)
def test_a_broken_plan_gives_one_message_and_the_open_plan_stays(drive, window, tmp_path, answer, content):
    path = tmp_path / "broken.vramplan"
    path.write_bytes(content)
    before, told = drive.scenario, []
    answer(lambda box: (told.append(box.informativeText()), box.accept()))
    assert not window.documents.open_file(path)
    assert told
    assert "Traceback" not in told[0]
    assert drive.scenario is before
    assert path not in window.settings.recent


def test_a_folder_and_a_missing_file_are_told(window, tmp_path, answer):
    for path in (tmp_path, tmp_path / "missing.vramplan"):
        told = []
        answer(lambda box, told=told: (told.append(box.informativeText()), box.accept()))
        assert not window.documents.open_file(path)
        assert len(told) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_cannot_be_written_is_told_and_the_plan_stays_unsaved(window, tmp_path, answer):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    window.session.path = folder / "plan.vramplan"
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    told = []
    answer(lambda box: (told.append(box.informativeText()), box.accept()))
    assert not window.documents.save()
    assert told
    assert window.session.dirty


def test_closing_with_unsaved_changes_asks_and_cancel_keeps_the_window(window, answer):
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    answer(press("Cancel"))
    assert not window.close()
    assert window.isVisible()


def test_closing_may_save_first(window, saved, answer):
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    answer(press("Save"))
    assert window.close()
    assert load_scenario(saved).phases.training.micro_batch_size == 3


def test_a_new_plan_asks_about_the_old_one(drive, window, answer):
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    answer(press("Cancel"))
    drive.do("new")
    assert drive.scenario.phases.training.micro_batch_size == 3
    answer(press("Discard"))
    drive.do("new")
    assert drive.scenario.phases.training.micro_batch_size == 1
    assert not window.session.dirty


def test_nothing_is_asked_when_nothing_changed(window):
    assert window.documents.may_close()
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    window.session.undo_stack.undo()
    assert window.documents.may_close()


def test_recent_files_are_listed_newest_first_and_open(drive, window, saved):
    drive.do("save")
    entry = window.actions_.recent.actions()[0]
    assert str(saved) in entry.text()
    window.session.start_with(drive.scenario.with_value(("name",), "Other"))
    entry.trigger()
    assert window.session.path == saved


def drop(window, path):
    dropped = QMimeData()
    dropped.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(
        QPointF(10, 10), Qt.DropAction.CopyAction, dropped, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    window.dropEvent(event)


def test_a_plan_dropped_on_the_window_opens(drive, window, saved, qtbot):
    drive.do("save")
    window.session.start_with(drive.scenario.with_value(("name",), "Other"))
    drop(window, saved)
    qtbot.waitUntil(lambda: window.session.path == saved)


def test_other_files_cannot_be_dropped(tmp_path):
    for name in ("weights.bin", "plan.vramplan.exe"):
        dropped = QMimeData()
        dropped.setUrls([QUrl.fromLocalFile(str(tmp_path / name))])
        assert dropped_file(dropped) is None
    dropped = QMimeData()
    dropped.setUrls([QUrl("https://example.org/plan.vramplan")])
    assert dropped_file(dropped) is None


def test_a_config_named_as_a_plan_is_told_apart_by_its_content(window, saved, drive, tmp_path):
    drive.do("save")
    copy = Path(tmp_path / "plan.json")
    copy.write_bytes(saved.read_bytes())
    assert window.documents.take(copy)
    assert window.session.path == copy


def test_a_plan_is_renamed(drive, window, monkeypatch):
    monkeypatch.setattr(QInputDialog, "getText", lambda *_args, **_kwargs: ("Chat service", True))
    drive.do("rename")
    assert drive.scenario.name == "Chat service"
    assert window.windowTitle().startswith("Chat service")
    assert window.actions_.by_name["undo"].text() == "&Undo Set name"
