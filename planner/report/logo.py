"""The picture in the head of a report: read from the file that was named, and from nowhere else."""

import re
from base64 import b64encode
from pathlib import Path
from xml.etree import ElementTree

from planner.errors import PlannerError
from planner.scenario.files import read_small_file

LARGEST_BYTES = 4 * 1024 * 1024
LARGEST_PIXELS = (900, 300)
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
_WITHIN = re.compile(r"#|data:image/(png|jpeg|jpg|gif|webp)[;,]", re.IGNORECASE)
_ELSEWHERE = re.compile(r"@import|url\(\s*['\"]?(?!#|data:)", re.IGNORECASE)


def read_logo(path: Path) -> bytes:
    """The bytes of the picture. Raises `PlannerError` for another kind, and for a drawing that reads other files."""
    if path.suffix.lower() not in _TYPES:
        raise PlannerError(f"{path.name} cannot be a logo. Choose a PNG, JPEG or SVG picture.")
    content = read_small_file(path, LARGEST_BYTES)
    if is_drawing(path):
        _check_drawing(path, content)
    return content


def logo_uri(path: Path) -> str:
    """The picture as a `data:` address, so that a document holds it."""
    content = read_logo(path)
    return f"data:{_TYPES[path.suffix.lower()]};base64,{b64encode(content).decode('ascii')}"


def logo_png(path: Path) -> bytes:
    """The picture as PNG of bounded size, for documents that hold no drawings."""
    from planner.chart.paint.pictures import png_of

    found = png_of(read_logo(path), is_drawing(path), LARGEST_PIXELS)
    if found is None:
        raise PlannerError(f"{path.name} cannot be read as a picture. Choose another logo.")
    return found


def is_drawing(path: Path) -> bool:
    return path.suffix.lower() == ".svg"


def _check_drawing(path: Path, content: bytes) -> None:
    """Qt and browsers would follow what a drawing points at: only what lies within it is allowed."""
    told = f"{path.name} cannot be a logo: "
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content or b"\0" in content:
        raise PlannerError(f"{told}it declares entities. Save it anew as plain SVG.")
    try:
        tree = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise PlannerError(f"{path.name} cannot be read as a picture. Choose another logo.") from None
    for element in tree.iter():
        texts = [element.text or "", *element.attrib.values()]
        pointers = [value for name, value in element.attrib.items() if name.rpartition("}")[2] in ("href", "src")]
        outside = any(not _WITHIN.match(value.strip()) for value in pointers)
        linked = element.tag.rpartition("}")[2] == "a"
        if (outside and not linked) or any(map(_ELSEWHERE.search, texts)):
            raise PlannerError(f"{told}it takes parts from other files. Save it as one drawing that holds them.")
