"""About shows the licences of everything that the program is built on."""

from planner.gui.dialogs.licences_dialog import LicencesDialog
from planner.gui.licences import licences


def test_every_part_has_a_licence_and_most_their_text():
    found = {part.name: part for part in licences()}
    assert found["VRAM Planner"].text.startswith("MIT License")
    assert "SIL OPEN FONT LICENSE" in found["Inter"].text.upper()
    assert "LGPL" in found["PySide6_Essentials"].short
    assert "BSD" in found["numpy"].short
    assert "Redistribution and use" in found["numpy"].text
    assert all(part.short and part.text for part in found.values())


def test_needed_libraries_of_libraries_are_there_and_tools_are_not():
    names = {part.name.lower().replace("_", "-") for part in licences()}
    assert {"pydantic-core", "markupsafe", "pygments", "shiboken6"} <= names
    assert not {"pytest", "mypy", "pip"} & names


def test_about_leads_to_them(drive, answer):
    seen = []

    def close(dialog):
        dialog.list.setCurrentRow(1)
        seen.append(dialog.text.toPlainText().splitlines()[0].strip())
        dialog.reject()

    def open_licences(about):
        answer(lambda dialog: close(dialog) if isinstance(dialog, LicencesDialog) else None)
        drive.click(about.licences)
        about.reject()

    answer(open_licences)
    drive.do("about")
    assert seen == ["Inter"]
