"""`vram-planner report`: a plan written down for a design review."""

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.arguments import ScenarioFile, Unit
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.cli.planning import Planning
    from planner.report.findings import Findings


def command(
    scenario: ScenarioFile,
    report: Annotated[
        Path,
        typer.Argument(
            metavar="REPORT",
            help="The file to write; its ending (.html, .pdf, .md, .xlsx, .pptx, .csv) is the format.",
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
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Leave out what takes seconds: advice, GPUs needed and measured cases."),
    ] = False,
) -> None:
    """Write a report: summary, charts, verdicts, assumptions, every term with its formula and source.

    It also says what would make a phase fit that does not, how many GPUs each phase needs, and how near the engine
    was to measured cases like it; `--quick` leaves these out.
    """
    from planner.cli.planning import plan_file
    from planner.cli.progress import bar
    from planner.report.logo import read_logo
    from planner.report.parts import Template
    from planner.report.tables import NOTHING_FOUND, build_report
    from planner.report.write import check_target, write_report

    check_target(report)
    _ask(report, force)
    planning = plan_file(scenario)
    template = Template(company, author, reviewer, status, notes, logo)
    if logo is not None:
        read_logo(logo)
    found = build_report(
        planning.scenario,
        planning.plan,
        planning.catalog,
        created=datetime.now().astimezone(),
        template=template,
        notes=planning.warnings,
        unit=unit,
        findings=NOTHING_FOUND if quick else _search(planning),
    )
    with bar(f"Writing {report.name}") as tell:
        write_report(found, report, tell)


def _search(planning: "Planning") -> "Findings":
    """Everything that takes seconds, with a bar for each part of it."""
    from planner.cli.progress import bar
    from planner.evidence.alike import cases_alike
    from planner.report.findings import Findings, search_advice, search_fleet

    scenario, plan, catalog = planning.scenario, planning.plan, planning.catalog
    with bar("What would make it fit") as tell:
        advice = search_advice(scenario, plan, catalog, lambda _what, done, most: tell(done, most))
    with bar("GPUs needed") as tell:
        fleet = search_fleet(scenario, catalog, lambda _what, done, most: tell(done, most))
    with bar("Measured cases like it") as tell:
        alike = cases_alike(scenario, plan, tell)
    return Findings(advice, fleet, alike)


def _ask(path: Path, force: bool) -> None:
    """An existing file is replaced only by somebody who says so."""
    if force or not path.exists():
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise PlannerError(f"{path} exists already. Choose another name, or add --force to replace it.")
    if not typer.confirm(f"{path} exists already. Replace it?"):
        raise PlannerError(f"{path} was left as it is.")
