"""Numbers of any size, typed as people type them."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from planner.gui.widgets.number_box import NumberBox, number_text, sensible_step


@pytest.fixture
def box(qtbot):
    def make(**settings):
        made = NumberBox(**settings)
        qtbot.addWidget(made)
        made.show()
        return made

    return make


@pytest.mark.parametrize(
    ("typed", "value"),
    [("8192", 8192), ("8 192", 8192), ("8'192", 8192), ("1000000000000000", 10**15), ("-3", -3)],
)
def test_whole_numbers_are_understood(box, qtbot, typed, value):
    made, heard = box(), []
    made.edited.connect(heard.append)
    qtbot.keyClicks(made, typed)
    assert made.value() == value
    assert heard[-1] == value


def test_a_number_copied_from_a_field_is_pasted_with_its_thousands_apart(box, qtbot):
    made = box()
    QApplication.clipboard().setText("128\u202f256")
    qtbot.keyClick(made, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert made.value() == 128256


@pytest.mark.parametrize(("typed", "value"), [("0.05", 0.05), ("0,05", 0.05), ("1e-3", 0.001), (".5", 0.5)])
def test_fractions_are_understood(box, qtbot, typed, value):
    made = box(whole=False)
    qtbot.keyClicks(made, typed)
    assert made.value() == value


@pytest.mark.parametrize("typed", ["abc", "12.5", "1e5"])
def test_what_is_no_whole_number_is_not_taken_in(box, qtbot, typed):
    made = box()
    qtbot.keyClicks(made, typed)
    assert made.text() in ("", "125", "15")


def test_an_empty_field_means_automatic_where_that_is_possible(box, qtbot):
    made, heard = box(nullable=True, empty_text="automatic"), []
    made.set_value(5)
    made.edited.connect(heard.append)
    made.selectAll()
    qtbot.keyClick(made, Qt.Key.Key_Delete)
    assert heard == [None]
    assert made.lineEdit().placeholderText() == "automatic"


def test_an_empty_field_goes_back_where_a_number_must_be(box, qtbot):
    made = box()
    made.set_value(5)
    made.selectAll()
    qtbot.keyClick(made, Qt.Key.Key_Delete)
    qtbot.keyClick(made, Qt.Key.Key_Return)
    assert made.text() == "5"


def test_arrows_step_within_the_limits(box, qtbot):
    made = box(minimum=1, maximum=3)
    made.set_value(2)
    for _ in range(4):
        qtbot.keyClick(made, Qt.Key.Key_Up)
    assert made.value() == 3
    for _ in range(9):
        qtbot.keyClick(made, Qt.Key.Key_Down)
    assert made.value() == 1


def test_what_is_typed_is_kept_while_it_means_the_same(box, qtbot):
    made = box()
    with qtbot.waitActive(made):
        made.show()
    made.setFocus()
    qtbot.keyClicks(made, "8192")
    made.set_value(8192)
    assert made.text() == "8192"
    made.set_value(4096)
    assert made.text() == "4\u202f096"


@pytest.mark.parametrize(("value", "step"), [(1, 1), (64, 1), (256, 10), (8192, 100), (1_000_000, 100_000)])
def test_steps_grow_with_the_number(value, step):
    assert sensible_step(value, whole=True) == step


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (128256, "128\u202f256"), (10**15, "1\u202f000\u202f000\u202f000\u202f000\u202f000"), (0.05, "0.05")],
)
def test_numbers_are_shown_with_their_thousands_apart(value, text):
    assert number_text(value) == text


def test_the_unit_stands_in_the_field(box):
    made = box(unit="tokens")
    made.resize(160, 27)
    assert made._unit.isVisibleTo(made)
    made.resize(60, 27)
    assert not made._unit.isVisibleTo(made)
