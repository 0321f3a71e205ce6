"""A bar for work that takes seconds, on the error stream, so that results stay clean."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Tell = Callable[[int, int], None]
"""Hears how much is done, and of how much."""


@contextmanager
def bar(title: str) -> Iterator[Tell]:
    """Show a bar until the work is done; nothing where the error stream is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:  # a disabled bar would still end its line, before rich 15
        yield lambda _done, _most: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=None)

        def tell(done: int, most: int) -> None:
            progress.update(task, completed=done, total=most)

        yield tell
