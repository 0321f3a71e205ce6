"""Help dialogs open, and say what they should."""

from PySide6.QtWidgets import QLabel

from planner import __version__
from planner.gui.application import build_window


def texts(dialog):
    return " ".join(label.text() for label in dialog.findChildren(QLabel))


def test_shortcuts_lists_commands_and_the_keys_of_the_chart(drive, answer):
    seen = []
    answer(lambda dialog: (seen.append(texts(dialog)), dialog.reject()))
    drive.do("shortcuts")
    assert "Ctrl+S" in seen[0]
    assert "Segment above, segment below" in seen[0]


def test_about_tells_versions_and_licence(drive, answer):
    seen = []
    answer(lambda dialog: (seen.append(texts(dialog)), dialog.reject()))
    drive.do("about")
    assert __version__ in seen[0]
    assert "MIT" in seen[0]


def test_the_window_remembers_its_size_and_columns(window, qapp, qtbot, settings):
    window.resize(960, 700)
    window.columns.setSizes([400, 300, 260])
    sizes = window.columns.sizes()
    window.close()
    again = build_window(qapp, settings)
    qtbot.addWidget(again)
    again.show()
    assert (again.width(), again.height()) == (960, 700)
    assert again.columns.sizes() == sizes
