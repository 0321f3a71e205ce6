import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.main import app
from planner.cli.run import COMMANDS, opens_window

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_command_is_known_to_the_starter():
    assert {command.name for command in app.registered_commands} == set(COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["plan.vramplan"],
        ["--exit-after-first-paint"],
        ["--exit-after-first-paint", "plan.vramplan"],
        ["plan.vramplan", "--exit-after-first-paint"],
    ],
)
def test_without_a_command_the_window_opens(arguments: list[str]):
    assert opens_window(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["estimate", "plan.vramplan"],
        ["check", "plan.vramplan", "--gpu", "l40s"],
        ["--version"],
        ["--help"],
        ["-h"],
        ["--self-test"],
        ["--frobnicate"],
    ],
)
def test_commands_and_other_options_do_not_open_it(arguments: list[str]):
    assert not opens_window(arguments)


def test_the_window_starts_without_the_machinery_of_the_commands():
    code = (
        "import sys, planner.cli.window as window; window.has_screen = lambda: True;"
        "from planner.cli.run import run; assert run([], lambda file, leave: 0) == 0;"
        "print([name for name in ('typer', 'rich', 'numpy', 'pydantic', 'PySide6') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout == "[]\n"
