"""`vram-planner render`: a chart as a picture."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli.arguments import ScenarioFile, Unit
from planner.errors import PlannerError

View = Literal["lifecycle", "timeline", "host-storage"]


def command(
    scenario: ScenarioFile,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", help="The file to write; its ending (.png, .svg, .pdf) is the format.")
    ],
    unit: Unit = "GiB",
    view: Annotated[
        View, typer.Option("--view", help="Draw VRAM by phase, over a step of one phase, or host RAM and storage.")
    ] = "lifecycle",
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="PHASE", help="The phase whose step the timeline shows.")
    ] = None,
) -> None:
    """Draw a chart of a plan into a PNG, SVG or PDF file."""
    from planner.chart.host import host_charts
    from planner.chart.paint.export import export_chart
    from planner.cli.planning import chart_of, plan_file, timeline_of

    if phase is not None and view != "timeline":
        raise PlannerError("--phase belongs to --view timeline; the other charts show every phase.")
    planning = plan_file(scenario)
    if view == "host-storage":
        export_chart(host_charts(planning.plan, unit=unit), picture)
    else:
        export_chart(timeline_of(planning, phase, unit) if view == "timeline" else chart_of(planning, unit), picture)
