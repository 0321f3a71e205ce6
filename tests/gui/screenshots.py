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
from planner.gui.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SETTLE_MS = 500


def settle(milliseconds: int = SETTLE_MS) -> None:
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def take(window: MainWindow, path: Path) -> None:
    settle()
    window.grab().save(str(path))
    print(path)


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
        session.undo_stack.setClean()
        window.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "resources" / "screenshots")
