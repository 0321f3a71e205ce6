"""Lists that can be searched: GPUs and models."""

from collections.abc import Iterable, Sequence


def matches(search: str, *texts: str) -> bool:
    """Whether every word of `search` stands in one of the texts, in any case."""
    joined = " ".join(texts).lower()
    return all(word in joined for word in search.lower().split())


def print_listing(
    titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = (), nothing: str
) -> None:
    """Print rows under their titles, the columns in `numbers` to the right; `nothing` where there are no rows."""
    from rich.table import Table

    from planner.cli.console import stdout

    table = Table(box=None, header_style="bold", pad_edge=False)
    for position, title in enumerate(titles):
        table.add_column(title, justify="right" if position in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    stdout().print(table if table.row_count else nothing)
