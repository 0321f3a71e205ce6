"""Plans are kept, changed and compared in the window, and what was kept can be gone back to."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QInputDialog, QPushButton

from planner.gui.page_list import COMPARE
from planner.gui.pages import index_of
from planner.scenario.files import scenario_to_json

BATCH = ("phases", "training", "micro_batch_size")


@pytest.fixture
def view(window, qtbot):
    window.session.look_at(phase="training")
    tabs = window.pages.tabs
    qtbot.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(index_of(COMPARE)).center())
    assert window.pages.current.name == COMPARE
    found = window.pages.view(COMPARE)
    found.card.load_plot()
    return found


@pytest.fixture
def kept(view, window, drive, monkeypatch):
    """The plan kept as `before`, then changed."""
    monkeypatch.setattr(QInputDialog, "getText", lambda *_arguments, **_named: ("before", True))
    drive.click(view.keep_button)
    window.session.edit(BATCH, 4)
    return view


def cell(view, row, column):
    return view.table.item(row, column).text()


def rows(view):
    return [cell(view, row, 0) for row in range(view.table.rowCount())]


def test_a_kept_plan_stands_beside_the_one_of_now(kept):
    assert [bar.name for bar in kept.card.spec.bars] == ["before", "as planned now"]
    assert kept.card.spec.bars[1].total_bytes > kept.card.spec.bars[0].total_bytes
    assert kept.charts == (kept.card.spec,)
    place = rows(kept).index("Micro-batch per GPU")
    assert [cell(kept, place, column) for column in (1, 2)] == ["1 sequences", "4 sequences"]
    peak = rows(kept).index("Peak")
    assert "(+" in cell(kept, peak, 2)


def test_an_edit_moves_the_bar_of_now_alone(kept, window):
    before = [bar.total_bytes for bar in kept.card.spec.bars]
    window.session.edit(BATCH, 2)
    after = [bar.total_bytes for bar in kept.card.spec.bars]
    assert after[0] == before[0]
    assert after[1] < before[1]


def test_one_goes_back_to_what_was_kept_in_one_step(kept, window, drive):
    entry = kept.menu.actions()[0].menu()
    entry.actions()[0].trigger()
    assert drive.scenario.phases.training.micro_batch_size == 1
    assert window.undo_stack.undoText() == "Go back to “before”"
    drive.do("undo")
    assert drive.scenario.phases.training.micro_batch_size == 4


def test_what_is_compared_can_be_taken_away(kept):
    kept.menu.actions()[0].menu().actions()[1].trigger()
    assert [bar.name for bar in kept.card.spec.bars] == ["as planned now"]
    assert not kept.more.isEnabled()


def test_a_file_is_compared_with(view, window, drive, tmp_path, monkeypatch):
    path = tmp_path / "other.vramplan"
    other = window.session.state.scenario.with_value(BATCH, 8).with_value(("name",), "Eight")
    path.write_text(scenario_to_json(other), encoding="utf-8")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_arguments: (str(path), ""))
    drive.click(view.file_button)
    assert [bar.name for bar in view.card.spec.bars] == ["Eight", "as planned now"]


def test_a_file_that_is_no_plan_is_told(view, window, drive, tmp_path, monkeypatch):
    path = tmp_path / "other.vramplan"
    path.write_text("{", encoding="utf-8")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_arguments: (str(path), ""))
    drive.click(view.file_button)
    assert "other.vramplan cannot be opened" in window.status.currentMessage()
    assert view.kept == []


def test_four_plans_at_most_are_compared(view):
    for number in range(5):
        view.keep(f"plan {number}")
    assert [bar.name for bar in view.card.spec.bars] == ["plan 2", "plan 3", "plan 4", "as planned now"]


def test_another_phase_is_compared_when_it_is_looked_at(kept, window):
    window.session.look_at(phase="serving")
    assert kept.card.spec.title == "Serving: 2 plans compared"
    assert "Micro-batch per GPU" not in rows(kept)


def test_controls_have_names(view):
    for button in view.findChildren(QPushButton):
        assert button.text() or button.accessibleName()
    assert view.table.accessibleName() == "Differences"
