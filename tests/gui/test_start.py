"""Starting the program: with a display, with none, with a file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")


def start(*arguments, wrapper=(), **environment):
    kept = {key: value for key, value in os.environ.items() if key not in DISPLAY_VARIABLES}
    return subprocess.run(
        [*wrapper, sys.executable, "-m", "planner", *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these always have a display")
def test_without_a_display_one_sentence_says_so():
    done = start()
    assert done.returncode == 2
    assert "no screen" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_it_ends_once_the_chart_is_painted():
    done = start("--exit-after-first-paint", QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_picture_needs_neither_engine_nor_plot():
    """They take longer to import than Qt, so a remembered chart is on screen before."""
    code = (
        "import sys\n"
        "from planner.gui.app import run\n"
        "from planner.gui.application import build_frame, make_application\n"
        "window = build_frame(make_application())\n"
        "window.show()\n"
        "slow = {'pyqtgraph', 'pydantic', 'planner.scenario', 'planner.engine.estimate'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pyqtgraph_is_imported_after_the_first_picture():
    code = (
        "import sys\n"
        "from planner.gui.application import build_window, make_application\n"
        "window = build_window(make_application())\n"
        "window.show()\n"
        "assert 'pyqtgraph' not in sys.modules\n"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_screenshots_of_the_readme_are_taken_by_a_script(tmp_path):
    script = Path(__file__).with_name("screenshots.py")
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    subprocess.run([sys.executable, script, tmp_path], env=environment, capture_output=True, check=True, timeout=120)
    lifecycle = {"light.png", "dark.png", "oom.png", "small.png"}
    host = {"host.png", "host-dark.png", "host-small.png", "host-long-names.png"}
    views = ("timeline", "explore", "fleet", "advice", "compare")
    further = {f"{view}{suffix}.png" for view in views for suffix in ("", "-dark")}
    assert {path.name for path in tmp_path.glob("*.png")} == lifecycle | host | further


@pytest.mark.x11
@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="needs xvfb-run")
def test_it_starts_on_a_real_x_server():
    screen = ("xvfb-run", "-a", "-s", "-screen 0 1280x720x24")
    done = start("--exit-after-first-paint", wrapper=screen)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "patched", ["planner.gui.main_window.MainWindow.__init__", "planner.gui.panels.why_panel.why_html"]
)
def test_an_error_at_the_start_ends_the_program_where_nobody_would_read_a_message(patched):
    code = (
        "import sys\n"
        "from unittest.mock import patch\n"
        "from planner.gui.app import run\n"
        f"with patch({patched!r}, side_effect=ZeroDivisionError('by zero')):\n"
        "    sys.exit(run(None, exit_after_first_paint=True))\n"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "XDG_CACHE_HOME": os.devnull}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3, done.stderr
    assert "an unforeseen error, ZeroDivisionError: by zero" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_model_ends_the_program_where_nobody_would_read_a_message(tmp_path):
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"nothing")
    done = start(str(path), "--exit-after-first-paint", QT_QPA_PLATFORM="offscreen")
    assert done.returncode == 3, done.stderr
    assert "no GGUF file" in done.stderr
