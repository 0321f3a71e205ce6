"""`vram-planner render`: the chart as a picture."""

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.arguments import ScenarioFile, Unit


def command(
    scenario: ScenarioFile,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", help="The file to write; its ending (.png, .svg, .pdf) is the format.")
    ],
    unit: Unit = "GiB",
) -> None:
    """Draw the chart of a plan into a PNG, SVG or PDF file."""
    from planner.chart.paint.export import export_chart
    from planner.cli.planning import chart_of, plan_file

    export_chart(chart_of(plan_file(scenario), unit), picture)
