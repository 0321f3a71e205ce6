"""A report opened as the scenario that is embedded in it. Nothing in a report is run, and little of it is read."""

import re
from html.parser import HTMLParser
from pathlib import Path

from planner.errors import ScenarioError
from planner.report.opening_pdf import text_of_pdf
from planner.report.opening_pptx import text_of_slides
from planner.report.opening_xlsx import text_of_sheet
from planner.scenario import Scenario
from planner.scenario.files import read_small_file, scenario_from_json

LARGEST_BYTES = 64 * 1024 * 1024
SCENARIO_ID = "vram-planner-scenario"
SCENARIO_SHEET = "Scenario"
_FENCED = re.compile(r"^```json\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r'^Scenario,,,,"((?:[^"]|"")*)"', re.MULTILINE)
ABSENT = "No scenario is embedded in it. Choose a report that VRAM Planner wrote."


def load_report(path: Path) -> Scenario:
    """The scenario of a report in any of its formats. Raises `ScenarioError`, which names the file."""
    content = read_small_file(path, LARGEST_BYTES)
    try:
        return scenario_from_json(_embedded(path.suffix.lower(), content))
    except ScenarioError as error:
        raise ScenarioError(f"{path.name} cannot be opened. {error.message}", error.issues) from None


def _embedded(suffix: str, content: bytes) -> str:
    if suffix == ".xlsx":
        found = text_of_sheet(content, SCENARIO_SHEET)
    elif suffix == ".pptx":
        found = text_of_slides(content)
    elif suffix == ".pdf":
        found = text_of_pdf(content)
    elif suffix == ".csv":
        rows = _ROW.findall(_text(content))
        found = rows[-1].replace('""', '"') if rows else None
    elif suffix == ".md":
        blocks = _FENCED.findall(_text(content).replace("\r\n", "\n"))
        found = blocks[-1] if blocks else None
    else:
        reader = _Reader()
        reader.feed(_text(content))
        reader.close()
        found = reader.found
    if not found:
        raise ScenarioError(ABSENT)
    return found


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScenarioError("It is not text in UTF-8.") from None


class _Reader(HTMLParser):
    """Looks for the one element that holds the scenario, and for nothing else."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        stated = dict(attrs)
        self._inside = tag == "script" and stated.get("id") == SCENARIO_ID and not self.found

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found += data
