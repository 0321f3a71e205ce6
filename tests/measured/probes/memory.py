"""How much memory processes hold, exactly, as Linux counts it page by page."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def anonymous() -> int:
    """Bytes of this process that no file backs."""
    rollup = Path("/proc/self/smaps_rollup").read_text("ascii")
    (line,) = (line for line in rollup.splitlines() if line.startswith("Anonymous:"))
    return int(line.split()[1]) * 1024


def own(process: int) -> int:
    """Bytes that a process does not share with the one it was forked from, outside shared memory."""
    total, shared = 0, False
    for line in Path(f"/proc/{process}/smaps").read_text("utf-8").splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            shared = "/dev/shm/" in rest
        elif name == "Private_Dirty:" and not shared:
            total += int(rest.split()[0]) * 1024
    return total


def growth(make: Callable[[], Any]) -> tuple[int, Any]:
    """What is held once `make` is done, and what it made."""
    gc.collect()
    before = anonymous()
    made = make()
    return anonymous() - before, made


def highest(work: Callable[[], object]) -> int:
    """What `work` takes at its fullest."""
    gc.collect()
    seen, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            seen.append(anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return max(seen) - seen[0]
