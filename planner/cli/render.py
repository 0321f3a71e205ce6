"""`vram-planner render`: a chart as a picture."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from planner.cli.arguments import ScenarioFile, Unit

View = Literal["lifecycle", "host-storage"]


def command(
    scenario: ScenarioFile,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", help="The file to write; its ending (.png, .svg, .pdf) is the format.")
    ],
    unit: Unit = "GiB",
    view: Annotated[
        View, typer.Option("--view", help="Draw VRAM by phase, or host RAM and storage by phase.")
    ] = "lifecycle",
) -> None:
    """Draw a chart of a plan into a PNG, SVG or PDF file."""
    from planner.chart.host import host_charts
    from planner.chart.paint.export import export_chart
    from planner.cli.planning import chart_of, plan_file

    planning = plan_file(scenario)
    export_chart(host_charts(planning.plan, unit=unit) if view == "host-storage" else chart_of(planning, unit), picture)
