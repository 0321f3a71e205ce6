"""Phases are switched on and off, and one of them shows its form."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QPushButton

from planner.gui.widgets.number_box import NumberBox


def test_a_phase_switched_off_leaves_chart_table_and_scenario(drive, window):
    drive.press(drive.find(QCheckBox, "Plan training"), Qt.Key.Key_Space)
    assert drive.scenario.phases.training is None
    assert "training" not in [bar.phase for bar in window.chart.spec.bars]
    assert "training" not in window.table.table.phases
    assert window.actions_.by_name["undo"].text() == "&Undo Leave out training"


def test_a_phase_switched_on_again_has_its_values_back(drive):
    drive.type(drive.find(NumberBox, "Training: Micro-batch per GPU"), "3")
    box = drive.find(QCheckBox, "Plan training")
    drive.press(box, Qt.Key.Key_Space, Qt.Key.Key_Space)
    assert drive.scenario.phases.training.micro_batch_size == 3
    drive.do("undo")
    assert drive.scenario.phases.training is None
    assert not box.isChecked()


def test_the_name_of_a_phase_shows_its_form(drive, window):
    drive.click(drive.find(QPushButton, "Show serving"))
    assert window.session.view.phase == "serving"
    assert drive.find(NumberBox, "Serving: Context length").isVisible()
    assert not window.phases_panel.form("training").isVisible()
    drive.press(drive.find(QPushButton, "Show evaluation"), Qt.Key.Key_Space)
    assert window.session.view.phase == "evaluation"


def test_a_phase_that_is_off_says_how_to_plan_it(drive, window):
    drive.press(drive.find(QCheckBox, "Plan serving"), Qt.Key.Key_Space)
    assert window.session.view.phase == "serving"
    assert "Tick its box" in window.phases_panel.off.text()
    assert window.phases_panel.off.isVisible()


def test_the_plan_may_be_empty(drive, window):
    for title in ("design & validation", "data preprocessing", "training", "fine-tuning", "evaluation", "serving"):
        drive.press(drive.find(QCheckBox, f"Plan {title}"), Qt.Key.Key_Space)
    assert window.chart.spec.bars == ()
    window.chart.grab()


def test_the_verdict_is_told_with_the_switch(drive):
    assert drive.find(QPushButton, "Show serving").accessibleDescription() == "Runs out of memory on the judging GPU"
    assert drive.find(QPushButton, "Show data preprocessing").accessibleDescription() == "Needs no GPU memory"
