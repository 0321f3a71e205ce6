"""The view of a step: opened by its tab, driven by its phase, chart, table and keys."""

import pytest
from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication, QComboBox, QFileDialog

from planner.chart.paint import paint
from planner.gui.page_list import LIFECYCLE, TIMELINE
from planner.gui.pages import index_of
from planner.gui.views.screen_style import screen_style
from planner.units import GIB


@pytest.fixture
def view(window, qtbot):
    """The view, opened by its tab, with its plot."""
    tabs = window.pages.tabs
    qtbot.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(index_of(TIMELINE)).center())
    window.pages.view(TIMELINE).card.load_plot()
    return window.pages.view(TIMELINE)


def rects(plot):
    return [(shape, segment, rect) for shape in plot.placed.bars for segment, rect in shape.segments]


def click(qtbot, plot, rect):
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(round(rect.centre_x), round(rect.centre_y)))


def choose(drive, qtbot, name):
    """A phase, with the keys: by typing its name."""
    combo = drive.find(QComboBox, "Phase of the timeline")
    combo.setFocus()
    qtbot.keyClicks(combo, name)
    return combo


def test_the_view_is_built_when_its_tab_is_first_shown(window, qtbot):
    assert not hasattr(window, "timeline")
    qtbot.keyClick(window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert window.pages.current.name == TIMELINE
    assert [bar.name for bar in window.pages.view(TIMELINE).card.spec.bars][:2] == ["Start of step", "Forward"]


def test_plot_and_table_hold_the_numbers_of_the_plan(window, view):
    plan = window.session.state.plan.phases["training"]
    plot, table = view.card.plot, view.table.table
    for component, item in plot.bars.items():
        wanted = [
            segment.size_bytes / GIB
            for bar in plot.spec.bars
            for segment in bar.segments
            if segment.component == component
        ]
        assert list(item.opts["height"]) == wanted
    for row, moment in enumerate(plan.moments.values()):
        overhead = plan.components["overhead"]
        total = moment.allocated_bytes + overhead
        assert table.index(row, table.columnCount() - 1).data() == f"{total / GIB:.1f}"
        cell = table.index(row, 1 + table.components.index("weights"))
        assert cell.data() == f"{moment.components['weights'] / GIB:.1f}"
    assert table.index(3, 0).data() == "Backward (peak)"


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
    seen = 0
    for _, segment, rect in rects(plot):
        if rect.height > 12:
            point = QPoint(round(rect.x + 8), round(rect.centre_y))
            assert screen.pixelColor(point).name() == picture.pixelColor(point).name(), segment
            seen += 1
    assert seen > 10


def test_a_click_on_a_band_explains_it_at_that_moment(window, view, qtbot):
    plot = view.card.plot
    rect = next(
        r for shape, s, r in rects(plot) if (shape.bar.moment, s.component) == ("optimizer_step", "temporaries")
    )
    click(qtbot, plot, rect)
    looked = window.session.view
    assert (looked.phase, looked.moment, looked.component) == ("training", "optimizer_step", "temporaries")
    assert window.why.title.text() == "WHY 7.5 GiB OF TEMPORARIES?"
    told = window.why.body.toPlainText()
    assert "Training, in the optimizer step." in told
    assert "lists over all parameters" in told
    assert "Held only at other moments: reduce bucket" in told
    qtbot.keyClick(plot, Qt.Key.Key_Escape)
    assert window.why.title.text() == "WHY 37.2 GiB?"
    assert "7.4 GiB less than at the peak, in the backward pass" in window.why.body.toPlainText()


def test_every_moment_and_band_explains_figures_that_add_up(window, view):
    session = window.session
    for phase in ("training", "serving"):
        session.look_at(phase=phase)
        plan = session.state.plan.phases[phase]
        for bar in view.card.spec.bars:
            for segment in bar.segments:
                session.look_at(moment=bar.moment, component=segment.component)
                told = window.why.body.toPlainText()
                if segment.size_bytes > GIB:
                    assert f"WHY {segment.label} OF" in window.why.title.text()
                held = [
                    item
                    for item in plan.terms
                    if item.component == segment.component and bar.moment in item.alive and int(item.bytes)
                ]
                assert all(item.name in told for item in held)
                if segment.component != "overhead":
                    assert sum(int(item.bytes) for item in held) == segment.size_bytes


def test_the_peak_is_explained_as_in_the_lifecycle(window, view, qtbot):
    plot = view.card.plot
    rect = next(r for shape, s, r in rects(plot) if (shape.bar.moment, s.component) == ("backward", "logits"))
    click(qtbot, plot, rect)
    at_peak = (window.why.title.text(), window.why.body.toPlainText())
    window.session.look_at(phase="training", component="logits")
    assert (window.why.title.text(), window.why.body.toPlainText()) == at_peak


def test_arrows_walk_over_moments_and_bands(window, view, qtbot):
    plot = view.card.plot
    window.session.look_at(moment="forward")
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert window.session.view.moment == "end_of_forward"
    qtbot.keyClick(plot, Qt.Key.Key_Up)
    assert (window.session.view.moment, window.session.view.component) == ("end_of_forward", "weights")


def test_only_phases_with_vram_are_offered_and_a_choice_shows_it(window, view, drive, qtbot):
    combo = drive.find(QComboBox, "Phase of the timeline")
    offered = [combo.itemText(index) for index in range(combo.count())]
    assert offered == ["Design & validation", "Training", "Fine-tuning", "Evaluation", "Serving"]
    assert combo.currentText() == "Training"
    choose(drive, qtbot, "Serv")
    assert window.session.view.phase == "serving"
    assert [bar.name for bar in view.card.spec.bars] == ["Load", "Prefill", "Decode"]
    window.session.switch_phase("evaluation", False)
    assert "Evaluation" not in [combo.itemText(index) for index in range(combo.count())]


def test_a_phase_without_vram_is_said_to_have_none(window, view, drive):
    window.session.look_at(phase="preprocessing")
    notice = next(label for label in view.card.findChildren(type(view.card._notice)) if label.text())
    assert notice.text() == "Data preprocessing needs no VRAM: choose another phase."
    assert view.card.spec is None
    assert drive.find(QComboBox, "Phase of the timeline").currentIndex() == -1
    assert view.table.table.rowCount() == 0


def test_an_edit_moves_the_steps_and_undo_moves_them_back(window, view, drive):
    before = view.card.spec
    window.session.edit(("phases", "training", "micro_batch_size"), 2)
    assert view.card.spec.bars[3].total_bytes > before.bars[3].total_bytes
    drive.do("undo")
    assert view.card.spec == before


def test_roles_on_gpus_of_their_own_have_a_timeline_each(window, view, drive, qtbot):
    window.session.edit(("phases", "fine_tuning", "objective"), "grpo")
    session = window.session
    roles = session.state.plan.phases["fine_tuning"].groups
    role = next(iter(roles))
    combo = drive.find(QComboBox, "Phase of the timeline")
    names = [combo.itemText(index) for index in range(combo.count())]
    name = next(item for item in names if item.startswith("Fine-tuning · "))
    choose(drive, qtbot, "Fine")
    for _ in range(names.index(name) - names.index("Fine-tuning")):
        qtbot.keyClick(combo, Qt.Key.Key_Down)
    assert (session.view.phase, session.view.group) == ("fine_tuning", role)
    assert name.partition(" · ")[2] in view.card.spec.title
    (peak,) = [bar for bar in view.card.spec.bars if bar.peak]
    assert peak.total_bytes == roles[role].peak.process_bytes
    assert window.why.title.text() == f"WHY {peak.total_label} GiB?"


@pytest.mark.usefixtures("view")
def test_the_lifecycle_explains_the_peak_again_when_its_tab_comes_back(window):
    window.session.look_at(moment="forward", component="weights")
    window.pages.open(LIFECYCLE)
    assert (window.session.view.moment, window.session.view.component) == ("", None)
    assert window.why.title.text() == "WHY 44.6 GiB?"


def test_a_view_out_of_sight_catches_up_when_it_is_shown(window, view):
    before = view.card.spec
    window.pages.open(LIFECYCLE)
    window.session.edit(("phases", "training", "micro_batch_size"), 2)
    assert view.card.spec is before
    window.pages.open(TIMELINE)
    assert view.card.spec != before


def test_cells_of_the_table_select_what_is_explained(window, view, qtbot):
    table = view.table
    index = table.table.index(1, 1 + table.table.components.index("logits"))
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=table.visualRect(index).center())
    assert (window.session.view.moment, window.session.view.component) == ("forward", "logits")
    assert window.why.title.text() == "WHY 9.8 GiB OF LOGITS & LOSS?"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_chart_is_saved_and_copied(view, drive, qtbot, tmp_path, monkeypatch, answer, suffix):
    chosen = (str(tmp_path / f"chart.{suffix}"), "")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: chosen)
    answer(lambda dialog: dialog.go_on.click())
    drive.do("export")
    content = (tmp_path / f"chart.{suffix}").read_bytes()
    assert len(content) > 1000
    if suffix == "svg":
        assert "VRAM per GPU over a step: Training" in content.decode()
    drive.do("copy_table")
    copied = QApplication.clipboard().text()
    assert copied.startswith("Moment\tWeights (GiB)")
    QApplication.clipboard().clear()
    qtbot.keyClick(view.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == copied


def test_it_is_named_and_described_for_screen_readers(view):
    assert view.card.plot.accessibleName() == "Step timeline chart"
    assert "Optimizer step: 37.2 GiB (" in view.card.accessibleDescription()
    assert view.table.accessibleName() == "Figures of each moment"


def test_the_unit_is_switched_everywhere(window, view):
    window.actions_.units.actions()[1].trigger()
    assert view.card.spec.axis.label == "VRAM per GPU (GB)"
    assert view.table.table.headerData(0, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole).endswith("(GB)")
