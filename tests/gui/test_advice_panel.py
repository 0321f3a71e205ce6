"""What would make it fit?: asked for, searched beside the window, and applied in one step that can be undone."""

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import QLabel, QPushButton

from planner.gui.panels.side_panel import ADVICE, WHY
from planner.scenario.files import scenario_to_json


@pytest.fixture
def advice(window, drive):
    """The advisor for training, which runs out of memory on an RTX 4090."""
    window.session.edit(("hardware", "judge"), "rtx-4090")
    window.session.look_at(phase="training")
    drive.do("advise")
    assert window.side.tabs.currentIndex() == ADVICE
    return window.side.advice


def searched(advice, drive, qtbot):
    drive.click(advice.begin)
    qtbot.waitUntil(lambda: not advice.busy, timeout=60_000)
    qtbot.wait(1)  # what is new in a layout is shown when the event loop comes round
    return advice


def texts(panel):
    return [label.text() for label in panel.findChildren(QLabel) if not label.isHidden()]


def test_a_suggestion_is_applied_in_one_step_and_keeps_its_promise(advice, drive, window, qtbot):
    before = scenario_to_json(drive.scenario)
    card = searched(advice, drive, qtbot).cards[0]
    promised = card.suggestion.after
    drive.click(card.button)
    plan = window.session.state.plan.phases["training"]
    assert plan.peak.process_bytes == promised.process_bytes
    assert plan.verdicts["rtx-4090"].verdict == "fits"
    assert "Apply" in window.undo_stack.undoText()
    assert advice.cards == []  # they were found for another plan
    assert advice.begin.text() == "Find the largest sizes that fit"
    drive.do("undo")
    assert scenario_to_json(drive.scenario) == before


def test_each_suggestion_says_what_comes_of_it_and_what_it_costs(advice, drive, qtbot):
    cards = searched(advice, drive, qtbot).cards
    assert cards
    for card in cards:
        shown = texts(card)
        assert any("→" in text and "free" in text for text in shown)
        assert card.toolTip()
        assert card.button.accessibleName().startswith("Apply ")
    assert any(text.endswith("least disturbing first.") for text in texts(advice))


def test_an_edit_calls_a_search_off(advice, drive, window, qtbot):
    drive.click(advice.begin)
    assert advice.busy
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    assert not advice.busy
    assert advice.begin.isVisible()
    qtbot.wait(100)
    assert advice.cards == []


def test_a_search_can_be_stopped(advice, drive):
    drive.click(advice.begin)
    drive.click(advice.stop)
    assert not advice.busy
    assert advice.begin.isVisible()


def test_a_phase_that_fits_is_told_its_largest_sizes(advice, drive, window, qtbot):
    window.session.look_at(phase="evaluation")
    assert advice.begin.text() == "Find the largest sizes that fit"
    shown = texts(searched(advice, drive, qtbot))
    assert any(text.startswith("Largest batch per GPU: ") for text in shown), shown


def test_a_phase_without_gpus_has_nothing_to_search_for(advice, window):
    window.session.look_at(phase="preprocessing")
    assert not advice.begin.isEnabled()
    assert "It needs no GPU memory." in texts(advice)


def test_the_explanation_of_a_phase_that_does_not_fit_leads_to_the_advisor(window):
    window.session.edit(("hardware", "judge"), "rtx-4090")
    window.session.look_at(phase="training", component=None)
    window.why._show()
    assert "What would make it fit?" in window.why.body.toPlainText()
    assert window.side.tabs.currentIndex() == WHY
    window.why.body.anchorClicked.emit(QUrl("advice:"))
    assert window.side.tabs.currentIndex() == ADVICE


def test_it_works_by_keys_alone(advice, drive, window, qtbot):
    drive.press(advice.begin, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: not advice.busy, timeout=60_000)
    button = advice.findChildren(QPushButton)[-1]
    assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    drive.press(button, Qt.Key.Key_Space)
    assert window.session.dirty
