"""A field goes back to its default by its menu or by keys, in one step that can be undone."""

import pytest
from PySide6.QtCore import Qt

from planner.gui.forms.row import FieldRow

BATCH = ("phases", "training", "micro_batch_size")


def row_of(window, path) -> FieldRow:
    form = window.phases_panel.form(path[1])
    return next(row for grid in form.grids for row in grid.rows if row.path == path)


@pytest.fixture
def row(window):
    window.session.look_at(phase="training")
    window.session.edit(BATCH, 6)
    return row_of(window, BATCH)


def test_the_menu_of_a_label_resets_its_field(row, drive, window):
    assert row.label.actions() == [row.reset]
    assert row.reset.isEnabled()
    row.reset.trigger()
    assert drive.scenario.phases.training.micro_batch_size == 1
    assert not drive.scenario.phases.training.states("micro_batch_size")
    assert not row.reset.isEnabled()
    assert window.undo_stack.undoText() == "Reset micro-batch per GPU"
    drive.do("undo")
    assert drive.scenario.phases.training.micro_batch_size == 6


def test_keys_reset_the_field_that_has_the_focus(row, drive, qtbot):
    row.editor.setFocus()
    qtbot.keyClick(row.editor, Qt.Key.Key_Backspace, Qt.KeyboardModifier.ControlModifier)
    assert drive.scenario.phases.training.micro_batch_size == 1


def test_a_field_at_its_default_has_nothing_to_reset(window):
    window.session.look_at(phase="evaluation")
    assert not row_of(window, ("phases", "evaluation", "attention_implementation")).reset.isEnabled()
    assert not window.session.dirty
