"""Every field of a scenario with its value, label and unit, as the declarations have them."""

import json
from collections.abc import Iterator
from typing import Any

from planner.report.parts import Assumption
from planner.scenario.declaration import Declared, FieldDeclaration
from planner.scenario.scenario import Scenario

SEPARATOR = " → "
PARTS = ("model", "phases", "hardware")
NONE = "automatic"
LONGEST = 2000
"""Letters of a value, such as a whole config.json, that a table shows; the embedded scenario has all of them."""


def assumptions(scenario: Scenario) -> tuple[Assumption, ...]:
    """What the scenario states and, where it leaves something open, the defaults that hold.

    Phases that are not planned are left out, and so are fields that nothing is assumed for.
    """
    declared = {field.name: field for field in type(scenario).declarations()}
    found: list[Assumption] = []
    for name in PARTS:
        found += _field(scenario, declared[name], (), ())
    return tuple(found)


def _field(part: Declared, field: FieldDeclaration, path: tuple[str, ...], where: tuple[str, ...]) -> list[Assumption]:
    value = getattr(part, field.name)
    inner, below = (*path, field.name), (*where, field.label)
    if isinstance(value, Declared):
        return list(_part(value, inner, below))
    stated = part.states(field.name)
    if not stated and value is None:
        return []
    if isinstance(value, tuple) and any(isinstance(item, Declared) for item in value):
        found: list[Assumption] = []
        for index, item in enumerate(value, 1):
            at, title = (*inner, str(index - 1)), (*below, str(index))
            if isinstance(item, Declared):
                found += _part(item, at, title)
            else:
                found.append(_row(at, title, field, item, stated))
        return found
    return [_row(inner, below, field, value, stated)]


def _part(part: Declared, path: tuple[str, ...], where: tuple[str, ...]) -> Iterator[Assumption]:
    for field in type(part).declarations():
        yield from _field(part, field, path, where)


def _row(
    path: tuple[str, ...], where: tuple[str, ...], field: FieldDeclaration, value: Any, stated: bool
) -> Assumption:
    *parts, label = where
    return Assumption(".".join(path), SEPARATOR.join(parts), label, _text(field, value), field.unit, stated)


def _text(field: FieldDeclaration, value: Any) -> str:
    match value:
        case None:
            return NONE
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return f"{value:,}".replace(",", "\u202f")
        case str():
            label = dict(field.choices).get(value, value)
            return value if label == value else f"{label} ({value})"
        case tuple():
            return ", ".join(_text(field, item) for item in value)
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
            return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} letters)"
