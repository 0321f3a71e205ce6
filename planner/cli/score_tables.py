"""Scores as tables for a terminal."""

from rich.markup import escape
from rich.table import Table

from planner.cli.console import stdout
from planner.evidence.score import CaseScore, Score
from planner.evidence.summary import NumberSummary, VerdictSummary, agrees


def print_score(score: Score, *, with_cases: bool) -> None:
    """Print one corpus: each expectation when asked for, what failed, and the summary per path."""
    console = stdout()
    console.print(f"[bold]{escape(score.name)}[/]  {len(score.cases)} cases")
    if with_cases and score.cases:
        console.print(_cases_table(score.cases))
    for case in score.cases:
        if case.failure is not None:
            console.print(f"[red]failed[/] {escape(case.id)}: {escape(case.failure)}")
    numbers = [row for row in score.summary if isinstance(row, NumberSummary)]
    verdicts = [row for row in score.summary if isinstance(row, VerdictSummary)]
    if numbers:
        console.print(_numbers_table(numbers))
    if verdicts:
        console.print(_verdicts_table(verdicts))


def _cases_table(cases: tuple[CaseScore, ...]) -> Table:
    table = Table(title="Cases", title_justify="left", title_style="bold")
    table.add_column("Case", overflow="fold")
    table.add_column("Figure", overflow="fold")
    for name in ("Expected", "Estimated", "Error"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in cases:
        for result in case.results:
            estimated = "–" if result.estimated is None else _value(result.estimated)
            if isinstance(result.expected, str):
                error = "agrees" if agrees(result.expected, result.estimated) else "[red]differs[/]"
            else:
                error = "–" if result.error is None else f"{result.error:+.2%}"
            table.add_row(escape(case.id), result.path, _value(result.expected), estimated, error)
    return table


def _numbers_table(rows: list[NumberSummary]) -> Table:
    table = Table(title="Errors", title_justify="left", title_style="bold")
    table.add_column("Figure", overflow="fold")
    for name in ("Count", "Missing", "Median", "90 %", "Largest", "Bias"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        errors = (row.median, row.p90, row.largest)
        bias = "–" if row.bias is None else f"{row.bias:+.2%}"
        shares = ("–" if error is None else f"{error:.2%}" for error in errors)
        table.add_row(row.path, str(row.count), str(row.missing or ""), *shares, bias)
    return table


def _verdicts_table(rows: list[VerdictSummary]) -> Table:
    table = Table(title="Verdicts", title_justify="left", title_style="bold")
    table.add_column("Verdict", overflow="fold")
    for name in ("Count", "Missing", "Agree", "Tight"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shares = ("–" if share is None else f"{share:.0%}" for share in (row.agreement, row.tight))
        table.add_row(row.path, str(row.count), str(row.missing or ""), *shares)
    return table


def _value(value: int | float | str) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)
