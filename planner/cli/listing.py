"""Lists that were searched for: GPUs and models."""

from collections.abc import Iterable, Sequence

from rich.markup import escape
from rich.table import Table

from planner.cli.console import stdout


def print_listing(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), nothing: str
) -> None:
    """Print rows under their titles, the columns in `numbers` to the right; `nothing` where there are no rows."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, title in enumerate(titles):
        table.add_column(title, justify="right" if position in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    stdout().print(table if table.row_count else nothing)
