"""Presets of workloads start a plan, or plan for the model that is open, from the menus."""

import pytest
from PySide6.QtWidgets import QMessageBox

from planner.scenario.files import scenario_to_json
from planner.scenario.workloads import workloads


def entry(menu, workload):
    return next(action for action in menu.actions() if action.text().endswith(workload.title))


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.id)
def test_a_new_plan_is_made_of_a_preset(window, drive, workload):
    action = entry(window.actions_.new_from, workload)
    assert action.toolTip() == workload.text
    action.trigger()
    assert drive.scenario == workload.scenario
    assert window.session.path is None
    assert window.session.state.problem == ""
    assert not window.session.dirty


def test_a_plan_with_unsaved_changes_is_asked_about(window, drive, monkeypatch):
    window.session.edit(("name",), "Mine")
    monkeypatch.setattr(QMessageBox, "exec", lambda _box: QMessageBox.StandardButton.Cancel)
    entry(window.actions_.new_from, workloads()[0]).trigger()
    assert drive.scenario.name == "Mine"


def test_a_workload_is_planned_for_the_open_model_in_one_step(window, drive):
    window.session.take_model({"preset": "Qwen/Qwen3-0.6B"}, "Pick model")
    before = scenario_to_json(drive.scenario)
    entry(window.actions_.workloads, workloads()[0]).trigger()
    assert drive.scenario.phases == workloads()[0].scenario.phases
    assert drive.scenario.model.preset == "Qwen/Qwen3-0.6B"
    assert "QLoRA" in window.undo_stack.undoText()
    drive.do("undo")
    assert scenario_to_json(drive.scenario) == before
