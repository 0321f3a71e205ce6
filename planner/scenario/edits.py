"""Edits as a person makes them: what they are called, and what a switch takes with it."""

from typing import Any

from planner.scenario.datasets import determined_fields
from planner.scenario.declaration import FieldDeclaration, declaration, parts_of
from planner.scenario.issues import lapsed_fields
from planner.scenario.scenario import FieldPath, Scenario

DATA_SET: FieldPath = ("phases", "preprocessing", "dataset")


def edited(scenario: Scenario, path: FieldPath, value: Any) -> Scenario:
    """`scenario.with_value(path, value)`, and values that no longer apply because of it go back to their defaults.

    Choosing another serving engine, for example, takes back settings that only the former engine has. A typical data
    set brings its own figures.
    """
    changed = scenario.with_value(path, value)
    if path == DATA_SET and value is not None:
        for field in determined_fields():
            changed = changed.with_value((*DATA_SET[:-1], field), None)
    if len(path) < 3 or path[0] != "phases":
        return changed
    phase = str(path[1])
    before = lapsed_fields(scenario, phase)
    for field in lapsed_fields(changed, phase):
        if field not in before:
            changed = changed.with_value(("phases", phase, *field.split(".")), None)
    return changed


def declaration_at(path: FieldPath) -> FieldDeclaration | None:
    """The declaration that a path of a scenario ends at; None where it leads nowhere."""
    parts, found = (Scenario,), None
    for step in path:
        if isinstance(step, int):
            continue
        held = next((part for part in parts if step in part.model_fields), None)
        if held is None:
            return None
        found = declaration(held, step)
        parts = parts_of(held, step)  # type: ignore[assignment]
    return found


def undo_text(path: FieldPath, value: Any = ...) -> str:
    """What an edit is called in the Edit menu: `Set context length`, `Leave out training`."""
    found = declaration_at(path)
    label = found.label if found else "value"
    is_name = any(letter.isupper() for letter in label.split()[0][1:])
    label = label if is_name else label[:1].lower() + label[1:]
    if len(path) == 2 and path[0] == "phases" and value is None:
        return f"Leave out {label}"
    if len(path) == 2 and path[0] == "phases":
        return f"Plan {label}"
    return f"Set {label}"
