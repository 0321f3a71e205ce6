"""*Why?* lists the stages of a pipeline and the roles of reinforcement tuning, as the form asks for them."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QPushButton

from planner.gui.verdicts import judged
from planner.gui.widgets.number_box import NumberBox
from planner.units import format_size

ROLES = "Fine-tuning: Roles"
OBJECTIVE = "Fine-tuning: Objective"


@pytest.fixture
def tuning(drive):
    """The form of fine-tuning with the parts that say what is where."""
    drive.click(drive.find(QPushButton, "Show fine-tuning"))
    for part in ("Fine-tuning: more settings", ROLES, "Fine-tuning: Parallelism", "Fine-tuning: Value model"):
        drive.open_group(part)
    return drive


def choose(drive, name, text):
    """Picks an entry of a list by its first letters."""
    box = drive.find(QComboBox, name)
    box.setFocus()
    while box.currentText() != text:
        index = box.currentIndex()
        drive.press(box, Qt.Key.Key_Down if box.findText(text) > index else Qt.Key.Key_Up)
        assert box.currentIndex() != index


def told(drive):
    drive.window.session.look_at(phase="fine_tuning", component=None)
    return drive.window.why.body.toPlainText().splitlines()


def below(drive, heading, count):
    """Names and sizes of the table below a heading, once it is shown."""
    drive.qtbot.waitUntil(lambda: heading in told(drive))
    lines = told(drive)
    start = lines.index(heading) + 1
    cells = lines[start : start + 2 * count]
    return dict(zip(cells[::2], cells[1::2], strict=True))


def tuned(drive):
    return drive.window.session.state.plan.phases["fine_tuning"]


def test_supervised_tuning_on_one_gpu_lists_neither_roles_nor_stages(tuning):
    text = "\n".join(told(tuning))
    assert "Roles" not in text
    assert "Pipeline stages" not in text


def test_roles_are_listed_with_place_and_size_once_an_objective_has_them(tuning, qtbot):
    choose(tuning, OBJECTIVE, "PPO")
    qtbot.waitUntil(lambda: "roles" in tuned(tuning).details)
    rows = below(tuning, "Roles, at the peak of their GPUs", 5)
    held = {role["role"]: role["allocated_bytes"] for role in tuned(tuning).details["roles"]}
    assert rows["Policy, trained: on the policy's GPUs"] == format_size(held["policy"], "GiB")
    assert rows["Reference model: the policy with its adapters off"] == format_size(held["reference"], "GiB")
    assert rows["Value model, trained: on the policy's GPUs"] == format_size(held["value"], "GiB")
    assert rows["Reward model: on the policy's GPUs"] == format_size(held["reward"], "GiB")
    assert "Rollout engine: on other GPUs: tight" in rows or "Rollout engine: on other GPUs" in rows
    assert sum(held.values()) == tuned(tuning).peak.allocated_bytes


def test_a_role_too_large_for_its_own_gpus_decides_the_verdict_of_the_phase(tuning, qtbot):
    choose(tuning, OBJECTIVE, "PPO")
    choose(tuning, f"{ROLES}: Reward model", "On other GPUs")
    choose(tuning, f"{ROLES}: Value model", "On other GPUs")
    tuning.type(tuning.find(NumberBox, "Fine-tuning: Value model: Parameters"), "200000000000")
    qtbot.waitUntil(lambda: "value" in tuned(tuning).groups)
    qtbot.waitUntil(lambda: tuned(tuning).groups["value"].peak.process_bytes > 10**11)
    qtbot.waitUntil(lambda: told(tuning)[0].startswith("Value model: "))
    lines = told(tuning)
    assert "Value model, trained: on other GPUs: too large" in lines
    assert lines[0].startswith("Value model: too large for NVIDIA L40S 48 GB by ")
    assert judged(tuning.window.session.state, "fine_tuning").group == "value"
    bars = [bar for bar in tuning.window.chart.spec.bars if bar.phase == "fine_tuning"]
    assert [(bar.group, bar.chip.kind if bar.chip else "") for bar in bars][:2] == [("", ""), ("value", "oom")]


def test_stages_of_a_pipeline_are_listed_and_the_shown_one_is_marked(tuning, qtbot):
    choose(tuning, "Fine-tuning: Method", "All weights")
    tuning.type(tuning.find(NumberBox, "Fine-tuning: Parallelism: Pipeline stages"), "4")
    qtbot.waitUntil(lambda: "stages" in tuned(tuning).details)
    rows = below(tuning, "Pipeline stages, tensors alive", 4)
    assert [name.split(":")[0].removesuffix(" (shown)") for name in rows] == [f"{n} of 4" for n in (1, 2, 3, 4)]
    shown = next(size for name, size in rows.items() if "(shown)" in name)
    assert shown == format_size(tuned(tuning).peak.allocated_bytes, "GiB")
    assert next(iter(rows)).endswith("8 layers, token table, 4 in flight")
    assert list(rows)[-1].endswith("8 layers, head, 1 in flight")
