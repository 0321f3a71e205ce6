"""Opening the window, and saying so in a sentence where there is no screen."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from planner.errors import PlannerError

NO_SCREEN = (
    "there is no screen to open the window on. The commands work without one: try `vram-planner estimate FILE`, "
    "or `vram-planner --help`."
)


def command(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="A plan (*.vramplan) or a model's config.json to open.")] = None,
    exit_after_first_paint: Annotated[
        bool, typer.Option("--exit-after-first-paint", help="Leave once the window is painted.")
    ] = False,
) -> None:
    """Open the window."""
    if file is not None and not file.exists():
        raise PlannerError(f"there is no command and no file named {str(file)!r}. `vram-planner --help` lists both.")
    if not has_screen():
        raise PlannerError(NO_SCREEN)
    raise typer.Exit(context.obj(file, exit_after_first_paint))


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
