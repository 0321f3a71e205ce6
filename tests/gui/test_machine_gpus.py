"""GPUs of this machine are offered beside the catalogue, and nothing is said where there are none."""

import pytest
from PySide6.QtWidgets import QPushButton

from planner.gui.dialogs.gpu_dialog import GpuDialog
from planner.hardware.machine import LocalGpu

GIB = 1024**3
CARDS = (
    LocalGpu(0, "NVIDIA GeForce RTX 4090", 24 * GIB, GIB // 2, 20 * GIB, "rtx-4090"),
    LocalGpu(1, "NVIDIA Unheard 9000", 8 * GIB, 0, 0, None),
)


@pytest.fixture
def dialog(window, qtbot, monkeypatch, request):
    monkeypatch.setattr("planner.gui.dialogs.machine_gpus.local_gpus", lambda _gpus: request.param)
    dialog = GpuDialog(window.session.catalog.hardware, "GiB", window)
    dialog.chosen.connect(window.gpu_panel.add)
    dialog.show()
    qtbot.waitUntil(lambda: not dialog.machine._task.running)
    yield dialog
    dialog.close()


@pytest.mark.parametrize("dialog", [CARDS], indirect=True)
def test_a_card_is_added_whole_or_with_what_is_free(dialog, drive):
    assert dialog.machine.isVisible()
    drive.click(drive.find(QPushButton, "Add NVIDIA GeForce RTX 4090", dialog))
    drive.click(drive.find(QPushButton, "Add what is free of NVIDIA GeForce RTX 4090", dialog))
    known, free = drive.scenario.hardware.gpus[-2:]
    assert known == "rtx-4090"
    assert (free.name, free.memory_gib) == ("NVIDIA GeForce RTX 4090, free now", 20.0)


@pytest.mark.parametrize("dialog", [CARDS], indirect=True)
def test_a_card_that_the_catalogue_lacks_is_one_of_ones_own(dialog, drive):
    drive.click(drive.find(QPushButton, "Add NVIDIA Unheard 9000", dialog))
    assert (drive.scenario.hardware.gpus[-1].name, drive.scenario.hardware.gpus[-1].memory_gib) == (CARDS[1].name, 8.0)
    assert not drive.find(QPushButton, "Add what is free of NVIDIA Unheard 9000", dialog).isEnabled()


@pytest.mark.parametrize("dialog", [()], indirect=True)
def test_without_a_gpu_nothing_is_shown(dialog):
    assert not dialog.machine.isVisible()
