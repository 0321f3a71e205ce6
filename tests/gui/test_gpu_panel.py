"""GPUs are added, counted, removed, and one of them judges."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton, QRadioButton, QTableView, QToolButton

from planner.gui.dialogs.gpu_dialog import GpuDialog
from planner.gui.dialogs.servers_dialog import ServersDialog
from planner.gui.widgets.number_box import NumberBox

GIB = 1024**3


@pytest.fixture
def dialog(window, qtbot):
    dialog = GpuDialog(window.session.catalog.hardware, "GiB", window)
    qtbot.addWidget(dialog)
    dialog.chosen.connect(window.gpu_panel.add)
    dialog.show()
    return dialog


def keys(drive):
    return drive.scenario.hardware.keys


def test_a_gpu_found_by_typing_is_added_by_enter(drive, window, dialog):
    before = len(window.chart.spec.capacities)
    drive.type(drive.find(QLineEdit, "Search GPUs", within=dialog), "mi300x")
    drive.press(drive.find(QLineEdit, "Search GPUs", within=dialog), Qt.Key.Key_Return)
    assert keys(drive)[-1] == "mi300x"
    assert len(window.chart.spec.capacities) == before + 1


def test_the_list_is_filtered_by_vendor_and_memory(drive, dialog):
    table = drive.find(QTableView, "GPUs", within=dialog).model()
    everything = table.rowCount()
    vendor = drive.find(QComboBox, "Vendor", within=dialog)
    vendor.setCurrentText("AMD")
    assert 0 < table.rowCount() < everything
    assert {gpu.vendor for gpu in table.gpus} == {"AMD"}
    drive.find(QComboBox, "Memory", within=dialog).setCurrentText("≥ 192 GB")
    assert all(gpu.memory.marketing_gb >= 192 for gpu in table.gpus)


def test_a_slice_of_a_gpu_is_added(drive, dialog):
    drive.type(drive.find(QLineEdit, "Search GPUs", within=dialog), "a100 sxm4 80")
    part = drive.find(QComboBox, "Part of the GPU", within=dialog)
    part.setCurrentText("3g.40gb")
    drive.click(dialog.add)
    assert keys(drive)[-1] == "a100-sxm4-80gb/3g.40gb"


def test_a_card_of_any_size_is_added(drive, window, dialog):
    drive.type(drive.find(QLineEdit, "Name of the card", within=dialog), "Prototype")
    drive.type(drive.find(NumberBox, "Memory of the card", within=dialog), "100.5")
    drive.click(dialog.own_card.add)
    assert keys(drive)[-1] == "Prototype"
    line = next(line for line in window.chart.spec.capacities if line.gpu == "Prototype")
    assert line.capacity_bytes == 100.5 * GIB
    assert "Prototype" in dialog.added.text()


def test_a_card_without_a_name_is_refused_with_a_sentence(drive, dialog):
    before = keys(drive)
    drive.type(drive.find(QLineEdit, "Name of the card", within=dialog), " ")
    drive.click(dialog.own_card.add)
    assert dialog.own_card.message.isVisible()
    assert "name" in dialog.own_card.message.text()
    assert keys(drive) == before


def test_a_search_without_result_offers_a_card_of_ones_own(drive, dialog):
    drive.type(drive.find(QLineEdit, "Search GPUs", within=dialog), "voodoo")
    assert "card of your own" in dialog.added.text()
    assert not dialog.add.isEnabled()


def test_the_gpu_that_judges_is_chosen_in_the_list(drive, window):
    assert drive.bar("serving").chip.kind == "oom"
    drive.click(drive.find(QRadioButton, "Judge by NVIDIA H100 SXM5 80 GB"))
    assert drive.scenario.hardware.judge == "h100-sxm5-80gb"
    assert window.chart.spec.judge.gpu == "h100-sxm5-80gb"
    assert drive.bar("serving").chip is None
    drive.do("undo")
    assert window.chart.spec.judge.gpu == "l40s"


def test_a_number_of_cards_is_typed(drive):
    drive.type(drive.find(NumberBox, "Number of NVIDIA L40S 48 GB"), "16")
    assert drive.scenario.hardware.gpus[1].count == 16
    drive.do("undo")
    assert drive.scenario.hardware.gpus[1].count == 4


def test_the_judge_may_be_removed_and_comes_back_with_undo(drive, window):
    drive.click(drive.find(QToolButton, "Remove NVIDIA L40S 48 GB"))
    assert "l40s" not in keys(drive)
    assert window.session.state.judge == "h100-sxm5-80gb"
    drive.do("undo")
    assert window.session.state.judge == "l40s"


def test_the_last_gpu_cannot_be_removed(drive):
    for name in ("NVIDIA L40S 48 GB", "NVIDIA GeForce RTX 4090 24 GB"):
        drive.click(drive.find(QToolButton, f"Remove {name}"))
    assert not drive.find(QToolButton, "Remove NVIDIA H100 SXM5 80 GB").isEnabled()


def test_headroom_is_set_in_the_servers_dialog_and_lowers_the_limit(drive, window, qtbot):
    dialog = ServersDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    before = drive.bar("training").limit_bytes
    drive.type(drive.find(NumberBox, "Hardware: Keep free", within=dialog), "10")
    assert drive.bar("training").limit_bytes == pytest.approx(0.9 * before, rel=0.001)
    drive.do("undo")
    assert drive.find(NumberBox, "Hardware: Keep free", within=dialog).value() == 0


def test_memory_is_entered_in_gib_and_kept_in_bytes(drive, window, qtbot):
    dialog = ServersDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    field = drive.find(NumberBox, "Hardware: Host RAM", within=dialog)
    drive.type(field, "512")
    assert drive.scenario.hardware.host_ram_bytes == 512 * GIB
    drive.do("undo")
    assert drive.scenario.hardware.host_ram_bytes is None
    assert field.text() == ""


def test_a_server_of_the_catalogue_is_found_by_typing(drive, window, qtbot):
    dialog = ServersDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    popup = dialog.server.open()
    qtbot.keyClicks(popup.search, "h100")
    drive.press(popup.search, Qt.Key.Key_Return)
    node = window.session.catalog.hardware.nodes[drive.scenario.hardware.node]
    assert "h100" in node.gpu
    assert dialog.server.text().startswith(node.name[:6])


def test_the_button_opens_the_dialog(drive, answer):
    seen = []
    answer(lambda dialog: (seen.append(type(dialog)), dialog.reject()))
    drive.click(drive.find(QPushButton, "Add GPUs"))
    assert seen == [GpuDialog]


def test_what_a_gpu_offers_by_hand_is_shown_at_once(window):
    window.session.edit(("hardware", "gpu_total_bytes"), 30 * GIB)
    assert {gpu.capacities.usable_bytes for gpu in window.session.state.gpus} == {30 * GIB}
    window.session.edit(("hardware", "gpu_total_bytes"), None)
    assert 30 * GIB not in {gpu.capacities.usable_bytes for gpu in window.session.state.gpus}
