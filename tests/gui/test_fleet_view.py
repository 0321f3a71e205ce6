"""The fleet: searched when its tab is first seen, filtered, sorted, judged by and laid out with keys and clicks."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QLineEdit, QPushButton

from planner.engine.fleet import search
from planner.gui.page_list import FLEET
from planner.gui.views.fleet_table import GPU, PILL_ROLE
from planner.scenario import Scenario

PLAN = {
    "model": {"preset": "meta-llama/Llama-3.1-8B"},
    "phases": {
        "training": {
            "precision": "bf16",
            "sequence_length": 2048,
            "gradient_accumulation_steps": 16,
            "activation_checkpointing": "full",
            "parallelism": {"data": 4, "zero_stage": 3},
        },
        "evaluation": {"precision": "bf16", "sequence_length": 1024},
    },
    "hardware": {"gpus": ["h100-sxm5-80gb", "l40s"]},
}


@pytest.fixture
def view(window, qtbot):
    """The page with everything found, opened by its keys."""
    window.session.start_with(Scenario.of(PLAN))
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_5, Qt.KeyboardModifier.ControlModifier)
    assert window.pages.current.name == FLEET
    found = window.pages.view(FLEET)
    settle(found, qtbot)
    return found


def settle(view, qtbot):
    qtbot.waitUntil(
        lambda: view.search.asked is not None and view.search.complete and not view.search.busy, timeout=60_000
    )


def cell(view, gpu, column):
    return view.table.index(view.table.place_of(gpu), column)


def click(view, qtbot, index):
    view.grid.scrollTo(index)
    qtbot.mouseClick(view.grid.viewport(), Qt.MouseButton.LeftButton, pos=view.grid.visualRect(index).center())


def click_header(view, qtbot, column):
    header = view.grid.horizontalHeader()
    x = header.sectionViewportPosition(column) + header.sectionSize(column) // 2
    qtbot.mouseClick(
        header.viewport(), Qt.MouseButton.LeftButton, pos=header.viewport().rect().center().__class__(x, 12)
    )


def shown(view, column):
    return [view.table.index(row, column).data() for row in range(view.table.rowCount())]


def test_every_gpu_of_the_catalogue_is_there_with_what_the_engine_finds(window, view):
    assert view.table.rowCount() == len(window.session.catalog.hardware.gpus)
    gpus = ["l40s", "rtx-4090", "a100-sxm4-40gb"]
    found = search(window.session.state.scenario, "training", window.session.catalog, gpus)
    for gpu in gpus:
        assert cell(view, gpu, 2).data() == str(found[gpu].best.gpus)
        assert found[gpu].best.layout.text in cell(view, gpu, 2).data(Qt.ItemDataRole.ToolTipRole)


def test_a_format_that_a_gpu_lacks_is_named_instead_of_a_number(view):
    assert cell(view, "t4", 2).data() == "no bf16"
    assert "cannot compute in bf16" in cell(view, "t4", 2).data(Qt.ItemDataRole.ToolTipRole)
    assert cell(view, "t4", view.table.whole).data() == "no"
    assert cell(view, "t4", view.table.bought).data() == "–"


def test_words_vendor_memory_kind_and_year_filter(view, drive):
    drive.type(drive.find(QLineEdit, "Search the fleet"), "h100")
    assert all("H100" in name for name in shown(view, GPU))
    drive.type(drive.find(QLineEdit, "Search the fleet"), "nothing like this")
    assert view.table.rowCount() == 0
    drive.find(QLineEdit, "Search the fleet").clear()
    for name, text in (("vendor", "AMD"), ("memory", "≥ 192 GB"), ("kind", "Data centre"), ("release", "since 2024")):
        combo = drive.find(QComboBox, f"Fleet {name}")
        drive.press(combo, Qt.Key.Key_Home, *[Qt.Key.Key_Down] * combo.findText(text))
    gpus = [row.gpu for row in view.table.rows]
    assert gpus
    assert all(gpu.vendor == "AMD" and gpu.memory.marketing_gb >= 192 and gpu.release_year >= 2024 for gpu in gpus)


def test_columns_sort_one_way_then_the_other_with_what_has_no_value_last(view, qtbot):
    bought = [row.total_bytes for row in view.table.rows]
    known = [size for size in bought if size is not None]
    assert known == sorted(known)
    assert bought[len(known) :] == [None] * (len(bought) - len(known))
    click_header(view, qtbot, 2)
    counts = [view.table.index(row, 2).data(PILL_ROLE) for row in range(view.table.rowCount())]
    fitting = [count for count in counts if count]
    assert counts[: len(fitting)] == sorted(fitting)
    click_header(view, qtbot, 2)
    assert view.table.index(0, 2).data(PILL_ROLE) == max(fitting)
    assert view.table.headerData(2, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole) == "Train ↓"


def test_enter_judges_by_a_gpu_and_undo_takes_it_back(window, view, drive):
    before = window.session.state.scenario
    answers = view.search.answers["training"]
    view.grid.setCurrentIndex(cell(view, "rtx-4090", GPU))
    drive.press(view.grid, Qt.Key.Key_Return)
    assert drive.scenario.hardware.judge == "rtx-4090"
    assert window.session.state.judge == "rtx-4090"
    assert view.search.answers["training"] is answers  # whoever judges, the answers are the same
    assert not view.search.busy
    drive.do("undo")
    assert window.session.state.scenario == before


def test_a_click_on_a_name_judges_and_a_click_on_a_number_only_tells(view, drive, qtbot):
    click(view, qtbot, cell(view, "a100-sxm4-80gb", 2))
    assert drive.scenario.hardware.judge is None
    told = drive.find(QLabel, "What the cell means").text()
    assert told.startswith("Training fits")
    assert "A100 SXM4 80 GB" in told
    click(view, qtbot, cell(view, "a100-sxm4-80gb", GPU))
    assert drive.scenario.hardware.judge == "a100-sxm4-80gb"


def test_a_layout_is_taken_in_one_step_and_keeps_its_promise(window, view, drive, qtbot):
    before = window.session.state.scenario
    click(view, qtbot, cell(view, "rtx-4090", 2))
    promised = view.layouts[0]
    drive.click(drive.find(QPushButton, "Take this layout"))
    state = window.session.state
    assert window.undo_stack.count() == 1
    verdict = state.plan.phases["training"].verdicts["rtx-4090"]
    assert verdict.verdict == "fits"
    assert verdict.headroom_bytes == promised.headroom_bytes
    training, planned = state.scenario.phases.training, before.phases.training
    assert training.parallelism.ranks == promised.gpus <= state.scenario.hardware.available_gpus

    def batch(step):
        return step.micro_batch_size * step.gradient_accumulation_steps * step.parallelism.data

    assert batch(training) == batch(planned)
    drive.do("undo")
    assert window.session.state.scenario == before


def test_all_layouts_are_taken_together(window, view, drive, qtbot):
    click(view, qtbot, cell(view, "rtx-4090", view.table.whole))
    assert "run every phase" in drive.find(QLabel, "What the cell means").text()
    drive.click(drive.find(QPushButton, "Take all layouts"))
    plans = window.session.state.plan.phases
    assert {plans[phase].verdicts["rtx-4090"].verdict for phase in ("training", "evaluation")} == {"fits"}


def test_an_edit_searches_anew_for_the_phase_that_it_changed_alone(window, view, qtbot):
    training, evaluation = view.search.answers["training"], view.search.answers["evaluation"]
    window.session.edit(("phases", "evaluation", "sequence_length"), 2048)
    assert view.layouts == ()
    qtbot.waitUntil(lambda: view.search.answers.get("evaluation") not in (None, evaluation), timeout=60_000)
    assert view.search.answers["training"] is training


def test_a_search_can_be_stopped_and_begun_again(window, drive, qtbot):
    window.session.start_with(Scenario.of(PLAN))
    drive.do(FLEET)
    view = window.pages.view(FLEET)
    stop, again = drive.find(QPushButton, "Stop the search"), drive.find(QPushButton, "Search the fleet again")
    qtbot.waitUntil(lambda: view.search.busy and stop.isVisible(), timeout=5_000)
    drive.click(stop)
    assert not view.search.busy
    assert "the search was stopped" in view.subtitle.text()
    assert again.isVisible()
    drive.click(again)
    settle(view, qtbot)
    assert not again.isVisible()


def test_the_table_is_copied_with_keys_and_by_the_menu(view, drive, qtbot):
    drive.do("copy_table")
    text = QApplication.clipboard().text()
    QApplication.clipboard().clear()
    qtbot.keyClick(view.grid, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == text
    lines = text.splitlines()
    assert lines[0].split("\t") == ["GPU", "Usable", "Train", "Eval", "All", "Bought"]
    assert len(lines) == view.table.rowCount() + 1


def test_a_plan_that_contradicts_itself_is_searched_for_what_is_right_in_it(window, view, qtbot):
    window.session.edit(("phases", "training", "parallelism", "tensor"), 3)
    assert "training" in window.session.state.wrong_phases
    qtbot.waitUntil(lambda: view.search.phases == ("evaluation",) and view.search.complete, timeout=20_000)
    assert view.table.phases == ("evaluation",)
