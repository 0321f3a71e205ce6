"""The chart on screen shows exactly what the ChartSpec says, and answers to mouse and keys."""

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication

from planner.chart.paint import paint
from planner.chart.palette import COMPONENT_COLOURS
from planner.gui.views.screen_style import screen_style
from planner.units import GIB


@pytest.fixture
def plot(window):
    return window.chart.plot


def segments(plot):
    return [(shape, segment, rect) for shape in plot.placed.bars for segment, rect in shape.segments]


def test_bars_hold_the_numbers_of_the_spec(plot):
    for component, item in plot.bars.items():
        wanted = [
            (index, segment.start_bytes / GIB, segment.size_bytes / GIB)
            for index, bar in enumerate(plot.spec.bars)
            for segment in bar.segments
            if segment.component == component
        ]
        assert list(zip(item.opts["x"], item.opts["y0"], item.opts["height"], strict=True)) == wanted


def test_bars_lie_on_screen_where_the_layout_of_pictures_puts_them(plot):
    for component, item in plot.bars.items():
        shown = [item.mapRectToScene(rect) for rect in item._rectarray.instances()]
        wanted = [rect for _, segment, rect in segments(plot) if segment.component == component]
        assert len(shown) == len(wanted)
        for on_screen, rect in zip(shown, wanted, strict=True):
            assert on_screen.left() == pytest.approx(rect.x, abs=0.5)
            assert on_screen.right() == pytest.approx(rect.right, abs=0.5)
            assert on_screen.top() == pytest.approx(rect.y, abs=0.5)
            assert on_screen.bottom() == pytest.approx(rect.bottom, abs=0.5)


def test_the_screen_and_the_picture_of_the_painter_look_alike(window, plot):
    """Middle of every segment, and a patch beside the bars, have the same colour in both."""
    screen = plot.grab().toImage()
    picture = QImage(screen.size(), QImage.Format.Format_ARGB32)
    picture.fill(window.theme.tokens.panel)
    painter = QPainter(picture)
    paint(painter, QRectF(plot.viewport().rect()), plot.spec, screen_style(window.theme.tokens))
    painter.end()
    for _, segment, rect in segments(plot):
        if rect.height > 12:
            point = QPoint(round(rect.x + 6), round(rect.centre_y))
            assert screen.pixelColor(point).name() == picture.pixelColor(point).name(), segment


def test_segments_have_the_colour_of_their_component(plot):
    screen = plot.grab().toImage()
    weights = next(rect for _, segment, rect in segments(plot) if segment.component == "weights")
    point = QPoint(round(weights.x + 6), round(weights.centre_y))
    assert screen.pixelColor(point).name().upper() == COMPONENT_COLOURS["weights"]


def test_every_segment_has_a_tooltip_with_its_size(plot):
    for shape, segment, rect in segments(plot):
        found = plot.segment_at(QPointF(rect.centre_x, rect.centre_y))
        assert found is not None
        if rect.height >= 4:
            assert found == (shape, segment)
            text = plot.tooltip_at(QPointF(rect.centre_x, rect.centre_y))
            assert segment.label in text
            assert shape.bar.name.lower() in text


def test_beside_a_segment_the_tooltip_tells_total_and_verdict(plot):
    shape = next(shape for shape in plot.placed.bars if shape.bar.phase == "serving")
    text = plot.tooltip_at(QPointF(shape.slot.column.x + 2, plot.placed.plot.bottom - 5))
    assert shape.bar.total_label in text
    assert "ut of memory" in text


def test_a_click_on_a_segment_explains_it(window, plot, qtbot):
    rect = next(r for shape, s, r in segments(plot) if (shape.bar.phase, s.component) == ("serving", "kv_cache"))
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(round(rect.centre_x), round(rect.centre_y)))
    assert (window.session.view.phase, window.session.view.component) == ("serving", "kv_cache")
    assert window.why.title.text() == "WHY 32.0 GiB OF KV CACHE?"
    assert "kv heads" in window.why.body.toPlainText()


def test_arrows_walk_over_phases_and_segments(window, plot, qtbot):
    window.session.look_at(phase="training", component=None)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert window.session.view.phase == "fine_tuning"
    qtbot.keyClick(plot, Qt.Key.Key_Up)
    assert window.session.view.component == "weights"
    qtbot.keyClick(plot, Qt.Key.Key_Up)
    assert window.session.view.component == "gradients"
    qtbot.keyClick(plot, Qt.Key.Key_Escape)
    assert window.session.view.component is None
    for _ in range(9):
        qtbot.keyClick(plot, Qt.Key.Key_Left)
    assert window.session.view.phase == "design"


def test_an_edit_moves_the_bars_and_makes_no_new_items(window, plot):
    before = set(map(id, plot.scene().items()))
    window.session.edit(("phases", "training", "micro_batch_size"), 2)
    window.session.switch_phase("serving", False)
    assert set(map(id, plot.scene().items())) == before


def test_the_first_picture_comes_before_the_plot(qtbot, qapp, settings):
    from planner.gui.application import build_window

    window = build_window(qapp, settings)
    qtbot.addWidget(window, before_close_func=lambda window: window.session.undo_stack.setClean())
    assert window.chart.plot is None
    with qtbot.waitSignal(window.chart.first_painted):
        window.show()
    qtbot.waitUntil(lambda: window.chart.plot is not None)
    assert window.chart.plot.spec == window.chart.spec


def test_the_chart_is_described_for_screen_readers(window):
    text = window.chart.accessibleDescription()
    assert "Training" in text
    assert "Usable memory" in text


def test_the_chart_is_copied_as_an_image_and_as_a_table(drive):
    drive.do("copy_chart")
    assert not QApplication.clipboard().image().isNull()
    drive.do("copy_table")
    assert QApplication.clipboard().text().startswith("Phase\tWeights (GiB)")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_chart_is_saved_in_the_format_that_was_chosen(drive, tmp_path, monkeypatch, answer, suffix):
    from PySide6.QtWidgets import QFileDialog

    kinds = {"png": "PNG image (*.png)", "svg": "SVG drawing (*.svg)", "pdf": "PDF document (*.pdf)"}
    chosen = (str(tmp_path / "chart"), kinds[suffix])
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: chosen)
    answer(lambda dialog: dialog.go_on.click())
    drive.do("export")
    assert (tmp_path / f"chart.{suffix}").stat().st_size > 1000


def test_the_unit_is_switched_everywhere(window):
    window.actions_.units.actions()[1].trigger()
    assert "GB" in window.chart.spec.axis.label
    assert window.actions_.unit_button.text() == "GB"
    assert "GB" in window.why.title.text()
    assert "GB" in window.table.table.headerData(0, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole)
    assert window.settings.unit == "GB"
