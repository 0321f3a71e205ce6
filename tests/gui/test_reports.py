"""Reports from the window: written where a person says, called off, and opened again."""

from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QProgressDialog,
    QPushButton,
)

from planner.gui.dialogs.report_options import ReportOptions
from planner.scenario import scenario_to_json


@pytest.fixture
def choose(monkeypatch, answer):
    """Goes on from the options, without a search, and answers the dialog that asks for a file."""
    later = answer

    def go_on(options):
        options.search.setChecked(False)
        options.go_on.click()

    def answer(path, kind="", act=go_on):
        later(act)
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

    def keep(options):
        options.search.setChecked(False)
        answer(lambda box: box.button(QMessageBox.StandardButton.No).click())
        options.go_on.click()

    choose(tmp_path / "review", "Markdown text (*.md)", keep)
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


def test_a_plan_that_contradicts_itself_is_not_reported(drive, window, answer):
    window.session.edit(("phases", "training", "parallelism", "tensor"), 7)
    told = []
    answer(lambda box: (told.append(box.informativeText()), box.accept()))
    drive.do("report")
    assert told == ["This plan contradicts itself. Mend the settings that are marked, then try again."]


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


def test_the_head_of_a_report_is_asked_for_and_kept_for_the_next(drive, window, tmp_path, choose, qtbot):
    logo = tmp_path / "logo.png"
    QImage(60, 20, QImage.Format.Format_RGB32).save(str(logo))

    def fill(options):
        for name, text in (("Company", "Example GmbH"), ("Author", "Ada"), ("Status", "draft"), ("Logo", str(logo))):
            drive.type(drive.find(QLineEdit, name, options), text)
        drive.find(QPlainTextEdit, "Notes", options).setPlainText("Second thoughts <b>")
        options.search.setChecked(False)
        options.go_on.click()

    choose(tmp_path / "review.html", act=fill)
    drive.do("report")
    page = (tmp_path / "review.html").read_text("utf-8")
    assert "<dt>Company</dt><dd><bdi>Example GmbH</bdi></dd>" in page
    assert "Second thoughts &lt;b&gt;" in page
    assert 'class="logo" src="data:image/png' in page
    again = ReportOptions(window.settings, window)
    qtbot.addWidget(again)
    assert again.template.author == "Ada"
    assert again.template.logo == logo
    assert not again.findChild(QCheckBox).isChecked()


def test_a_logo_that_cannot_be_read_is_said_before_anything_is_written(drive, window, tmp_path, answer):
    told = []

    def fill(options):
        drive.type(drive.find(QLineEdit, "Logo", options), str(tmp_path / "absent.png"))
        options.go_on.click()
        told.append(options.message.text())
        options.reject()

    answer(fill)
    drive.do("report")
    assert "does not exist" in told[0]
    assert window.settings.text("report/logo") == ""


def test_a_logo_is_chosen_by_its_file(window, monkeypatch, qtbot):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_args: ("/somewhere/logo.svg", ""))
    options = ReportOptions(window.settings, window)
    qtbot.addWidget(options)
    next(button for button in options.findChildren(QPushButton) if button.accessibleName() == "Choose logo").click()
    assert options.template.logo == Path("/somewhere/logo.svg")


def test_a_search_is_part_of_a_report_where_it_is_wanted(drive, tmp_path, choose):
    choose(tmp_path / "review.md", act=lambda options: (options.search.setChecked(True), options.go_on.click()))
    drive.do("report")
    assert "## GPUs needed" in (tmp_path / "review.md").read_text("utf-8")


def test_a_search_can_be_called_off(drive, window, tmp_path, choose, monkeypatch):
    choose(tmp_path / "review.md", act=lambda options: (options.search.setChecked(True), options.go_on.click()))
    said = []
    window.documents.opened.connect(said.append)
    monkeypatch.setattr(QProgressDialog, "wasCanceled", lambda dialog: "…" in dialog.labelText())
    drive.do("report")
    assert said == ["review.md was not written"]
    assert not (tmp_path / "review.md").exists()
