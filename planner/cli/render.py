"""`vram-planner render`: a chart as a picture."""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from planner.cli.arguments import ScenarioFile, Unit
from planner.errors import PlannerError

if TYPE_CHECKING:
    from planner.chart.spec import ChartSpec
    from planner.cli.planning import Planning
    from planner.units import SizeUnit

View = Literal["lifecycle", "timeline", "explore", "host-storage"]
OF_ONE_PHASE: tuple[View, ...] = ("timeline", "explore")


def command(
    scenario: ScenarioFile,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", help="The file to write; its ending (.png, .svg, .pdf) is the format.")
    ],
    unit: Unit = "GiB",
    view: Annotated[
        View,
        typer.Option(
            "--view",
            help="Draw VRAM by phase, over a step of one phase, over the values of one field, or host RAM and storage.",
        ),
    ] = "lifecycle",
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="PHASE", help="The phase that timeline or explore shows.")
    ] = None,
    field: Annotated[
        str | None,
        typer.Option("--field", metavar="FIELD", help="The field that explore varies, such as micro_batch_size."),
    ] = None,
    size: Annotated[
        str, typer.Option("--size", metavar="WIDTHxHEIGHT", help="Of each chart, in 1/96 inch.")
    ] = "960x560",
    scale: Annotated[float, typer.Option("--scale", min=0.25, max=8, help="Pixels of a PNG for each 1/96 inch.")] = 2.0,
    transparent: Annotated[bool, typer.Option("--transparent", help="Leave out the white background.")] = False,
    patterns: Annotated[bool, typer.Option("--patterns", help="Hatch the components, for grey printers.")] = False,
    outlines: Annotated[
        bool, typer.Option("--outlines", help="Draw letters as shapes, for machines without the font.")
    ] = False,
    bare: Annotated[
        bool, typer.Option("--bare", help="Leave out the lines with the model, the assumptions and the date.")
    ] = False,
) -> None:
    """Draw a chart of a plan into a PNG, SVG or PDF file. Needs no display."""
    from planner.chart.paint.export import export_chart
    from planner.cli.planning import plan_file
    from planner.report.imprint import imprint

    if phase is not None and view not in OF_ONE_PHASE:
        raise PlannerError("--phase belongs to --view timeline or explore; the other charts show every phase.")
    if field is not None and view != "explore":
        raise PlannerError("--field belongs to --view explore.")
    width, height = _size(size)
    planning = plan_file(scenario)
    charts = _charts(planning, view, phase, field, unit)
    export_chart(
        charts,
        picture,
        width=width,
        height=height,
        scale=scale,
        transparent=transparent,
        patterns=patterns,
        outlines=outlines,
        imprint=() if bare else imprint(planning.scenario, planning.plan, charts, datetime.now().astimezone()),
    )


def _charts(
    planning: "Planning", view: View, phase: str | None, field: str | None, unit: "SizeUnit"
) -> "Sequence[ChartSpec]":
    from planner.chart.host import host_charts
    from planner.cli.planning import chart_of, exploration_of, timeline_of

    match view:
        case "host-storage":
            return host_charts(planning.plan, unit=unit)
        case "timeline":
            return (timeline_of(planning, phase, unit),)
        case "explore":
            return (exploration_of(planning, phase, field, unit),)
        case _:
            return (chart_of(planning, unit),)


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{2,5})[x×](\d{2,5})", text)
    if found is None:
        raise PlannerError(f"A size is written as 1280x720, not “{text}”.")
    return int(found[1]), int(found[2])
