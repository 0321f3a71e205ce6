"""A person at a virtual screen: starts the window, picks a model, saves plan and picture by keys, and leaves."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from root import Root

_DISPLAY = ":77"
_PATIENCE_SECONDS = 30


def plan_something(root: Root, program: str, picture: Path) -> None:
    """Plan a model by keys alone; the screen is photographed into `picture`. Raises `AssertionError`."""
    root.run("rm", "-f", "/tmp/own.vramplan", "/tmp/own.png")  # a file that is there would be asked about
    with _screen():
        window = root.start(program, DISPLAY=_DISPLAY)
        try:
            _use(root, window, picture)
        finally:
            window.kill()


def _use(root: Root, window: "subprocess.Popen[str]", picture: Path) -> None:
    _wait(lambda: "VRAM Planner" in _titles(), "the window does not come up")
    time.sleep(2)
    _keys("ctrl+m")
    time.sleep(1)
    _type("qwen3-0.6b")
    time.sleep(1)
    _keys("Return")
    _wait(lambda: "*" in _titles(), "picking a model did not change the plan")
    _save(root, "ctrl+s", "/tmp/own.vramplan")
    assert '"Qwen/Qwen3-0.6B"' in (root.folder / "tmp/own.vramplan").read_text(), "another model was saved"
    subprocess.run(["import", "-display", _DISPLAY, "-window", "root", str(picture)], check=True)
    _save(root, "ctrl+e", "/tmp/own.png", asks="Return")  # first how large, and on which ground
    _keys("ctrl+q")
    assert window.wait(_PATIENCE_SECONDS) == 0, "the program ended with an error"


def _save(root: Root, keys: str, path: str, asks: str = "") -> None:
    _keys(keys)
    time.sleep(1.5)
    if asks:
        _keys(asks)
        time.sleep(1.5)
    _keys("ctrl+a")
    _type(path)
    _keys("Return")
    _wait(lambda: root.has(path.lstrip("/")), f"{path} was not written")
    time.sleep(1)


@contextmanager
def _screen() -> Iterator[None]:
    """A virtual screen with a window manager, without which no window would get the keys."""
    server = subprocess.Popen(["Xvfb", _DISPLAY, "-screen", "0", "1440x900x24", "-nolisten", "tcp"])
    try:
        _wait(lambda: not _xdotool("getdisplaygeometry")[0], "the virtual screen does not come up")
        manager = _manager()
        try:
            yield
        finally:
            manager.kill()
            manager.wait()
    finally:
        server.terminate()
        server.wait()


def _manager() -> "subprocess.Popen[bytes]":
    """The window manager; a screen that has just come up may turn it away."""
    for _ in range(_PATIENCE_SECONDS):
        started = subprocess.Popen(["openbox"], env={"DISPLAY": _DISPLAY}, stderr=subprocess.DEVNULL)
        time.sleep(1)
        if started.poll() is None:
            return started
    raise AssertionError("the window manager does not stay on the virtual screen")


def _wait(ready: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not ready():
        assert time.monotonic() < end, otherwise
        time.sleep(0.2)


def _titles() -> str:
    _, ids = _xdotool("search", "--onlyvisible", "--name", ".")
    return "\n".join(_xdotool("getwindowname", each)[1] for each in ids.split())


def _keys(keys: str) -> None:
    _xdotool("key", "--clearmodifiers", keys)


def _type(text: str) -> None:
    _xdotool("type", "--delay", "20", text)


def _xdotool(*arguments: str) -> tuple[int, str]:
    command = ["xdotool", *arguments]
    done = subprocess.run(command, env={"DISPLAY": _DISPLAY}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout
