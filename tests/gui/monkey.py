"""A monkey at the window: random edits, legal and not, undo, views, themes, plans; nothing may break.

    python tests/gui/monkey.py [--steps 5000] [--seed 1]

Every choice comes from a seeded generator, and the last steps are printed when something goes wrong.
"""

import argparse
import os
import random
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSettings, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication, QMessageBox

from planner.engine.plan import PHASES
from planner.gui.application import build_window, make_application
from planner.gui.main_window import MainWindow
from planner.gui.page_list import PAGES
from planner.gui.settings import Settings
from planner.scenario.declaration import Declared
from planner.scenario.files import load_scenario, scenario_to_json
from planner.scenario.workloads import workloads

IGNORED = "This plugin does not support "
ODD: tuple[Any, ...] = (None, "", "x", -1, 0, 1, 2, 3, 8, 64, 4096, 10**9, 10**30, 0.5, True, False, "auto", [], {})


class Monkey:
    """What it does, and what it has done."""

    def __init__(self, window: MainWindow, folder: Path, seed: int) -> None:
        self.window, self.folder = window, folder
        self.chance = random.Random(seed)
        self.done: deque[str] = deque(maxlen=20)
        self.models = sorted(window.session.catalog.presets)
        self.gpus = sorted(window.session.catalog.hardware.gpus)

    def step(self) -> None:
        acts: tuple[Callable[[], str], ...] = (
            *(self.edit,) * 10,
            *(self.undo, self.redo) * 2,
            *(self.look, self.page, self.phase, self.theme, self.unit, self.model, self.gpu, self.judge),
            *(self.workload, self.save_and_open, self.resize),
        )
        self.done.append(self.chance.choice(acts)())
        QApplication.processEvents()

    def edit(self) -> str:
        """One field of the plan becomes something: a choice of its own, a number, or nonsense."""
        session = self.window.session
        paths = [path for path, _ in _fields(session.state.scenario, ())]
        path = self.chance.choice(paths)
        from planner.scenario import declaration_at

        found = declaration_at(path)
        own = [value for value, _ in found.choices] if found and found.choices else []
        value = self.chance.choice([*own, *own, *ODD]) if self.chance.random() < 0.8 else self.chance.randint(1, 300)
        return f"edit {path} {value!r}: {session.edit(path, value)[:80]}"

    def undo(self) -> str:
        self.window.undo_stack.undo()
        return "undo"

    def redo(self) -> str:
        self.window.undo_stack.redo()
        return "redo"

    def look(self) -> str:
        phase = self.chance.choice(PHASES)
        component = self.chance.choice(("weights", "activations", "kv_cache", "overhead", None))
        self.window.session.look_at(phase=phase, component=component)
        return f"look at {phase} {component}"

    def page(self) -> str:
        page = self.chance.choice([page for page in PAGES if page.name != "fleet"])
        self.window.pages.open(page.name)
        return f"page {page.name}"

    def phase(self) -> str:
        phase, on = self.chance.choice(PHASES), self.chance.random() < 0.7
        self.window.session.switch_phase(phase, on)
        return f"phase {phase} {on}"

    def theme(self) -> str:
        theme = self.chance.choice(("light", "dark"))
        self.window.choose_theme(theme)
        return f"theme {theme}"

    def unit(self) -> str:
        unit = self.chance.choice(("GiB", "GB"))
        self.window.choose_unit(unit)
        return f"unit {unit}"

    def model(self) -> str:
        model = self.chance.choice(self.models)
        self.window.session.take_model({"preset": model}, "Pick model")
        return f"model {model}"

    def gpu(self) -> str:
        gpu = self.chance.choice(self.gpus)
        if len(self.window.session.state.scenario.hardware.gpus) < 6:
            self.window.gpu_panel.add(gpu)
        return f"gpu {gpu}"

    def judge(self) -> str:
        keys = self.window.session.state.scenario.hardware.keys
        self.window.session.edit(("hardware", "judge"), self.chance.choice(keys))
        return "judge"

    def workload(self) -> str:
        workload = self.chance.choice(workloads())
        action = next(each for each in self.window.actions_.workloads.actions() if each.text().endswith(workload.title))
        action.trigger()
        return f"workload {workload.id}"

    def save_and_open(self) -> str:
        """The file holds the plan as it is; reading it gives the same."""
        path = self.folder / "plan.vramplan"
        path.write_text(scenario_to_json(self.window.session.state.scenario), encoding="utf-8")
        assert load_scenario(path) == self.window.session.state.scenario
        return "saved"

    def resize(self) -> str:
        size = self.chance.choice(((1440, 900), (1280, 720), (1000, 640)))
        self.window.resize(*size)
        return f"size {size}"


def _fields(part: Any, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Any]]:
    """Every field of a scenario that holds no further ones; the model is not edited by fields."""
    found = []
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Declared):
            found += _fields(value, (*path, name))
        elif path or name == "name":
            found.append(((*path, name), value))
    return [entry for entry in found if entry[0][0] != "model"]


def play(window: MainWindow, folder: Path, steps: int, seed: int) -> Monkey:
    """So many steps, then everything undone: the plan is the same to the byte. Raises what went wrong."""
    start = scenario_to_json(window.session.state.scenario)
    monkey = Monkey(window, folder, seed)
    try:
        for _ in range(steps):
            monkey.step()
        while window.undo_stack.canUndo():
            window.undo_stack.undo()
        assert scenario_to_json(window.session.state.scenario) == start, "undo does not lead back"
    except BaseException:
        print("\n".join(monkey.done), file=sys.stderr)
        raise
    return monkey


def main() -> None:
    parser = argparse.ArgumentParser(description="Random edits to the window.")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    problems: list[str] = []
    app = make_application()
    sys.excepthook = lambda kind, error, _trace: problems.append(f"{kind.__name__}: {error}")
    qInstallMessageHandler(
        lambda kind, _context, text: (
            problems.append(text) if kind != QtMsgType.QtDebugMsg and not text.startswith(IGNORED) else None
        )
    )
    QMessageBox.exec = lambda _box: QMessageBox.StandardButton.Discard
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat))
        window = build_window(app, settings)
        window.show()
        monkey = play(window, Path(folder), asked.steps, asked.seed)
        window.undo_stack.setClean()
        window.close()
    if problems:
        sys.exit("\n".join([*monkey.done, *problems[:20]]))
    print(f"{asked.steps} steps, nothing broke")


if __name__ == "__main__":
    main()
