"""An edit goes from a field to the chart, and back by undo."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel

from planner.engine.plan import PHASES
from planner.gui.widgets.disclosure import Disclosure
from planner.gui.widgets.number_box import NumberBox
from planner.scenario import scenario_to_json

MICRO_BATCH = "Training: Micro-batch per GPU"


def test_a_typed_number_changes_the_chart(drive, window):
    before = drive.bar("training").total_bytes
    drive.type(drive.find(NumberBox, MICRO_BATCH), "4")
    assert drive.scenario.phases.training.micro_batch_size == 4
    assert drive.bar("training").total_bytes > before
    assert window.chart.plot.spec == window.chart.spec


def test_undo_and_redo_restore_the_scenario_byte_for_byte(drive):
    before = scenario_to_json(drive.scenario)
    drive.type(drive.find(NumberBox, MICRO_BATCH), "4")
    drive.press(drive.find(QComboBox, "Training: Optimizer"), Qt.Key.Key_Down)
    after = scenario_to_json(drive.scenario)
    assert drive.scenario.phases.training.optimizer != "adamw"
    drive.do("undo")
    drive.do("undo")
    assert scenario_to_json(drive.scenario) == before
    assert drive.find(NumberBox, MICRO_BATCH).value() == 1
    drive.do("redo")
    drive.do("redo")
    assert scenario_to_json(drive.scenario) == after


def test_typing_a_number_is_one_step_named_after_the_field(drive, window):
    drive.type(drive.find(NumberBox, "Training: Sequence length"), "2048")
    assert window.session.undo_stack.count() == 1
    assert window.actions_.by_name["undo"].text() == "&Undo Set sequence length"
    drive.do("undo")
    assert drive.scenario.phases.training.sequence_length == 8192


def test_going_back_to_the_first_value_leaves_nothing_to_undo(drive, window):
    box = drive.find(NumberBox, MICRO_BATCH)
    drive.press(box, Qt.Key.Key_Up)
    assert window.session.dirty
    drive.press(box, Qt.Key.Key_Down)
    assert window.session.undo_stack.count() == 0
    assert not window.session.dirty


def test_a_contradiction_is_told_below_its_field_and_the_last_figures_stay(drive):
    before = drive.bar("training")
    drive.open_group("Training: Parallelism")
    field = drive.find(NumberBox, "Training: Parallelism: Tensor parallel")
    drive.type(field, "3")
    message, notice = drive.message(("phases", "training", "parallelism", "tensor")), drive.find(QLabel, "Notice")
    assert field.property("invalid") is True
    assert "3 does not divide 32 attention heads" in message.text()
    assert message.isVisible()
    assert drive.bar("training").segments == before.segments
    assert drive.bar("training").caption == "last valid"
    assert notice.text().startswith("Training shows its last valid figures: 3 does not divide")
    assert notice.isVisible()
    drive.type(field, "2")
    assert field.property("invalid") is False
    assert not message.isVisible()
    assert not notice.isVisible()
    assert drive.bar("training").total_bytes < before.total_bytes


@pytest.mark.parametrize("text", ["0", "-5"])
def test_a_refused_number_is_told_and_the_plan_stays(drive, text):
    before = drive.scenario
    box = drive.find(NumberBox, MICRO_BATCH)
    drive.type(box, text)
    assert drive.message(("phases", "training", "micro_batch_size")).isVisible()
    assert drive.scenario is before
    drive.press(box, Qt.Key.Key_Escape)
    assert box.value() == 1
    assert not drive.message(("phases", "training", "micro_batch_size")).isVisible()


def test_a_number_too_large_is_refused_where_it_leaves_the_range(drive):
    drive.type(drive.find(NumberBox, MICRO_BATCH), "9" * 30)
    assert drive.message(("phases", "training", "micro_batch_size")).isVisible()
    assert drive.scenario.phases.training.micro_batch_size <= 1_000_000


def test_a_field_that_lost_its_meaning_is_hidden(drive, window):
    window.session.edit(("phases", "training", "activation_checkpointing"), "selective")
    drive.open_group("Training: more settings")
    policy = drive.find(QComboBox, "Training: Selective policy")
    assert not policy.isHidden()
    window.session.edit(("phases", "training", "activation_checkpointing"), "none")
    assert policy.isHidden()


def test_a_check_box_is_ticked_by_space(drive):
    drive.open_group("Training: more settings")
    drive.press(drive.find(QCheckBox, "Training: Clip gradients"), Qt.Key.Key_Space)
    assert drive.scenario.phases.training.gradient_clipping is True


def test_a_closed_group_says_what_is_in_it(window):
    (group,) = [g for g in window.findChildren(Disclosure) if g.button.accessibleName() == "Training: Parallelism"]
    assert group.button.accessibleDescription() == "DP 4 · ZeRO-2"
    window.session.edit(("phases", "training", "parallelism", "tensor"), 2)
    assert group.button.accessibleDescription() == "DP 4 · ZeRO-2 · TP 2"


@pytest.mark.parametrize("phase", PHASES)
def test_every_field_of_a_phase_has_a_name_help_and_a_buddy(window, phase):
    form = window.phases_panel.form(phase)
    for group in form.findChildren(Disclosure):
        group.open()
    rows = [row for grid in form.grids for row in grid.rows]
    assert len(rows) > 5
    for row in rows:
        assert row.editor.accessibleName().startswith(form.name)
        assert row.editor.accessibleDescription()
        assert row.editor.toolTip()
        assert row.label.buddy() is row.editor


def test_a_part_that_is_not_there_is_made_by_its_first_field_and_taken_back_by_undo(drive, window):
    window.session.look_at(phase="serving")
    window.phases_panel.form("serving")
    drive.open_group("Serving: Length of requests")
    mean = drive.find(NumberBox, "Serving: Length of requests: Mean")
    drive.type(mean, "512")
    assert drive.scenario.phases.serving.context_distribution.mean == 512
    drive.do("undo")
    assert drive.scenario.phases.serving.context_distribution is None
    assert mean.text() == ""
