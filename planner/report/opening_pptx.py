"""The scenario that a file of slides holds, read with bounds and without its slides."""

from io import BytesIO
from zipfile import ZipFile

from planner.errors import ScenarioError
from planner.report.opening_xlsx import DAMAGES, tree

PART = "customXml/item1.xml"
SPACE = "urn:vram-planner:scenario"
DAMAGED = "It is not a presentation, or it is damaged."


def text_of_slides(content: bytes) -> str | None:
    """The scenario, wherever a program that saved the slides again has put it; None where there is none."""
    try:
        with ZipFile(BytesIO(content)) as package:
            for name in package.namelist():
                if name.startswith("customXml/item") and name.endswith(".xml"):
                    found = tree(package, name)
                    if found.tag == f"{{{SPACE}}}scenario":
                        return found.text
    except DAMAGES:
        raise ScenarioError(DAMAGED) from None
    return None
