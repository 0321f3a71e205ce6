"""What stands on a slide: texts, tables and native charts, in which a text is always a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE, XL_LEGEND_POSITION
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.oxml.ns import qn
from pptx.util import Inches, Length, Pt

from planner.chart.text import drawable, one_line
from planner.report.csv import safe
from planner.report.pptx_lines import Line, add_lines

INK, MUTED, HEAD, STRIPE = "1C2330", "5B6577", "E4E9F1", "F5F7FA"
TONES = {"fits": "17713B", "tight": "8A5A00", "oom": "B3201C", "unknown": "6B3FA0", "warning": "8A5A00"}
WIDTH, HEIGHT, MARGIN = 13.333, 7.5, 0.5
"""Of a slide, and around what stands on it, in inches."""
_LONGEST_TITLE = 170


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a slide, in inches."""

    x: float
    y: float
    width: float
    height: float

    def emu(self) -> tuple[Length, Length, Length, Length]:
        return Inches(self.x), Inches(self.y), Inches(self.width), Inches(self.height)


@dataclass(frozen=True, slots=True)
class Series:
    """One component of every bar, by its name and colour without `#`."""

    name: str
    colour: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    right: bool = False
    bold: bool = False
    colour: str = INK


def text_box(slide: Any, place: Box, lines: Sequence[tuple[str, float, bool, str]]) -> None:
    """Paragraphs of text, size in points, bold or not, and colour."""
    frame = slide.shapes.add_textbox(*place.emu()).text_frame
    frame.word_wrap = True
    frame.margin_left = frame.margin_right = 0
    for index, (text, size, bold, colour) in enumerate(lines):
        paragraph = frame.paragraphs[0] if index == 0 else frame.add_paragraph()
        paragraph.space_after = Pt(3)
        _write(paragraph, text, size, bold, colour)


def title(slide: Any, text: str) -> None:
    """The title at the top, smaller where it is long, so that it takes two lines at most."""
    shown = shortened(text, _LONGEST_TITLE)
    size = 28 if wide(shown) <= 60 else 20 if wide(shown) <= 100 else 16
    shape = slide.shapes.title
    shape.left, shape.top, shape.width, shape.height = Box(MARGIN, 0.3, WIDTH - 2 * MARGIN, 0.8).emu()
    frame = shape.text_frame
    frame.word_wrap = True
    frame.margin_left = 0
    frame.vertical_anchor = MSO_ANCHOR.MIDDLE
    frame.paragraphs[0].alignment = PP_ALIGN.LEFT
    _write(frame.paragraphs[0], shown, size, True, INK)


def table(slide: Any, place: Box, widths: Sequence[float], rows: Sequence[Sequence[Cell]], size: float = 11) -> None:
    """A table whose first row is its head; `widths` are shares of the place's width."""
    shape = slide.shapes.add_table(len(rows), len(widths), *place.emu())
    made = shape.table
    made.horz_banding = False
    for column, share in zip(made.columns, widths, strict=True):
        column.width = Inches(place.width * share / sum(widths))
    for index, row in enumerate(rows):
        ground = HEAD if index == 0 else STRIPE if index % 2 == 0 else "FFFFFF"
        made.rows[index].height = Inches(size / 72 * 1.75)
        for column, cell in enumerate(row):
            at = made.cell(index, column)
            at.fill.solid()
            at.fill.fore_color.rgb = _colour(ground)
            at.margin_top = at.margin_bottom = Inches(0.02)
            at.margin_left = at.margin_right = Inches(0.06)
            at.vertical_anchor = MSO_ANCHOR.MIDDLE
            paragraph = at.text_frame.paragraphs[0]
            paragraph.alignment = PP_ALIGN.RIGHT if cell.right else PP_ALIGN.LEFT
            _write(paragraph, cell.text, size, cell.bold or index == 0, cell.colour)


def stacked_chart(
    slide: Any, place: Box, heading: str, categories: Sequence[str], series: Sequence[Series], lines: Sequence[Line]
) -> None:
    """A native chart that PowerPoint edits: a stack per category, with lines across all of them."""
    content = CategoryChartData(number_format="0.0")
    # What the workbook within the chart would take for a formula gets an apostrophe.
    content.categories = [safe(one_line(name)) for name in categories]
    for part in series:
        content.add_series(safe(part.name), part.values)
    for line in lines:
        content.add_series(safe(one_line(line.name)), line.values)
    frame = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_STACKED, *place.emu(), content)
    chart = frame.chart
    chart.font.size = Pt(11)
    chart.font.color.rgb = _colour(INK)
    chart.has_title = True
    _write(chart.chart_title.text_frame.paragraphs[0], heading, 13, True, INK)
    chart.has_legend = True
    chart.legend.position = XL_LEGEND_POSITION.RIGHT
    chart.legend.include_in_layout = False
    chart.value_axis.major_gridlines.format.line.color.rgb = _colour("D9DEE7")
    chart.value_axis.format.line.fill.background()
    chart.value_axis.minimum_scale = 0
    chart.value_axis.tick_labels.number_format = "General"
    chart.value_axis.tick_labels.number_format_is_linked = False
    chart.category_axis.tick_labels.font.size = Pt(10)
    chart.category_axis._element.find(qn("c:txPr")).find(qn("a:bodyPr")).set("rot", "0")  # wrapped, never turned
    plot = chart.plots[0]
    plot.gap_width, plot.overlap = 60, 100
    for made, part in zip(plot.series, series, strict=False):
        made.format.fill.solid()
        made.format.fill.fore_color.rgb = _colour(part.colour)
    add_lines(chart, len(series), lines)


def notes(slide: Any, text: str) -> None:
    """What is said beside the slide."""
    slide.notes_slide.notes_text_frame.text = "\n".join(one_line(line) for line in text.splitlines())


def _write(paragraph: Any, text: str, size: float, bold: bool, colour: str) -> None:
    run = paragraph.add_run()
    run.text = "".join(map(drawable, text))  # as `one_line` has it, but with the narrow spaces within numbers
    run.font.size, run.font.bold = Pt(size), bold
    run.font.color.rgb = _colour(colour)


def _colour(text: str) -> Any:
    return RGBColor.from_string(text)


def shortened(text: str, columns: int) -> str:
    """`text` on one line, with `…` in place of what is beyond so many columns."""
    shown = one_line(text)
    if wide(shown) <= columns:
        return shown
    while wide(shown) >= columns:
        shown = shown[:-1]
    return f"{shown.rstrip()}…"


def wide(text: str) -> int:
    """How many columns a text takes, in which Chinese letters are two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
