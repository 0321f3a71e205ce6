"""Closed lists that are data: the records of a folder of `resources/`, by their names and labels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from planner.errors import ResourceError
from planner.resources import resource


@dataclass(frozen=True, slots=True)
class Record:
    """What a list needs to know of one file; the engine reads the rest of it."""

    label: str
    kind: str
    implementations: tuple[str, ...]
    needs_fp32: bool = False


def records(folder: str) -> Mapping[str, Record]:
    """All records of a folder by id, in the order of their labels. Raises `ResourceError` for a broken installation."""
    try:
        found = [json.loads(path.read_text("utf-8")) for path in resource(folder).glob("*.json")]
        listed = {
            str(item["id"]): Record(
                str(item["label"]),
                str(item.get("kind", "")),
                tuple(item.get("implementations", ())),
                bool(item.get("needs_fp32", False)),
            )
            for item in found
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResourceError(f"The planner's list of {folder} is damaged ({error}). Please install it again.") from error
    if not listed:
        raise ResourceError(f"The planner's list of {folder} is empty. Please install it again.")
    return dict(sorted(listed.items(), key=lambda item: item[1].label.lower()))
