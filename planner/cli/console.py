"""How results reach a terminal."""

import sys

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 140


def stdout() -> Console:
    """A console that does not squeeze tables to 80 columns when its output goes to a file."""
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False)
