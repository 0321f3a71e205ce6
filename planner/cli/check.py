"""`vram-planner check`: does it fit? For scripts, by exit status."""

from typing import Annotated

import typer

from planner.cli.arguments import ScenarioFile, Unit


def command(
    scenario: ScenarioFile,
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="ID", help="Judge by this GPU instead of the plan's own.")
    ] = None,
    unit: Unit = "GiB",
) -> None:
    """Say whether every phase fits the judging GPU, and the server's RAM and disks where they are known.

    Exit status 0: it does; 1: out of memory or disk; 2: cannot be told of the GPU.
    """
    from planner.chart.names import PHASE_NAMES
    from planner.cli.console import stdout
    from planner.cli.planning import plan_file
    from planner.cli.verdicts import verdict_line
    from planner.engine.plan import programme

    planning = plan_file(scenario, gpu)
    judge = planning.judge
    console = stdout()
    verdicts = {name: phase.verdicts[judge] for name, phase in planning.plan.phases.items()}
    for name, verdict in verdicts.items():
        console.print(f"{PHASE_NAMES[name]} on {judge}: {verdict_line(verdict, unit)}")
    whole = programme(planning.plan.phases)
    rooms = {"Host RAM": whole.host_verdict, "Storage": whole.storage_verdict}
    known = {name: verdict for name, verdict in rooms.items() if verdict is not None}
    for room, verdict in known.items():
        console.print(f"{room}: {verdict_line(verdict, unit)}")
    kinds = {verdict.verdict for verdict in verdicts.values()}
    if "oom" in kinds | {verdict.verdict for verdict in known.values()}:
        raise typer.Exit(1)
    if "unknown" in kinds:
        raise typer.Exit(2)
