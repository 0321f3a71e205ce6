"""`vram-planner advise`: what would make a phase fit, and the largest sizes that do."""

import json
import sys
from typing import Annotated

import typer

from planner.cli.arguments import AsJson, ScenarioFile, Unit


def command(
    scenario: ScenarioFile,
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="ID", help="Advise for this GPU instead of the plan's own.")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="PHASE", help="Only this phase; every planned one, when none.")
    ] = None,
    as_json: AsJson = False,
    unit: Unit = "GiB",
) -> None:
    """Say what would make each phase fit, least disturbing first, and the largest sizes with which it fits.

    Every suggestion is estimated: what it promises is what `estimate` finds once it is applied.
    """
    from planner.chart.names import PHASE_NAMES
    from planner.cli.advice_json import advice_json
    from planner.cli.axes import phase_named
    from planner.cli.planning import plan_file
    from planner.cli.progress import bar
    from planner.engine.advisor import advise
    from planner.engine.limits import limits

    planning = plan_file(scenario, gpu)
    chosen = tuple(planning.plan.phases) if phase is None else (phase_named(planning.scenario, phase),)
    found = []
    for name in chosen:
        with bar(f"{PHASE_NAMES[name]}: combinations") as tell:
            advice = advise(planning.scenario, name, planning.catalog, tell=tell)
        found.append((advice, limits(planning.scenario, name, planning.catalog)))
    if as_json:
        json.dump(advice_json(found), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from planner.cli.advice_tables import print_advice

    for advice, sizes in found:
        print_advice(advice, sizes, unit)
