"""Changes that may make a phase fit: records in `resources/advice/changes.json`, or found for one case."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from planner.engine.case import Case, Edit
from planner.errors import ResourceError
from planner.resources import resource

Level = Literal["unchanged", "speed", "numerics", "capability"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""How much a change disturbs, least first: same results at about the same speed, same results more slowly or on more
GPUs, other rounding, or something that the phase no longer does."""


@dataclass(frozen=True, slots=True)
class Change:
    """Edits that belong together. Changes of one group, or of the same fields, exclude each other."""

    id: str
    title: str
    group: str
    level: Level
    edits: tuple[Edit, ...]
    """Full paths of the scenario with their new values."""
    costs: str
    source: str
    gpus: int = 0
    """How many more GPUs it takes."""

    def excludes(self, other: "Change") -> bool:
        if self.group == other.group:
            return True
        fields = {path for path, _ in self.edits}
        return any(path in fields for path, _ in other.edits)


@dataclass(frozen=True, slots=True)
class Record:
    """A change as it stands in the file; `when` lists the values that fields must have for it to make sense."""

    phases: tuple[str, ...]
    id: str
    title: str
    group: str
    level: Level
    edits: Mapping[str, Any]
    costs: str
    source: str
    when: Mapping[str, tuple[Any, ...]]


@cache
def records() -> tuple[Record, ...]:
    """All recorded changes. Raises `ResourceError` for a broken installation."""
    try:
        listed = json.loads(resource("advice", "changes.json").read_text("utf-8"))["changes"]
        return tuple(_record(entry) for entry in listed)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResourceError(f"The planner's list of advice is damaged ({error}). Please install it again.") from error


def _record(entry: Mapping[str, Any]) -> Record:
    if entry["level"] not in LEVELS:
        raise ValueError(f"{entry['id']}: there is no level {entry['level']}")
    when = {path: tuple(values) for path, values in entry.get("when", {}).items()}
    return Record(**{**entry, "phases": tuple(entry["phases"]), "when": when})


def recorded_changes(case: Case) -> tuple[Change, ...]:
    """The recorded changes that would change something of this case."""
    return tuple(
        Change(
            record.id,
            record.title,
            record.group,
            record.level,
            tuple((case.path(*path.split(".")), value) for path, value in record.edits.items()),
            record.costs,
            record.source,
        )
        for record in records()
        if case.phase in record.phases
        and all(value_at(case, path) in values for path, values in record.when.items())
        and any(value is not None and value_at(case, path) != value for path, value in record.edits.items())
    )


def value_at(case: Case, path: str) -> Any:
    """The value of a field of the phase, such as `parallelism.tensor`."""
    part = case.fields
    for name in path.split("."):
        part = getattr(part, name)
    return part
