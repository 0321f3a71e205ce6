"""A sheet that is written row by row, in which a text is always a text."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, NamedTuple, TypeAlias

from xlsxwriter import Workbook as Writer
from xlsxwriter.worksheet import Worksheet

LONGEST_TEXT = 32_767
_PICTURE_HEIGHT = 56  # pixels
_A4 = 9  # the number of the paper size in the file format


class Formula(NamedTuple):
    """A formula and what it gives, for programs that do not calculate."""

    text: str
    value: float


Cell: TypeAlias = str | int | float | Formula


def cell_name(row: int, column: int) -> str:
    """`B3` for row 2 and column 1."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row + 1}"


def _as_text(text: str) -> str:
    """What a cell can hold of a text. One that looks like XlsxWriter's own markup gets a space after it."""
    marked = text.startswith("<r>") and text.endswith("</r>")
    return f"{text[: LONGEST_TEXT - 1]} " if marked else text[:LONGEST_TEXT]


class _PlainSheet(Worksheet):  # type: ignore[misc]
    """A sheet whose formulas are sums and products: nobody looks in them for functions of newer programs."""

    def _prepare_formula(self, formula: str, _expand: bool = False) -> str:
        return formula.removeprefix("=")


class Sheet:
    """Rows from the top; `next_row` is where the next one goes."""

    def __init__(self, sheet: Worksheet, formats: dict[str, Any]) -> None:
        self.sheet = sheet
        self.next_row = 0
        self._formats = formats

    def widths(self, *widths: float) -> None:
        for column, width in enumerate(widths):
            self.sheet.set_column(column, column, width)

    def blank(self) -> None:
        self.next_row += 1

    def head(self, *texts: str) -> None:
        """A head; the first one of a sheet that starts with it stays in sight."""
        if self.next_row == 0:
            self.sheet.freeze_panes(1, 0)
            self.sheet.repeat_rows(0)
        self.row(list(texts), style="head")

    def row(self, cells: Sequence[Cell], *, style: str = "") -> int:
        """Write one row and return where it stands."""
        row = self.next_row
        for column, cell in enumerate(cells):
            self._write(row, column, cell, style)
        self.next_row += 1
        return row

    def picture(self, row: int, column: int, png: bytes) -> None:
        """A picture of small height, its upper left corner in that cell."""
        scale = _PICTURE_HEIGHT / int.from_bytes(png[20:24], "big")  # where a PNG says how high it is
        options = {"image_data": BytesIO(png), "x_scale": scale, "y_scale": scale, "description": "Logo"}
        self.sheet.insert_image(row, column, "logo.png", options)

    def _write(self, row: int, column: int, cell: Cell, style: str) -> None:
        if isinstance(cell, Formula):
            kind = "whole" if isinstance(cell.value, int) else "size"
            self.sheet.write_formula(row, column, cell.text, self._formats[style or kind], cell.value)
        elif isinstance(cell, str):
            if cell:
                self.sheet.write_string(row, column, _as_text(cell), self._formats[style or "text"])
        else:
            kind = "whole" if isinstance(cell, int) else "size"
            self.sheet.write_number(row, column, cell, self._formats[style or kind])


class Workbook:
    """The sheets of one file and their shared styles."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._formats = {
            "text": writer.add_format({"valign": "top"}),
            "title": writer.add_format({"bold": True, "font_size": 16}),
            "head": writer.add_format({"bold": True, "bg_color": "#F3F5F9", "bottom": 1, "text_wrap": True}),
            "whole": writer.add_format({"num_format": "#,##0", "valign": "top"}),
            "size": writer.add_format({"num_format": "#,##0.000", "valign": "top"}),
            "factor": writer.add_format({"num_format": "General", "valign": "top"}),
            "total": writer.add_format({"bold": True, "num_format": "#,##0", "top": 1}),
        }

    def sheet(self, name: str) -> Sheet:
        sheet = self._writer.add_worksheet(name, _PlainSheet)
        sheet.set_landscape()
        sheet.set_paper(_A4)
        sheet.fit_to_pages(1, 0)  # as wide as the paper, as long as it takes
        return Sheet(sheet, self._formats)

    def stacked_columns(
        self, sheet: Sheet, first: int, last: int, columns: Sequence[tuple[int, str]], title: str, axis: str
    ) -> None:
        """A chart of its own below what is written: a stack per row of `first..last`, a series per column."""
        chart = self._writer.add_chart({"type": "column", "subtype": "stacked"})
        name = sheet.sheet.get_name()
        for column, colour in columns:
            chart.add_series(
                {
                    "name": [name, first - 1, column],
                    "categories": [name, first, 0, last, 0],
                    "values": [name, first, column, last, column],
                    "fill": {"color": colour},
                    "gap": 60,
                }
            )
        chart.set_title({"name": title})
        chart.set_y_axis({"name": axis, "num_format": "0"})
        chart.set_legend({"position": "bottom"})
        chart.set_size({"width": 960, "height": 480})
        sheet.sheet.insert_chart(last + 2, 0, chart)
