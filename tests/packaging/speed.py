"""How long the frozen program takes to its first window, against the same from source."""

import os
import subprocess
import time
from pathlib import Path

_TRIES = 5


def slower_than_source(frozen: Path, python: Path) -> float:
    """The ratio of the shortest times of several starts, taken in turn on the same machine."""
    commands = ([str(frozen)], [str(python), "-m", "planner"])
    times = [
        min(pair) for pair in zip(*[[_start(command) for command in commands] for _ in range(_TRIES)], strict=True)
    ]
    return times[0] / times[1]


def _start(command: list[str]) -> float:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    begin = time.perf_counter()
    subprocess.run([*command, "--exit-after-first-paint"], env=environment, check=True, capture_output=True)
    return time.perf_counter() - begin
