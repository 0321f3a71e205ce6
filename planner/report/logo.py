"""The picture in the head of a report."""

from base64 import b64encode
from pathlib import Path

from planner.errors import PlannerError
from planner.scenario.files import read_small_file

LARGEST_BYTES = 4 * 1024 * 1024
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}


def logo_uri(path: Path) -> str:
    """The picture as a `data:` address, so that a document holds it. Raises `PlannerError` for another kind."""
    kind = _TYPES.get(path.suffix.lower())
    if kind is None:
        raise PlannerError(f"{path.name} cannot be a logo. Choose a PNG, JPEG or SVG picture.")
    return f"data:{kind};base64,{b64encode(read_small_file(path, LARGEST_BYTES)).decode('ascii')}"
