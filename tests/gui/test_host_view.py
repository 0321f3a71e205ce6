"""The view of host RAM and storage: built when looked at, driven by its tab, server, charts, table and keys."""

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QImage, QPainter, QWheelEvent
from PySide6.QtWidgets import QApplication, QFileDialog

from planner.chart.paint import paint
from planner.engine.plan import programme
from planner.gui.dialogs.servers_dialog import ServersDialog
from planner.gui.page_list import HOST, LIFECYCLE
from planner.gui.pages import index_of
from planner.gui.views.screen_style import screen_style
from planner.gui.widgets.number_box import NumberBox
from planner.gui.widgets.search_popup import PickerButton
from planner.units import GIB

RAM, DISK = ("hardware", "host_ram_bytes"), ("hardware", "nvme_bytes")


@pytest.fixture
def host(window, qtbot):
    """The view, opened by its tab, with its plots."""
    tabs = window.pages.tabs
    qtbot.mouseClick(tabs, Qt.MouseButton.LeftButton, pos=tabs.tabRect(index_of(HOST)).center())
    for card in (window.pages.view(HOST).ram, window.pages.view(HOST).storage):
        card.load_plot()
    return window.pages.view(HOST)


def rects(plot):
    return [(shape, segment, rect) for shape in plot.placed.bars for segment, rect in shape.segments]


def click(qtbot, plot, rect):
    qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(round(rect.centre_x), round(rect.centre_y)))


def text(table, row, column):
    return table.index(row, column).data()


def test_the_view_is_built_when_its_tab_is_first_shown(window, qtbot):
    assert not hasattr(window, "host")
    qtbot.keyClick(window, Qt.Key.Key_4, Qt.KeyboardModifier.ControlModifier)
    assert window.pages.current.name == HOST
    first = window.pages.view(HOST)
    window.pages.open(LIFECYCLE)
    window.pages.open(HOST)
    assert window.pages.view(HOST) is first


def test_bars_are_what_the_plan_says(window, host):
    plan = window.session.state.plan
    for bar in host.ram.spec.bars:
        assert bar.total_bytes == plan.phases[bar.phase].host_ram_bytes
        assert bar.high_bytes - bar.total_bytes == plan.phases[bar.phase].page_cache_bytes
    for bar in host.storage.spec.bars[:-1]:
        assert bar.total_bytes == plan.phases[bar.phase].storage_bytes
    assert host.storage.spec.bars[-1].total_bytes == programme(plan.phases).storage_bytes
    for card in (host.ram, host.storage):
        for bar in card.spec.bars:
            assert sum(segment.size_bytes for segment in bar.segments) == bar.total_bytes


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_screen_and_the_picture_of_the_painter_look_alike(window, host, theme):
    window.session.edit(RAM, 60 * GIB)
    window.session.edit(DISK, 130 * 10**9)
    window.choose_theme(theme)
    window.session.look_at(phase="design")
    for card in (host.ram, host.storage):
        plot = card.plot
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
                point = QPoint(round(rect.x + 6), round(rect.centre_y))
                assert screen.pixelColor(point).name() == picture.pixelColor(point).name(), segment
                seen += 1
        assert seen > 2


def test_without_a_server_bars_have_no_verdict(host):
    assert "no RAM stated: bars without a verdict" in host.ram.spec.subtitle
    assert host.offer.text() == "No RAM stated: bars without a verdict"
    assert not any(bar.chip for card in (host.ram, host.storage) for bar in card.spec.bars)
    table = host.table.table
    assert {text(table, row, column) for row in range(table.rowCount()) for column in (3, 5)} == {"–"}


def test_a_server_of_the_catalogue_is_chosen_searched_and_taken_back(host, drive, qtbot):
    picker = drive.find(PickerButton, "Server that judges")
    popup = picker.open()
    qtbot.keyClicks(popup.search, "dgx h100")
    qtbot.keyClick(popup.search, Qt.Key.Key_Return)
    assert drive.scenario.hardware.node == "dgx-h100"
    assert "judged against NVIDIA DGX H100 (2\u202f048 GiB RAM)" in host.ram.spec.subtitle
    assert host.offer.text().startswith("2\u202f048 GiB RAM")
    assert text(host.table.table, 2, 3).endswith("% free")
    drive.do("undo")
    assert drive.scenario.hardware.node is None
    assert host.ram.spec.capacities == ()


def test_what_is_entered_in_place_of_a_servers_own_is_marked(window, host):
    window.session.edit(("hardware", "node"), "aws-p5-48xlarge")
    window.session.edit(RAM, 60 * GIB)
    assert host.offer.text() == "60.0 GiB RAM as entered · 28\u202f312 GiB NVMe"
    window.session.edit(("hardware", "shared_storage_bytes"), 10**15)
    assert host.offer.text().endswith(" · 931\u202f323 GiB shared storage")
    assert host.storage.spec.judge.name == "Shared storage"


def test_own_ram_and_disks_are_entered_in_gib_and_tb(host, drive, answer):
    def enter(dialog):
        assert isinstance(dialog, ServersDialog)
        drive.type(drive.find(NumberBox, "Hardware: Host RAM", dialog), "60")
        drive.type(drive.find(NumberBox, "Hardware: NVMe", dialog), "0.13")
        dialog.reject()

    answer(enter)
    drive.click(host.more)
    hardware = drive.scenario.hardware
    assert (hardware.host_ram_bytes, hardware.nvme_bytes) == (60 * GIB, 130 * 10**9)
    training = next(bar for bar in host.ram.spec.bars if bar.phase == "training")
    assert training.overflow == (60 * GIB, training.total_bytes)
    assert training.chip.text.startswith("OOM +")
    assert host.storage.spec.bars[-1].chip.text.startswith("full +")
    drive.do("undo")
    drive.do("undo")
    assert drive.scenario.hardware.host_ram_bytes is None
    assert drive.scenario.hardware.nvme_bytes is None


def test_a_click_on_a_segment_explains_it_with_formula_and_source(window, host, qtbot):
    plot = host.ram.plot
    rect = next(r for shape, s, r in rects(plot) if (shape.bar.phase, s.component) == ("training", "weights"))
    click(qtbot, plot, rect)
    view = window.session.view
    assert (view.phase, view.resource, view.component) == ("training", "host_ram", "weights")
    assert window.why.title.text() == "WHY 59.8 GiB OF WEIGHTS IN HOST RAM?"
    told = window.why.body.toPlainText()
    assert "loading the checkpoint" in told
    assert "parameters × 2 bytes" in told
    assert "huggingface" in told


def test_every_bar_and_segment_explains_figures_that_add_up(window, host):
    session = window.session
    for card, resource in ((host.ram, "host_ram"), (host.storage, "storage")):
        for bar in card.spec.bars[:6]:
            for component in (None, *(segment.component for segment in bar.segments)):
                session.look_at(phase=bar.phase, resource=resource, component=component)
                told = window.why.body.toPlainText()
                plan = session.state.plan.phases[bar.phase]
                where = ("storage",) if resource == "storage" else ("host_ram",)
                for item in plan.host_terms:
                    if component == item.component and item.alive == where and int(item.bytes):
                        assert item.name in told
                        assert item.source in told.replace("\n", " ")


def test_all_phases_together_say_what_disks_to_buy(window, host, qtbot):
    plot = host.storage.plot
    rect = next(r for shape, s, r in rects(plot) if (shape.bar.phase, s.component) == ("programme", "weights"))
    click(qtbot, plot, rect)
    assert window.session.view.whole
    assert window.session.view.phase == "training"
    told = window.why.body.toPlainText()
    assert "base model is counted with training." in told
    qtbot.keyClick(plot, Qt.Key.Key_Escape)
    told = window.why.body.toPlainText()
    whole = programme(window.session.state.plan.phases)
    assert f"{whole.required_storage_bytes / GIB:.1f} GiB" in told
    assert f"{whole.storage['preprocessing'] / GIB:.1f} GiB" in told


def test_arrows_walk_over_bars_up_to_all_phases_and_back(window, host, qtbot):
    plot = host.storage.plot
    window.session.look_at(phase="serving", resource="storage", component=None)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert window.session.view.bar == "programme"
    qtbot.keyClick(plot, Qt.Key.Key_Up)
    assert window.session.view.component == "data"
    qtbot.keyClick(plot, Qt.Key.Key_Left)
    assert (window.session.view.bar, window.session.view.whole) == ("serving", False)


def test_cells_of_the_table_select_what_is_explained(window, host, qtbot):
    table = host.table
    index = table.table.index(4, 4)
    host.table.scrollTo(index)
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=table.visualRect(index).center())
    assert (window.session.view.phase, window.session.view.resource) == ("evaluation", "storage")
    table.setCurrentIndex(table.table.index(6, 1))
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert window.session.view.whole


@pytest.mark.usefixtures("host")
def test_the_lifecycle_explains_vram_again_when_its_tab_comes_back(window):
    window.session.look_at(whole=True, resource="storage", component="data")
    window.pages.open(LIFECYCLE)
    view = window.session.view
    assert (view.resource, view.whole, view.component) == ("vram", False, None)
    assert window.why.title.text() == "WHY 44.6 GiB?"


def test_a_view_out_of_sight_catches_up_when_it_is_shown(window, host):
    before = host.ram.spec
    window.pages.open(LIFECYCLE)
    window.session.edit(RAM, 60 * GIB)
    assert host.ram.spec is before
    window.pages.open(HOST)
    assert host.ram.spec.judge.capacity_bytes == 60 * GIB
    assert host.offer.text() == "60.0 GiB RAM · NVMe not known"


def test_both_charts_are_copied_as_one_image_and_as_tables(host, drive, qtbot):
    drive.do("copy_chart")
    image = QApplication.clipboard().image()
    assert (image.width(), image.height()) == (1920, 2560)
    drive.do("copy_table")
    whole = QApplication.clipboard().text()
    assert whole.startswith("Phase\tData (GiB)\tWeights (GiB)")
    assert "All phases" in whole
    QApplication.clipboard().clear()
    qtbot.keyClick(host.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == whole


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_both_charts_are_saved_as_one_picture(drive, tmp_path, monkeypatch, answer, suffix):
    chosen = (str(tmp_path / f"chart.{suffix}"), "")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_kwargs: chosen)
    answer(lambda dialog: dialog.go_on.click())
    drive.do("export")
    content = (tmp_path / f"chart.{suffix}").read_bytes()
    assert len(content) > 1000
    if suffix == "svg":
        assert "RAM per server (GiB)" in content.decode()
        assert "Storage of the job (GiB)" in content.decode()


def test_tooltips_tell_share_total_and_verdict(window, host):
    window.session.edit(RAM, 60 * GIB)
    plot = host.ram.plot
    shape, segment, rect = next(item for item in rects(plot) if item[0].bar.phase == "training")
    assert f"{segment.label}" in plot.tooltip_at(QPoint(round(rect.centre_x), round(rect.centre_y)))
    beside = QPoint(round(shape.slot.column.x + 2), round(plot.placed.plot.bottom - 4))
    assert "Out of memory by" in plot.tooltip_at(beside)


def test_charts_and_table_are_named_and_described_for_screen_readers(window, host):
    assert host.ram.plot.accessibleName() == "Host RAM chart"
    assert host.storage.plot.accessibleName() == "Storage chart"
    assert "Training (1 × 8k): " in host.ram.accessibleDescription()
    assert "All phases: " in host.storage.accessibleDescription()
    assert window.pages.tabs.accessibleName() == "Views"


def test_tab_goes_through_the_view_and_brings_its_parts_into_sight(window, host, qtbot):
    window.resize(1280, 720)
    qtbot.waitUntil(lambda: host.height() < 620)
    host.more.setFocus()
    for part in (host.ram.plot, host.storage.plot, host.table):
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        assert window.focusWidget() is part
        assert part.visibleRegion().boundingRect() == part.rect()


def test_the_unit_is_switched_everywhere(window, host):
    window.actions_.units.actions()[1].trigger()
    assert host.ram.spec.axis.label == "RAM per server (GB)"
    assert "GB" in window.why.title.text()
    assert "(GB)" in host.table.table.headerData(0, Qt.Orientation.Horizontal, Qt.ItemDataRole.DisplayRole)


def test_a_phase_that_is_left_out_goes_from_charts_and_table(window, host):
    window.session.switch_phase("serving", False)
    assert "serving" not in [bar.phase for bar in host.ram.spec.bars]
    assert "serving" not in host.table.table.rows
    window.session.look_at(phase="serving", component=None)
    assert "not planned" in window.why.body.toPlainText()


def test_the_wheel_over_a_chart_is_left_to_the_page(host):
    view = host.ram.plot.viewport()
    middle = QPointF(view.rect().center())
    turned = QWheelEvent(
        middle,
        QPointF(view.mapToGlobal(middle.toPoint())),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, turned)
    assert not turned.isAccepted()
