import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner import __version__
from planner.cli import failures, window
from planner.cli.run import run

ROOT = Path(__file__).resolve().parent.parent.parent


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a process of its own, without a screen."""
    inherited = {
        key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    }
    return subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**inherited, **environment},
        timeout=120,
    )


def test_the_version_is_printed(command):
    assert command("--version").out == f"vram-planner {__version__}\n"


def test_the_help_lists_every_command(command):
    help_text = command("--help").out
    for name in ("estimate", "check", "advise", "sweep", "render", "validate", "gpus", "models", "--self-test"):
        assert name in help_text


def test_a_wrong_option_is_explained(command):
    outcome = command("estimate", "x", "--jsn")
    assert outcome.status == 2
    assert "--jsn" in outcome.err


def test_a_word_that_is_neither_command_nor_file_is_explained(command):
    outcome = command("estimat")
    assert outcome.status == 2
    assert (
        outcome.err
        == "vram-planner: there is no command and no file named 'estimat'. `vram-planner --help` lists both.\n"
    )


def test_without_a_command_the_window_is_opened_with_the_file(monkeypatch: pytest.MonkeyPatch, plan_file: Path):
    monkeypatch.setattr(window, "has_screen", lambda: True)
    opened: list[tuple[Path | None, bool]] = []

    def opener(file: Path | None, exit_after_first_paint: bool) -> int:
        opened.append((file, exit_after_first_paint))
        return 0

    assert run([], opener) == 0
    assert run([str(plan_file), "--exit-after-first-paint"], opener) == 0
    assert opened == [(None, False), (plan_file, True)]


def test_the_status_of_the_window_is_passed_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(window, "has_screen", lambda: True)
    assert run([], lambda _file, _exit: 5) == 5


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a screen to try")
def test_without_a_screen_the_window_says_so_in_a_sentence():
    done = start()
    assert done.returncode == 2
    assert done.stderr == f"vram-planner: {window.NO_SCREEN}\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="X11")
def test_a_display_that_does_not_answer_is_no_screen():
    done = start(DISPLAY=":987")
    assert (done.returncode, "no screen" in done.stderr) == (2, True)


def test_an_unexpected_error_is_logged_and_told_in_one_message(command, monkeypatch, tmp_path):
    log = tmp_path / "logs" / "errors.log"
    monkeypatch.setattr(failures, "log_file", lambda: log)
    monkeypatch.setattr("planner.hardware.load_hardware", lambda: 1 / 0)
    outcome = command("gpus")
    assert outcome.status == 3
    assert "ZeroDivisionError" in outcome.err
    assert str(log) in outcome.err
    assert "Traceback" not in outcome.err
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_an_unexpected_error_is_told_even_when_the_log_cannot_be_written(command, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(failures, "log_file", lambda: tmp_path / "file" / "errors.log")
    monkeypatch.setattr("planner.hardware.load_hardware", lambda: 1 / 0)
    outcome = command("gpus")
    assert outcome.status == 3
    assert "could not be written" in outcome.err


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_goes_away_causes_no_traceback():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "planner", "gpus", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=120,
        )
    assert done.stderr == b""


def test_listing_gpus_imports_neither_qt_nor_numpy():
    code = (
        "import sys; from planner.cli.run import run; run(['gpus', 'h100'], None);"
        "print([name for name in ('PySide6', 'pyqtgraph', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"


def test_estimating_imports_no_qt(plan_file: Path):
    code = (
        f"import sys; from planner.cli.run import run; run(['estimate', {str(plan_file)!r}], None);"
        "print([name for name in ('PySide6', 'pyqtgraph') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"
