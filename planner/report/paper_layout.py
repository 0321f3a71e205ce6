"""Paragraphs and tables broken into lines: pure functions of what measures text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from planner.chart.text import Measure, drawable, wrap
from planner.report.paper_blocks import Cell, Side, Table, Tone

LINE = 1.3
"""Distance of lines, in font sizes."""
TEXT = 10
PADDING = 4.0
"""Left and right of a cell's text, and half of it above and below."""
_NARROWEST = 48.0
_SHOWN = re.compile(r"[ -~\u00a0-\u024f\u0370-\u1fff\u2010-\u2027\u202f-\u2bff\u3000-\ud7ff]*")
"""Letters that any paper can show, for which nobody has to ask one by one."""
_LONGEST_WORD = 120.0
"""A column is as wide as its longest word, unless that is longer than this."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text in pieces that no line breaks, each with its width."""

    text: str
    pieces: tuple[tuple[str, float], ...]
    whole: float
    """The width of the text on one line."""
    longest: float


@dataclass(frozen=True, slots=True)
class CellLine:
    text: str
    tone: Tone
    bold: bool


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Where columns start and end, and the lines of every cell. Widths are without the padding."""

    lefts: tuple[float, ...]
    widths: tuple[float, ...]
    sides: tuple[Side, ...]
    head: tuple[tuple[CellLine, ...], ...]
    rows: tuple[tuple[tuple[CellLine, ...], ...], ...]


class Typesetter:
    """Breaks texts with one measure, and remembers how wide words are, of which a report repeats most."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.words = lru_cache(maxsize=4096)(self._words)
        self._width = lru_cache(maxsize=8192)(measure)

    def lines(self, text: str, width: float, size: int = TEXT, bold: bool = False) -> tuple[str, ...]:
        """`text` in as many lines as it takes, none wider than `width`; its own line breaks are kept."""
        if "\n" not in text:
            return self._broken(text, width, size, bold)
        return tuple(line for part in text.splitlines() for line in self._broken(part, width, size, bold))

    def table(self, table: Table, width: float) -> TableLayout:
        widths = self._widths(table, width)
        starts = [PADDING]
        for column in widths[:-1]:
            starts.append(starts[-1] + column + 2 * PADDING)
        head = (Cell(column.head, bold=True) for column in table.columns)
        return TableLayout(
            tuple(starts),
            tuple(widths),
            tuple(column.side for column in table.columns),
            tuple(self._cell(cell, at) for cell, at in zip(head, widths, strict=True)),
            tuple(tuple(map(self._cell, row, widths)) for row in table.rows),
        )

    def _cell(self, cell: Cell, width: float) -> tuple[CellLine, ...]:
        broken = self.lines(cell.text, width, TEXT, cell.bold) if cell.text else ()
        lines = [CellLine(line, cell.tone, cell.bold) for line in broken]
        if cell.note:
            lines += [CellLine(line, "muted", False) for line in self.lines(cell.note, width)]
        return tuple(lines)

    def _widths(self, table: Table, width: float) -> list[float]:
        """As wide as their texts where there is room for all; otherwise texts that may break share what is left."""
        natural, least = [], []
        for index, column in enumerate(table.columns):
            found = [self.words(column.head, TEXT, True)]
            for row in table.rows:
                cell = row[index]
                found.append(self.words(cell.text, TEXT, cell.bold))
                if cell.note:
                    found.append(self.words(cell.note, TEXT, False))
            most = max(words.whole for words in found)
            natural.append(most)
            needed = max(words.longest for words in found)
            least.append(most if column.whole else min(needed, _LONGEST_WORD, max(_NARROWEST, most)))
        room = width - 2 * PADDING * len(table.columns)
        wanted = [most - few for most, few in zip(natural, least, strict=True)]
        left = room - sum(least)
        if left < 0:  # more columns than the paper is wide
            return [few * room / sum(least) for few in least]
        if sum(wanted) <= left:
            text = [index for index, column in enumerate(table.columns) if column.side == "left"] or [0]
            spare = (left - sum(wanted)) / len(text)
            return [most + (spare if index in text else 0.0) for index, most in enumerate(natural)]
        shares = _shared(wanted, left)
        return [few + share for few, share in zip(least, shares, strict=True)]

    def _broken(self, text: str, width: float, size: int, bold: bool) -> tuple[str, ...]:
        words = self.words(text, size, bold)
        if words.whole <= width:
            return (words.text,)
        space = self._width(" ", size, bold)
        lines: list[str] = []
        line: list[str] = []
        used = 0.0
        for piece, wide in words.pieces:
            if line and used + space + wide <= width:
                line.append(piece)
                used += space + wide
                continue
            if line:
                lines.append(" ".join(line))
            if wide > width:
                *whole, piece = wrap(piece, width, len(piece), size, bold, self._measure)
                lines += whole
                wide = self._width(piece, size, bold)
            line, used = [piece], wide
        return (*lines, " ".join(line))

    def _words(self, text: str, size: int, bold: bool) -> Words:
        pieces = _pieces(text)
        widths = [self._width(piece, size, bold) for piece in pieces]
        spaces = self._width(" ", size, bold) * max(len(pieces) - 1, 0)
        measured = tuple(zip(pieces, widths, strict=True))
        return Words(" ".join(pieces), measured, sum(widths) + spaces, max(widths, default=0.0))


def _pieces(text: str) -> list[str]:
    """At spaces that may break, which the narrow ones within numbers may not. Nothing that no paper can show."""
    cleaned = text if _SHOWN.fullmatch(text) else "".join(map(drawable, text))
    return [piece for piece in cleaned.split(" ") if piece]


def _shared(wanted: Sequence[float], left: float) -> list[float]:
    """`left` divided by the roots of what columns want, so that one long text does not starve the others."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    roots = [want**0.5 for want in wanted]
    shares = [0.0] * len(wanted)
    rest = sum(roots)
    for index in order:
        shares[index] = min(wanted[index], left * roots[index] / rest if rest else 0.0)
        left -= shares[index]
        rest -= roots[index]
    return shares
