"""`vram-planner report`: a plan written down for a design review."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.arguments import ScenarioFile, Unit
from planner.errors import PlannerError


def command(
    scenario: ScenarioFile,
    report: Annotated[
        Path,
        typer.Argument(
            metavar="REPORT",
            help="The file to write; its ending (.html, .pdf, .md, .xlsx, .csv) is the format.",
        ),
    ],
    unit: Unit = "GiB",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file without asking.")] = False,
    company: Annotated[str, typer.Option("--company", help="Whose report it is.")] = "",
    author: Annotated[str, typer.Option("--author", help="Who made it.")] = "",
    reviewer: Annotated[str, typer.Option("--reviewer", help="Who reviews it.")] = "",
    status: Annotated[str, typer.Option("--status", help="How far it has got, such as “draft”.")] = "",
    notes: Annotated[str, typer.Option("--notes", help="Further words for its first page.")] = "",
    logo: Annotated[Path | None, typer.Option("--logo", help="A PNG, JPEG or SVG picture for its head.")] = None,
) -> None:
    """Write a report: summary, charts, verdicts, assumptions, every term with its formula and source."""
    from planner.cli.planning import plan_file
    from planner.report.parts import Template
    from planner.report.tables import build_report
    from planner.report.write import check_target, write_report

    check_target(report)
    _ask(report, force)
    planning = plan_file(scenario)
    template = Template(company, author, reviewer, status, notes, logo)
    found = build_report(
        planning.scenario,
        planning.plan,
        planning.catalog,
        created=datetime.now().astimezone(),
        template=template,
        notes=planning.warnings,
        unit=unit,
    )
    write_report(found, report)


def _ask(path: Path, force: bool) -> None:
    """An existing file is replaced only by somebody who says so."""
    if force or not path.exists():
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise PlannerError(f"{path} exists already. Choose another name, or add --force to replace it.")
    if not typer.confirm(f"{path} exists already. Replace it?"):
        raise PlannerError(f"{path} was left as it is.")
