"""The table below the chart says what the plan says."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from planner.units import format_size


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
    qtbot.waitUntil(lambda: window.table.table.compact)
    qtbot.waitUntil(lambda: not window.table.horizontalScrollBar().isVisible())
    assert text(window, "serving", window.table.table.column_of(None) + 2).startswith("+")
    window.resize(1440, 900)
    qtbot.waitUntil(lambda: not window.table.table.compact)


def test_the_table_is_copied_as_text(window, qtbot):
    qtbot.keyClick(window.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert "Fine-tuning (QLoRA)" in QApplication.clipboard().text()
