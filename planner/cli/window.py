"""Opening the window, and saying so in a sentence where there is no screen."""

import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from planner.errors import PlannerError

FIRST_PAINT_OPTION = "--exit-after-first-paint"
NO_SCREEN = (
    "there is no screen to open the window on. The commands work without one: try `vram-planner estimate FILE`, "
    "or `vram-planner --help`."
)

WindowOpener = Callable[[Path | None, bool], int]
"""Opens the window with a file, and closes it once it is painted where the second argument says so."""


def start(arguments: Sequence[str], open_window: WindowOpener) -> int:
    """Open the window with the file among the arguments, if there is one; returns its exit status."""
    files = [Path(text) for text in arguments if not text.startswith("-")]
    if len(files) > 1:
        raise PlannerError(f"the window opens one file at a time, and {len(files)} are named.")
    if files and not files[0].exists():
        raise PlannerError(f"there is no command and no file named '{files[0]}'. `vram-planner --help` lists both.")
    if not has_screen():
        raise PlannerError(NO_SCREEN)
    return open_window(files[0] if files else None, FIRST_PAINT_OPTION in arguments)


def has_screen() -> bool:
    """Whether Qt will find a display; without one it ends the whole process, so it must not be tried."""
    if not sys.platform.startswith(("linux", "freebsd")) or os.environ.get("QT_QPA_PLATFORM"):
        return True
    if os.environ.get("WAYLAND_DISPLAY"):
        return True
    display = os.environ.get("DISPLAY", "")
    return bool(display) and _x_server_answers(display)


def _x_server_answers(display: str) -> bool:
    """Whether a server of this machine (`:0`, `unix:0.0`) accepts connections; one elsewhere is taken on trust."""
    host, _, number = display.rpartition(":")
    if host not in ("", "unix"):
        return True
    path = f"/tmp/.X11-unix/X{number.split('.')[0]}"
    for address in ("\0" + path, path):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(address)
            except OSError:
                continue
            return True
    return False
