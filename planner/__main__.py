"""The one place that puts the commands and the window together: `vram-planner`, or `python -m planner`."""

import signal
import sys
from pathlib import Path

from planner.cli.run import run


def open_window(file: Path | None, exit_after_first_paint: bool) -> int:
    """Start the window; Qt is imported here and not before."""
    from planner.gui.app import run as run_window

    return run_window(file, exit_after_first_paint)


def main() -> None:
    """Entry point of `vram-planner` and `vram-planner-gui`."""
    if hasattr(signal, "SIGPIPE"):
        # `vram-planner gpus | head -1` ends quietly, as other command line tools do.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run(sys.argv[1:], open_window))


if __name__ == "__main__":
    main()
