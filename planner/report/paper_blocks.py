"""What a document for paper is made of, from top to bottom, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from planner.chart.spec import ChartSpec

Tone = Literal["ink", "muted", "warning", "fits", "tight", "oom", "unknown"]
Side = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text that flows over as many lines as it takes."""

    text: str
    size: int = 10
    """Of its letters, in logical pixels."""
    bold: bool = False
    tone: Tone = "ink"
    above: float = 3.0
    """Room above it, which the top of a page does not have."""
    kept: bool = False
    """Whether it stands on the page of what follows, as headings do."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    note: str = ""
    """Said below it, muted."""
    tone: Tone = "ink"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    head: str
    side: Side = "left"
    whole: bool = False
    """Whether its texts stand on one line each, such as numbers."""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Cell, ...]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    chart: ChartSpec


@dataclass(frozen=True, slots=True)
class PageBreak:
    pass


Block: TypeAlias = Paragraph | Table | Picture | PageBreak


def heading(text: str, size: int = 17) -> Paragraph:
    return Paragraph(text, size=size, bold=True, above=16, kept=True)
