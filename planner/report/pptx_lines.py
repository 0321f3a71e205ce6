"""Lines over the stacks of a native chart: what GPUs offer, and the sums of the stacks with their labels.

python-pptx makes charts of one kind; the format holds several in one plot (ECMA-376, part 1, 21.2.2.145), so series
of the stacks are moved into a line chart that shares their axes.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls, qn

_WIDTH = 19_050  # 1.5 points
_NO_MARKER = f'<c:marker {nsdecls("c")}><c:symbol val="none"/></c:marker>'
_SUMS = (
    f'<c:dLbls {nsdecls("c", "a")}><c:numFmt formatCode="0.0" sourceLinked="0"/><c:spPr><a:noFill/></c:spPr>'
    '<c:txPr><a:bodyPr/><a:lstStyle/><a:p><a:pPr><a:defRPr sz="1200" b="1"/></a:pPr><a:endParaRPr/></a:p></c:txPr>'
    '<c:dLblPos val="t"/><c:showLegendKey val="0"/><c:showVal val="1"/><c:showCatName val="0"/>'
    '<c:showSerName val="0"/><c:showPercent val="0"/><c:showBubbleSize val="0"/></c:dLbls>'
)


@dataclass(frozen=True, slots=True)
class Line:
    """A series across all stacks; one without a colour is not drawn, and says the sums above them."""

    name: str
    values: tuple[float | None, ...]
    colour: str = ""


def add_lines(chart: Any, stacks: int, lines: Sequence[Line]) -> None:
    """Turn the series behind the first `stacks` into lines."""
    if not lines:
        return
    bars = chart._chartSpace.chart.plotArea.find(qn("c:barChart"))
    moved = bars.findall(qn("c:ser"))[stacks:]
    drawn = parse_xml(f'<c:lineChart {nsdecls("c")}><c:grouping val="standard"/><c:varyColors val="0"/></c:lineChart>')
    for made, line in zip(moved, lines, strict=True):
        bars.remove(made)
        _restyle(made, line)
        drawn.append(made)
    drawn.append(parse_xml(f'<c:marker {nsdecls("c")} val="1"/>'))
    for axis in bars.findall(qn("c:axId")):
        drawn.append(deepcopy(axis))
    bars.addnext(drawn)
    legend = chart._chartSpace.chart.find(qn("c:legend"))
    for index, line in enumerate(lines, stacks):
        if not line.colour and legend is not None:
            hidden = f'<c:legendEntry {nsdecls("c")}><c:idx val="{index}"/><c:delete val="1"/></c:legendEntry>'
            legend.find(qn("c:legendPos")).addnext(parse_xml(hidden))


def _restyle(series: Any, line: Line) -> None:
    """The parts of a series of lines, in the order that the format wants."""
    for name in ("c:invertIfNegative", "c:spPr"):
        for found in series.findall(qn(name)):
            series.remove(found)
    ink = f'<a:solidFill><a:srgbClr val="{line.colour}"/></a:solidFill><a:prstDash val="dash"/>'
    drawn = f'<a:ln w="{_WIDTH}">{ink}</a:ln>' if line.colour else "<a:ln><a:noFill/></a:ln>"
    parts = [f"<c:spPr {nsdecls('c', 'a')}>{drawn}</c:spPr>", _NO_MARKER, *([] if line.colour else [_SUMS])]
    before = series.find(qn("c:tx"))
    for part in reversed(parts):
        before.addnext(parse_xml(part))
    series.append(parse_xml(f'<c:smooth {nsdecls("c")} val="0"/>'))
