"""The text of one sheet of a workbook, read with bounds and without its formulas."""

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from lzma import LZMAError
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

from planner.errors import ScenarioError

LARGEST_PART_BYTES = 32 * 1024 * 1024
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_PACKAGE = "{http://schemas.openxmlformats.org/package/2006/relationships}"
DAMAGED = "It is not a workbook, or it is damaged."
DAMAGES: tuple[type[Exception], ...] = (
    BadZipFile, ElementTree.ParseError, LookupError, ValueError, RuntimeError, EOFError, OSError,
    struct.error, zlib.error, LZMAError,
)  # fmt: skip
"""What `zipfile` and the decompressors behind it raise for bytes that are not what they say."""


def text_of_sheet(content: bytes, name: str) -> str | None:
    """The texts of all cells of a sheet, one after the other; None where there is no such sheet."""
    try:
        with ZipFile(BytesIO(content)) as package:
            part = _part_of(package, name)
            return None if part is None else "".join(_cells(package, part))
    except DAMAGES:
        raise ScenarioError(DAMAGED) from None


def _part_of(package: ZipFile, name: str) -> str | None:
    """Where a sheet stands in the package."""
    sheets = tree(package, "xl/workbook.xml").iter(f"{_MAIN}sheet")
    wanted = next((sheet.get(_RELATION) for sheet in sheets if sheet.get("name") == name), None)
    relations = tree(package, "xl/_rels/workbook.xml.rels").iter(f"{_PACKAGE}Relationship")
    target = next((item.get("Target") for item in relations if item.get("Id") == wanted), None)
    if wanted is None or target is None:
        return None
    return target.removeprefix("/") if target.startswith("/") else f"xl/{target}"


def _cells(package: ZipFile, part: str) -> Iterator[str]:
    strings = (
        [_texts(item) for item in tree(package, "xl/sharedStrings.xml").iter(f"{_MAIN}si")]
        if "xl/sharedStrings.xml" in package.namelist()
        else []
    )
    for cell in tree(package, part).iter(f"{_MAIN}c"):
        value = cell.findtext(f"{_MAIN}v")
        if cell.get("t") == "s" and value is not None:
            yield strings[int(value)]
        else:
            yield _texts(cell)


def _texts(element: ElementTree.Element) -> str:
    return "".join(item.text or "" for item in element.iter(f"{_MAIN}t"))


def tree(package: ZipFile, part: str) -> ElementTree.Element:
    """A part of the package. Entities, with which small files grow large, are refused, in whatever encoding."""
    with package.open(part) as file:
        content = file.read(LARGEST_PART_BYTES + 1)
    if len(content) > LARGEST_PART_BYTES or b"\0" in content or b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ScenarioError(DAMAGED)
    return ElementTree.fromstring(content)
