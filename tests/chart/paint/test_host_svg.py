"""Host RAM and storage in one SVG, read back as data: each chart in its half, to the scale of its own axis."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import Element, parse

import pytest

from planner.chart.host import host_charts
from planner.chart.paint.export import export_chart
from planner.chart.palette import COMPONENT_COLOURS
from planner.engine.plan import Plan, Room
from planner.units import GIB

SVG = "{http://www.w3.org/2000/svg}"
HEIGHT = 560
TOO_SMALL = Room("box", 50 * GIB, 150 * GIB)
HATCH, GRID = "#c0262d", "#eceff3"


def horizontal(root: Element, colour: str, top: float) -> list[float]:
    """Heights of straight lines of a colour in the chart that begins at `top`."""
    found = []
    for group in (group for group in root.iter(f"{SVG}g") if group.get("stroke") == colour):
        for line in group.findall(f"{SVG}polyline"):
            _, y1, _, y2 = (float(number) for number in re.split(r"[ ,]+", line.get("points", "").strip()))
            found += [y for y in (y1, y2) if top <= y < top + HEIGHT]
    return found


def heights(root: Element, colour: str, top: float) -> list[float]:
    """Heights of the filled rectangles of a colour, without the legend's, in the chart that begins at `top`."""
    groups = (group for group in root.iter(f"{SVG}g") if group.get("fill") == colour.lower())
    rects = [rect for group in groups for rect in group.findall(f"{SVG}rect")]
    here = [rect for rect in rects if top <= float(rect.get("y", "")) < top + HEIGHT]
    return [float(rect.get("height", "")) for rect in here[1:]]


@pytest.mark.parametrize("index", [0, 1])
def test_bars_and_hatching_are_to_the_scale_of_their_axis(
    host_plan: Callable[..., Plan], tmp_path: Path, index: int
) -> None:
    charts = host_charts(host_plan(TOO_SMALL))
    path = tmp_path / "chart.svg"
    export_chart(charts, path)
    root = parse(path).getroot()
    spec, top = charts[index], index * HEIGHT
    grid = sorted(set(horizontal(root, GRID, top)), reverse=True)
    step = spec.axis.ticks[1].value_bytes
    per_byte = (grid[0] - grid[-1]) / (step * (len(spec.axis.ticks) - 1))
    for entry in spec.legend:
        sizes = [part.size_bytes for bar in spec.bars for part in bar.segments if part.component == entry.component]
        shown = heights(root, COMPONENT_COLOURS[entry.component], top)
        assert shown == [pytest.approx(size * per_byte, abs=0.5) for size in sizes]
    assert spec.judge
    limit = grid[0] - spec.judge.capacity_bytes * per_byte
    over = horizontal(root, HATCH, top)
    assert len(over) > 10
    assert max(over) == pytest.approx(limit, abs=0.5)
