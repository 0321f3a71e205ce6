"""Takes the screenshots of `resources/screenshots/`: `python tests/gui/screenshots.py [FOLDER]`.

They come from the running program at 1440 × 900 and 1280 × 720, so they show what a user sees, without a desktop.
"""

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QSettings, QTimer
from PySide6.QtWidgets import QApplication

from planner.gui.application import build_window, make_application
from planner.gui.main_window import MainWindow
from planner.gui.page_list import COMPARE, EXPLORE, FLEET, HOST, LIFECYCLE, TIMELINE
from planner.gui.settings import Settings
from planner.units import GB, GIB

ROOT = Path(__file__).resolve().parents[2]
SETTLE_MS = 500
LONG_MODEL = "研究所/Donaudampfschifffahrtsgesellschaftskapitänsmützen-Sprachmodell-多语言大规模预训练对话模型-第七版"
LONG_SERVER = "国家超级计算中心人工智能训练服务器 Hochleistungsrechenzentrumsverwaltungsknoten 17"
LONG_NAMED = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}


def settle(milliseconds: int = SETTLE_MS) -> None:
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def take(window: MainWindow, path: Path) -> None:
    settle()
    window.grab().save(str(path))
    print(path)


def take_timeline(window: MainWindow, folder: Path) -> None:
    """The view of a step: training with its peak explained, and serving in the dark."""
    session = window.session
    window.pages.open(TIMELINE)
    window.resize(1440, 900)
    session.look_at(phase="training", moment="optimizer_step", component="temporaries")
    take(window, folder / "timeline.png")
    window.choose_theme("dark")
    window.resize(1280, 720)
    session.look_at(phase="serving", moment="decode", component="kv_cache")
    take(window, folder / "timeline-dark.png")
    window.choose_theme("light")


def take_explore(window: MainWindow, folder: Path) -> None:
    """The view that explores a field: requests that a GPU serves, and a field of training in the dark."""
    session = window.session
    window.pages.open(EXPLORE)
    window.resize(1440, 900)
    session.look_at(phase="serving", component=None)
    take(window, folder / "explore.png")
    window.choose_theme("dark")
    window.resize(1280, 720)
    session.look_at(phase="training")
    take(window, folder / "explore-dark.png")
    window.choose_theme("light")


def take_fleet(window: MainWindow, folder: Path) -> None:
    """The fleet: GPUs of data centres with the layout of one, and all kinds of them in the dark."""
    session = window.session
    window.resize(1440, 900)
    session.look_at(phase="training", component=None)
    window.pages.open(FLEET)
    view = window.pages.view(FLEET)
    settle()
    while view.search.busy:
        settle(50)
    view.filter.kind.setCurrentIndex(1)
    view.table.sort(view.table.bought)
    view.grid.setCurrentIndex(view.table.index(view.table.place_of("l40s") or 0, 3))
    view.grid.setFocus()
    take(window, folder / "fleet.png")
    window.choose_theme("dark")
    window.resize(1280, 720)
    view.filter.kind.setCurrentIndex(0)
    view.filter.search.setText("16 gb")
    view.grid.setCurrentIndex(view.table.index(view.table.place_of("t4") or 0, 3))
    take(window, folder / "fleet-dark.png")
    view.filter.search.clear()
    window.choose_theme("light")


def take_advice(window: MainWindow, folder: Path) -> None:
    """What would make it fit: training on a small GPU, and serving in the dark on a small screen."""
    session = window.session
    window.resize(1440, 900)
    window.pages.open(LIFECYCLE)
    session.edit(("hardware", "judge"), "rtx-4090")
    session.look_at(phase="training", component=None)
    window.side.open_advice()
    panel = window.side.advice
    for name, phase in (("advice.png", "training"), ("advice-dark.png", "serving")):
        session.look_at(phase=phase, component=None)
        panel.search()
        while panel.busy:
            settle(50)
        take(window, folder / name)
        window.choose_theme("dark")
        window.resize(1280, 720)
    window.choose_theme("light")
    window.side.tabs.setCurrentIndex(0)
    window.undo_stack.undo()


def take_compare(window: MainWindow, folder: Path) -> None:
    """Three plans of training side by side, and two of serving in the dark."""
    session = window.session
    window.resize(1440, 900)
    session.look_at(phase="training", component=None)
    window.pages.open(COMPARE)
    view = window.pages.view(COMPARE)
    view.keep("as planned")
    session.edit(("phases", "training", "optimizer"), "adamw_8bit")
    session.edit(("phases", "training", "loss_implementation"), "chunked")
    view.keep("8-bit AdamW, chunked loss")
    session.edit(("phases", "training", "parallelism", "zero_stage"), 3)
    take(window, folder / "compare.png")
    window.choose_theme("dark")
    window.resize(1280, 720)
    session.edit(("phases", "serving", "kv_cache_dtype"), "fp8")
    session.look_at(phase="serving", component=None)
    take(window, folder / "compare-dark.png")
    window.choose_theme("light")
    while window.undo_stack.canUndo():
        window.undo_stack.undo()


def take_host(window: MainWindow, folder: Path) -> None:
    """The view of host RAM and storage: on a large server, on one too small, and with names that are too long."""
    session = window.session
    window.resize(1440, 900)
    window.pages.open(HOST)
    session.edit(("hardware", "node"), "aws-p5-48xlarge")
    session.look_at(phase="training", component="weights")
    take(window, folder / "host.png")
    window.choose_theme("dark")
    session.edit(("hardware", "node"), None)
    session.edit(("hardware", "host_ram_bytes"), 60 * GIB)
    session.edit(("hardware", "nvme_bytes"), 130 * GB)
    session.look_at(whole=True, resource="storage", component=None)
    take(window, folder / "host-dark.png")
    window.choose_theme("light")
    window.resize(1280, 720)
    session.look_at(phase="training", resource="host_ram", component=None)
    take(window, folder / "host-small.png")
    session.take_model({"config": {**LONG_NAMED, "_name_or_path": LONG_MODEL}}, "Import")
    session.edit(("hardware", "node"), {"name": LONG_SERVER, "host_ram_bytes": 16 * GIB, "nvme_bytes": 40 * GB})
    session.edit(("hardware", "host_ram_bytes"), None)
    session.edit(("hardware", "nvme_bytes"), None)
    take(window, folder / "host-long-names.png")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication.instance() or make_application()
    assert isinstance(app, QApplication)
    with tempfile.TemporaryDirectory() as place:
        settings = Settings(QSettings(str(Path(place) / "settings.ini"), QSettings.Format.IniFormat))
        settings.theme = "light"
        window = build_window(app, settings)
        window.resize(1440, 900)
        window.show()
        settle()
        session = window.session
        session.look_at(phase="serving", component="kv_cache")
        take(window, folder / "light.png")
        window.choose_theme("dark")
        session.look_at(phase="training", component="optimizer_states")
        take(window, folder / "dark.png")
        window.choose_theme("light")
        session.edit(("hardware", "judge"), "rtx-4090")
        session.edit(("phases", "training", "micro_batch_size"), 2)
        session.look_at(phase="training", component=None)
        take(window, folder / "oom.png")
        session.undo_stack.setIndex(0)
        session.look_at(phase="fine_tuning", component="activations")
        window.resize(1280, 720)
        take(window, folder / "small.png")
        take_timeline(window, folder)
        take_explore(window, folder)
        take_fleet(window, folder)
        take_advice(window, folder)
        take_compare(window, folder)
        take_host(window, folder)
        session.undo_stack.setClean()
        window.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "resources" / "screenshots")
