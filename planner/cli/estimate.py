"""`vram-planner estimate`: what each phase needs, and whether it fits."""

import json
import sys
from typing import Annotated

import typer

from planner.cli.arguments import AsJson, ScenarioFile, Unit


def command(
    scenario: ScenarioFile,
    as_json: AsJson = False,
    unit: Unit = "GiB",
    host: Annotated[bool, typer.Option("--host", help="Show what host RAM and storage are made of, too.")] = False,
) -> None:
    """Print what each phase of a plan needs per GPU, and whether it fits."""
    from planner.cli.planning import plan_file

    planning = plan_file(scenario)
    if as_json:
        json.dump(planning.plan.to_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from planner.cli.plan_tables import print_plan

    print_plan(planning, unit, host=host)
