"""Reports from the window: written where a person says, called off, and opened again."""

import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox, QProgressDialog

from planner.scenario import scenario_to_json


@pytest.fixture
def choose(monkeypatch):
    """Answers the dialog that asks for a file."""

    def answer(path, kind=""):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: (str(path), kind))

    return answer


@pytest.mark.parametrize("ending", [".html", ".pdf", ".xlsx", ".md", ".csv"])
def test_a_report_is_saved_in_the_format_that_was_chosen(drive, window, tmp_path, choose, ending):
    choose(tmp_path / f"review{ending}")
    said = []
    window.documents.opened.connect(said.append)
    drive.do("report")
    assert (tmp_path / f"review{ending}").stat().st_size > 10_000
    assert said == [f"Saved review{ending}"]
    assert not window.findChildren(QProgressDialog) or not window.findChildren(QProgressDialog)[0].isVisible()


def test_a_name_without_an_ending_gets_that_of_the_chosen_kind(drive, tmp_path, choose):
    choose(tmp_path / "review", "Markdown text (*.md)")
    drive.do("report")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("review")] == ["review.md"]


def test_a_file_that_the_dialog_did_not_ask_about_is_kept_unless_a_person_agrees(drive, tmp_path, choose, answer):
    (tmp_path / "review.md").write_text("mine")
    choose(tmp_path / "review", "Markdown text (*.md)")
    answer(lambda box: box.button(QMessageBox.StandardButton.No).click())
    drive.do("report")
    assert (tmp_path / "review.md").read_text() == "mine"


def test_a_report_that_is_called_off_leaves_no_file(drive, window, tmp_path, choose, monkeypatch):
    choose(tmp_path / "review.pdf")
    said = []
    window.documents.opened.connect(said.append)
    monkeypatch.setattr(QProgressDialog, "wasCanceled", lambda _dialog: True)
    drive.do("report")
    assert said == ["review.pdf was not written"]
    assert not (tmp_path / "review.pdf").exists()


def test_a_plan_that_contradicts_itself_is_not_reported(drive, window, tmp_path, choose, answer):
    choose(tmp_path / "review.html")
    window.session.edit(("phases", "training", "parallelism", "tensor"), 7)
    told = []
    answer(lambda box: (told.append(box.informativeText()), box.accept()))
    drive.do("report")
    assert told == ["This plan contradicts itself. Mend the settings that are marked, then try again."]
    assert not (tmp_path / "review.html").exists()


@pytest.mark.parametrize("ending", [".html", ".xlsx", ".md"])
def test_a_report_opens_as_its_plan_and_is_not_replaced_by_saving(drive, window, tmp_path, choose, ending):
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    written = scenario_to_json(drive.scenario)
    path = tmp_path / f"review{ending}"
    choose(path)
    drive.do("report")
    window.session.edit(("phases", "training", "micro_batch_size"), 5)
    window.session.undo_stack.setClean()
    assert window.documents.take(path)
    assert scenario_to_json(drive.scenario) == written
    assert window.session.path is None
