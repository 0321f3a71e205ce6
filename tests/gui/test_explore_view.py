"""The view that explores a field: opened by its tab, swept beside the window, clicked to take a value."""

import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication, QComboBox

from planner.chart.paint import paint
from planner.gui.page_list import EXPLORE, LIFECYCLE
from planner.gui.pages import index_of
from planner.gui.views.screen_style import screen_style

BATCH = ("phases", "training", "micro_batch_size")


@pytest.fixture
def view(window, qtbot):
    """The view, opened by its tab, with its plot and the first curve."""
    tabs = window.pages.tabs
    qtbot.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(index_of(EXPLORE)).center())
    window.pages.view(EXPLORE).card.load_plot()
    settle(window.pages.view(EXPLORE), qtbot)
    return window.pages.view(EXPLORE)


def settle(view, qtbot):
    qtbot.waitUntil(lambda: not view.card.busy and view.card.spec is not None)


def point(view, key):
    return next(item for item in view.card.plot.placed.curve.points if item.bar.key == key)


def test_the_view_is_built_and_swept_when_its_tab_is_first_shown(window, qtbot):
    assert not hasattr(window, "explore")
    qtbot.keyClick(window, Qt.Key.Key_3, Qt.KeyboardModifier.ControlModifier)
    assert window.pages.current.name == EXPLORE
    settle(window.pages.view(EXPLORE), qtbot)
    assert window.pages.view(EXPLORE).card.spec.title == "Training: VRAM per GPU by Micro-batch per GPU"


def test_the_point_of_now_is_what_the_plan_says(window, view):
    spec = view.card.spec
    now = next(bar for bar in spec.bars if bar.key == spec.current)
    assert now.total_bytes == window.session.state.plan.phases["training"].peak.process_bytes
    assert [mark.label for mark in spec.crossings] == ["max 2 on H100"]
    assert spec.subtitle == "Llama-3.1-8B · judged against L40S (44.4 GiB usable)"


def test_a_click_on_a_point_takes_its_value_in_one_undoable_edit(window, view, drive, qtbot):
    before = window.session.state.scenario
    at = point(view, "2")
    qtbot.mouseClick(view.card.plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(round(at.x), round(at.y)))
    assert drive.scenario.phases.training.micro_batch_size == 2
    settle(view, qtbot)
    assert view.card.spec.current == "2"
    assert window.undo_stack.count() == 1
    drive.do("undo")
    assert window.session.state.scenario == before


def test_arrows_take_the_next_value_and_are_undone_together(view, drive, qtbot):
    view.card.plot.setFocus()
    for _ in range(2):
        qtbot.keyClick(view.card.plot, Qt.Key.Key_Right)
        settle(view, qtbot)
    assert drive.scenario.phases.training.micro_batch_size == 3
    drive.do("undo")
    assert drive.scenario.phases.training.micro_batch_size == 1


def test_another_field_and_another_phase_are_chosen(window, view, drive, qtbot):
    combo = drive.find(QComboBox, "Field to explore")
    assert [combo.itemText(index) for index in range(combo.count())] == [
        "Micro-batch per GPU",
        "Sequence length",
        "ZeRO stage",
        "Tensor parallel",
    ]
    combo.setFocus()
    qtbot.keyClicks(combo, "ZeRO")
    settle(view, qtbot)
    assert [bar.key for bar in view.card.spec.bars] == ["0", "1", "2", "3"]
    window.session.look_at(phase="fine_tuning")
    settle(view, qtbot)
    while combo.currentText() != "Rank":
        qtbot.keyClick(combo, Qt.Key.Key_Down)
    settle(view, qtbot)
    assert view.card.spec.current == "16"
    window.session.look_at(phase="serving")
    settle(view, qtbot)
    assert view.card.spec.title == "Serving: VRAM per GPU by Concurrent requests"


def test_a_newer_edit_calls_an_older_sweep_off(window, view, qtbot):
    window.session.edit(("phases", "training", "sequence_length"), 4096)
    first = view.card._task
    window.session.edit(("phases", "training", "sequence_length"), 2048)
    assert not first.running
    settle(view, qtbot)
    now = next(bar for bar in view.card.spec.bars if bar.key == "1")
    assert now.total_bytes == window.session.state.plan.phases["training"].peak.process_bytes


def test_a_view_out_of_sight_sweeps_nothing_and_catches_up(window, view, qtbot):
    task = view.card._task
    window.pages.open(LIFECYCLE)
    window.session.edit(BATCH, 2)
    assert view.card._task is task
    window.pages.open(EXPLORE)
    qtbot.waitUntil(lambda: view.card.spec.current == "2" and not view.card.busy)


def test_a_phase_without_vram_has_nothing_to_explore(window, view):
    window.session.look_at(phase="preprocessing")
    assert view.card.spec is None
    assert view.card._notice.text() == "Data preprocessing has nothing to explore: choose another phase."


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_screen_and_the_picture_of_the_painter_look_alike(window, view, theme):
    window.choose_theme(theme)
    plot = view.card.plot
    screen = plot.grab().toImage()
    picture = QImage(screen.size(), QImage.Format.Format_ARGB32)
    picture.fill(window.theme.tokens.panel)
    painter = QPainter(picture)
    layout = paint(painter, QRectF(plot.viewport().rect()), plot.spec, screen_style(window.theme.tokens))
    painter.end()
    assert layout == plot.placed
    for item in layout.curve.points:
        at = QPoint(round(item.x), round(item.y))
        assert screen.pixelColor(at).name() == picture.pixelColor(at).name(), item.bar.key


def test_it_is_named_described_and_copied_as_a_table(view, drive):
    assert view.card.plot.accessibleName() == "Explore chart"
    assert "Micro-batch per GPU 1: 44.6 GiB; tight." in view.card.accessibleDescription()
    drive.do("copy_table")
    assert QApplication.clipboard().text().startswith("Value\tPeak (GiB)")
