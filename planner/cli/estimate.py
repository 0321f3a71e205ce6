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
    speed: Annotated[
        bool, typer.Option("--speed", help="Show what the rough speed of each phase is made of, also in JSON.")
    ] = False,
) -> None:
    """Print what each phase of a plan needs per GPU, whether it fits, and roughly how fast it is at best."""
    from planner.cli.planning import plan_file, speeds_of

    planning = plan_file(scenario)
    if as_json:
        told = planning.plan.to_json()
        for found in speeds_of(planning) if speed else ():
            told["phases"][found.phase]["speed"] = found.to_json()
        json.dump(told, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from planner.cli.plan_tables import print_plan
    from planner.cli.speed_tables import print_speeds

    print_plan(planning, unit, host=host)
    print_speeds(speeds_of(planning), formulas=speed)
