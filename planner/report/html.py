"""A report as one HTML file that needs nothing else: charts are drawn inside it, and the scenario is embedded."""

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from planner.chart.formula import formula
from planner.chart.names import COMPONENT_NAMES
from planner.chart.paint.export import chart_svg
from planner.report.logo import logo_uri
from planner.report.parts import Report
from planner.report.words import cell_text, derived, held_in, moments, plain, size, source_numbers, unit_text, whole
from planner.resources import resource

if TYPE_CHECKING:
    from jinja2 import Environment

SCENARIO_ID = "vram-planner-scenario"
"""Of the element that holds the scenario."""
_DRAWING = re.compile(r"<svg\b.*</svg>", re.DOTALL)
_IDS = re.compile(r'(\bid="|url\(#|href="#)')


def html_report(report: Report) -> str:
    """The text of the file. All texts of people are escaped by the template."""
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            unit=report.unit,
            numbers=source_numbers(report),
            meaning=unit_text(report),
            drawings=[_inline(chart_svg(chart), index) for index, chart in enumerate(report.charts)],
            embedded=_embedded(report.scenario_json),
            scenario_id=SCENARIO_ID,
            logo=logo_uri(report.template.logo) if report.template.logo else "",
        )
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(resource("report")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        size=size,
        whole=whole,
        plain=plain,
        formula=formula,
        moments=moments,
        held_in=held_in,
        derived=derived,
        cell_text=cell_text,
    )
    environment.globals.update(component_names=COMPONENT_NAMES)
    return environment


def _inline(svg: str, index: int) -> str:
    """A drawing without the head of an SVG file; names inside it are its own among several."""
    found = _DRAWING.search(svg)
    return _IDS.sub(rf"\g<1>chart{index}-", found[0]) if found else ""


def _embedded(scenario_json: str) -> str:
    """JSON that cannot end the element in which it stands."""
    return json.dumps(json.loads(scenario_json), indent=1).replace("<", "\\u003c").replace("&", "\\u0026")
