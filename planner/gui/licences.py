"""The licences of what the program is built on: itself, Python, the typeface, and every library that it needs."""

import re
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from planner import __version__
from planner.resources import resource

_BEGINNINGS = ("LICENSE", "LICENCE", "COPYING", "NOTICE")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NEEDED = (
    *(
        "jinja2",
        "lxml",
        "numpy",
        "nvidia-ml-py",
        "Pillow",
        "platformdirs",
        "pydantic",
        "pyqtgraph",
        "PySide6-Essentials",
    ),
    *("python-pptx", "rich", "typer", "xlsxwriter"),
)
"""Where the program runs from its sources, nothing tells what it needs."""


@dataclass(frozen=True, slots=True)
class Licence:
    """One part: its name, version, the short name of its licence, and the whole text where it is at hand."""

    name: str
    version: str
    short: str
    text: str


def licences() -> list[Licence]:
    """All of them, the program's own first."""
    own = resource("LICENSE").read_text(encoding="utf-8")
    font = resource("fonts", "OFL.txt").read_text(encoding="utf-8")
    python = f"Python {sys.version}\n\nhttps://docs.python.org/3/license.html"
    parts = [
        Licence("VRAM Planner", __version__, "MIT", own),
        Licence("Inter", "", "OFL-1.1", font),
        Licence("Python", sys.version.split()[0], "PSF-2.0", python),
    ]
    return [*parts, *(_licence(found) for found in _libraries())]


def _libraries() -> list[Distribution]:
    """The libraries that the program needs, with what these need in turn, by name."""
    try:
        waiting = list(distribution("vram-planner").requires or ())
    except PackageNotFoundError:
        waiting = list(_NEEDED)
    found: dict[str, Distribution] = {}
    while waiting:
        requirement = waiting.pop()
        name = _NAME.match(requirement)
        if name is None or "extra ==" in requirement:
            continue
        key = name[0].lower().replace("_", "-")
        if key in found:
            continue
        try:
            found[key] = distribution(name[0])
        except PackageNotFoundError:
            continue  # of another system
        waiting += found[key].requires or ()
    return [found[key] for key in sorted(found)]


def _licence(found: Distribution) -> Licence:
    metadata = found.metadata
    stated, expression, home = (
        next(iter(metadata.get_all(field, [])), "") for field in ("License", "License-Expression", "Home-page")
    )
    named = [text.split(" :: ")[-1] for text in metadata.get_all("Classifier", []) if text.startswith("License ::")]
    short = expression or ("" if "\n" in stated else stated) or ", ".join(named)
    files = [file for file in found.files or () if file.name.upper().startswith(_BEGINNINGS)]
    texts = [found.read_text(str(file.relative_to(file.parts[0]))) for file in files if ".dist-info" in file.parts[0]]
    pages = [home, *metadata.get_all("Project-URL", [])]
    text = "\n\n".join(filter(None, texts)) or "\n".join(filter(None, pages))
    return Licence(found.name, found.version, short or "see its pages", text)
