"""Charts that leave the window: as a person wants them, alike in every theme, saying what they are about."""

import re

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox, QFileDialog, QLabel, QMessageBox

from planner.gui.dialogs.picture_dialog import Picture, keep_picture, kept_picture
from planner.gui.widgets.number_box import NumberBox


@pytest.fixture
def choose(monkeypatch):
    """Answers the dialog that asks for a file."""

    def answer(path, kind=""):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: (str(path), kind))

    return answer


def set_number(drive, dialog, name, text):
    drive.type(drive.find(NumberBox, name, dialog).lineEdit(), text)


def test_a_picture_has_the_size_and_the_pixels_that_were_asked_for(drive, tmp_path, choose, answer):
    choose(tmp_path / "chart.png")
    told = []

    def act(dialog):
        for name, text in (("Width", "800"), ("Height", "500"), ("Scale", "3")):
            set_number(drive, dialog, name, text)
        told.append(dialog.told.text())
        dialog.go_on.click()

    answer(act)
    drive.do("export")
    image = QImage(str(tmp_path / "chart.png"))
    assert (image.width(), image.height()) == (2400, 1500)
    assert told == ["2400 × 1500 pixels, 288 dots per inch"]


@pytest.mark.parametrize(("choice", "alpha"), [("White", 255), ("Transparent", 0)])
def test_the_background_is_white_or_nothing(drive, tmp_path, choose, answer, choice, alpha):
    choose(tmp_path / "chart.png")

    def act(dialog):
        drive.find(QComboBox, "Background", dialog).setCurrentText(choice)
        dialog.go_on.click()

    answer(act)
    drive.do("export")
    assert QImage(str(tmp_path / "chart.png")).pixelColor(3, 3).alpha() == alpha


def test_a_picture_says_its_model_assumptions_date_and_catalogue(drive, tmp_path, choose, answer):
    choose(tmp_path / "chart.svg")
    answer(lambda dialog: dialog.go_on.click())
    drive.do("export")
    text = (tmp_path / "chart.svg").read_text("utf-8")
    assert "8.03 B parameters" in text
    assert "Training: precision bf16 throughout, optimizer AdamW" in text
    assert re.search(r"20\d\d-\d\d-\d\d · VRAM Planner [\d.]+ · hardware catalogue of 20\d\d", text)


def test_these_lines_can_be_left_out(drive, tmp_path, choose, answer):
    choose(tmp_path / "chart.svg")

    def act(dialog):
        dialog.says.setChecked(False)
        dialog.go_on.click()

    answer(act)
    drive.do("export")
    assert "hardware catalogue" not in (tmp_path / "chart.svg").read_text("utf-8")


def test_a_picture_is_the_same_in_the_dark(window, drive, tmp_path, choose, answer):
    for theme in ("light", "dark"):
        window.choose_theme(theme)
        choose(tmp_path / f"{theme}.png")
        answer(lambda dialog: dialog.go_on.click())
        drive.do("export")
    assert (tmp_path / "light.png").read_bytes() == (tmp_path / "dark.png").read_bytes()


def test_what_was_asked_for_is_kept_for_the_next_picture_and_the_clipboard(window, drive, tmp_path, choose, answer):
    choose(tmp_path / "chart", "SVG drawing (*.svg)")

    def act(dialog):
        drive.find(QComboBox, "Format", dialog).setCurrentText("SVG drawing")
        set_number(drive, dialog, "Width", "640")
        dialog.patterns.setChecked(True)
        dialog.go_on.click()

    answer(act)
    drive.do("export")
    assert (tmp_path / "chart.svg").exists()
    assert kept_picture(window.settings) == Picture("svg", 640, patterns=True)
    drive.do("copy_chart")
    assert QApplication.clipboard().image().width() == 1280


def test_sizes_that_cannot_be_drawn_are_brought_within_bounds(window, drive, answer):
    seen = []

    def act(dialog):
        set_number(drive, dialog, "Width", "0")
        set_number(drive, dialog, "Height", "99999999")
        seen.append(dialog.picture)
        dialog.reject()

    answer(act)
    drive.do("export")
    assert (seen[0].width, seen[0].height) == (200, 8000)
    window.settings.keep_text("picture", "png 5 many 2 0 0 1")
    assert kept_picture(window.settings) == Picture()
    keep_picture(window.settings, Picture(width=200))
    assert kept_picture(window.settings).width == 200


def test_the_preview_follows_the_questions(drive, answer):
    sizes = []

    def act(dialog):
        preview = drive.find(QLabel, "Preview", dialog)
        before = preview.pixmap().toImage()
        dialog.findChildren(QCheckBox)[0].click()
        sizes.append(preview.pixmap().toImage() != before)
        dialog.reject()

    answer(act)
    drive.do("export")
    assert sizes == [True]


def test_a_file_that_nobody_asked_about_is_kept(drive, tmp_path, choose, answer):
    (tmp_path / "chart.png").write_text("mine")
    choose(tmp_path / "chart")

    def act(dialog):
        answer(lambda box: box.button(QMessageBox.StandardButton.No).click())
        dialog.go_on.click()

    answer(act)
    drive.do("export")
    assert (tmp_path / "chart.png").read_text() == "mine"


def test_a_table_is_copied_for_spreadsheets_and_for_documents(window, drive):
    window.session.edit(("name",), "<b>")
    drive.do("copy_table")
    copied = QApplication.clipboard().mimeData()
    assert copied.text().startswith("Phase\tWeights (GiB)")
    assert copied.html().startswith("<table")
    assert copied.html().count("<tr>") == len([line for line in copied.text().splitlines() if line])
    assert "<td>Logits &amp; loss (GiB)</td>" in copied.html()
