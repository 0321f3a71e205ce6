"""The table below the chart says what the plan says."""

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from planner.gui.cautions import cautions
from planner.gui.panels.why_text import why_html
from planner.gui.tokens import LIGHT
from planner.gui.views.table_model import CAUTION_ROLE
from planner.units import format_size

LLAMA_SHAPED = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
}


def text(window, phase, column):
    table = window.table.table
    return table.index(table.phases.index(phase), column).data()


def test_components_and_peak_are_those_of_the_plan(window):
    table, plan = window.table.table, window.session.state.plan
    for phase, phase_plan in plan.phases.items():
        for component in table.components:
            size = phase_plan.components.get(component, 0)
            shown = text(window, phase, table.column_of(component))
            assert shown == (format_size(size, with_unit=False) if size else "–")
        peak = phase_plan.peak.process_bytes
        assert text(window, phase, table.column_of(None)) == (format_size(peak, with_unit=False) if peak else "–")


def test_each_gpu_has_a_column_with_its_verdicts(window):
    table = window.table.table
    first = table.column_of(None) + 1
    titles = [
        table.headerData(c, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole) for c in range(first, first + 3)
    ]
    assert titles == ["H100", "L40S", "RTX 4090"]
    assert text(window, "serving", first + 1).startswith("OOM +")
    assert text(window, "serving", first).endswith("% free")
    assert text(window, "preprocessing", first) == "–"


def test_a_cell_selects_what_is_explained(window, qtbot):
    table, view = window.table.table, window.table
    index = table.index(table.phases.index("evaluation"), table.column_of("weights"))
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=view.visualRect(index).center())
    assert (window.session.view.phase, window.session.view.component) == ("evaluation", "weights")


def test_cells_are_reached_and_chosen_by_keys(window, qtbot):
    view = window.table
    view.setCurrentIndex(view.table.index(0, 1))
    qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert window.session.view.phase == view.table.phases[1]


def test_a_narrow_table_shortens_its_texts_instead_of_scrolling(window, qtbot):
    window.resize(1280, 720)
    qtbot.waitUntil(lambda: window.table.table.compact == 2)
    qtbot.waitUntil(lambda: not window.table.horizontalScrollBar().isVisible())
    assert text(window, "serving", window.table.table.column_of(None) + 2).startswith("+")
    window.resize(1440, 900)
    qtbot.waitUntil(lambda: not window.table.table.compact)


def test_the_table_is_copied_as_text(window, qtbot):
    qtbot.keyClick(window.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert "Fine-tuning (QLoRA)" in QApplication.clipboard().text()


def test_large_figures_lose_their_decimals_before_a_narrow_table_scrolls(window, qtbot):
    window.model_panel.picker.chosen.emit("deepseek-ai/DeepSeek-V3")
    window.resize(1280, 720)
    qtbot.waitUntil(lambda: window.table.table.compact == 2)
    qtbot.waitUntil(lambda: not window.table.horizontalScrollBar().isVisible())
    assert text(window, "training", window.table.table.column_of("weights")) == "1250"
    last = window.table.table.index(window.table.table.rowCount() - 1, 0)
    qtbot.waitUntil(lambda: window.table.visualRect(last).bottom() <= window.table.viewport().height())


def test_a_model_known_only_roughly_is_marked_in_every_row_that_has_figures(window, qtbot):
    table = window.table.table
    assert not table.index(table.phases.index("training"), 0).data(CAUTION_ROLE)
    window.session.take_model({"config": {**LLAMA_SHAPED, "model_type": "something_new"}}, "Import")
    index = table.index(table.phases.index("training"), 0)
    assert "known approximately" in index.data(CAUTION_ROLE)
    assert index.data(Qt.ItemDataRole.ToolTipRole) == index.data(CAUTION_ROLE)
    assert "known approximately" in index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert not table.index(table.phases.index("preprocessing"), 0).data(CAUTION_ROLE)
    window.session.look_at(phase="training", component=None)
    qtbot.waitUntil(lambda: "something_new" in window.why.body.toPlainText())


def test_the_warnings_of_a_phase_are_told_in_why(window):
    state = window.session.state
    plan = replace(state.plan.phases["training"], warnings=("Something is only roughly known.",))
    window.session.state = replace(state, plan=replace(state.plan, phases={**state.plan.phases, "training": plan}))
    assert cautions(window.session.state, "training") == ("Something is only roughly known.",)
    assert "Something is only roughly known." in why_html(window.session.state, "training", None, "GiB", LIGHT)
