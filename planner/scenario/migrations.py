"""From the file version that a scenario was written in to the one of today."""

from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import ScenarioError
from planner.scenario.scenario import VERSION

Document = dict[str, Any]

MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {}
"""Version to the step that makes a document of the next one. Version 1 is the first."""


def migrated(document: Document) -> Document:
    """The document in today's version. Raises `ScenarioError` for a version that is not known."""
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ScenarioError(f'Its "version" must be a whole number from 1 to {VERSION}.')
    if version > VERSION:
        raise ScenarioError(
            f"It was written by a newer VRAM Planner (file version {version}, and this one reads up to {VERSION}). "
            "Install the newest version to open it."
        )
    while version < VERSION:
        document = {**MIGRATIONS[version](document), "version": version + 1}
        version += 1
    return document
