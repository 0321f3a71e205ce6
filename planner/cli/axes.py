"""Axes of a sweep as a person writes them: `micro_batch_size=1:64`, `zero_stage=0,3`, `gpu=l40s,h100-sxm5-80gb`."""

from collections.abc import Iterator
from typing import Any

from planner.engine.plan import PHASES, PhaseName
from planner.engine.sweep import GPU, Axis
from planner.errors import PlannerError
from planner.scenario import FieldDeclaration, FieldPath, Scenario, declaration_at
from planner.scenario.declaration import Declared
from planner.scenario.phases import Phases

MOST_VALUES = 1_000_000
EXAMPLES = "micro_batch_size=1:64, sequence_length=1024:32768:1024, zero_stage=0,3 or gpu=l40s,h100-sxm5-80gb"


def phase_named(scenario: Scenario, name: str | None) -> PhaseName:
    """The phase that a person means: the one named, else training, else the first that is planned."""
    planned = [phase for phase in PHASES if getattr(scenario.phases, phase) is not None]
    if name is None:
        if not planned:
            raise PlannerError("The plan has no phase.")
        return "training" if "training" in planned else planned[0]
    wanted = name.replace("-", "_")
    found = next((phase for phase in planned if phase == wanted), None)
    if found is None:
        raise PlannerError(f"The plan has no phase {name}. It has: {', '.join(planned) or 'none'}.")
    return found


def axis_from(text: str, scenario: Scenario, phase: PhaseName) -> Axis:
    """One axis. Raises `PlannerError` for a field that the phase does not have or values that cannot be read."""
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise PlannerError(f"An axis is written as {EXAMPLES}, not “{text}”.")
    if name == "gpu":
        return Axis(GPU, tuple(values.split(",")))
    path = field_path(name, scenario, phase)
    found = declaration_at(path)
    assert found is not None
    return Axis(path, tuple(value for part in values.split(",") for value in _values(part, found)))


def axis_name(path: FieldPath) -> str:
    """What an axis is called in tables and files: `parallelism.tensor`."""
    return "gpu" if path == GPU else ".".join(str(step) for step in path[2:])


def field_path(name: str, scenario: Scenario, phase: PhaseName) -> FieldPath:
    """A field by its path in the phase, or by its name alone where only one part of the phase has such a field."""
    start: FieldPath = ("phases", phase)
    path = (*start, *name.split("."))
    if declaration_at(path) is not None:
        return path
    inner = [found for found in _fields(type(getattr(scenario.phases, phase)), start) if found[-1] == name]
    if len(inner) == 1:
        return inner[0]
    if inner:
        choices = " and ".join(axis_name(found) for found in inner)
        raise PlannerError(f"{name} is a field of several parts: {choices}. Name one of them.")
    label = str(Phases.model_fields[phase].title)
    raise PlannerError(f"{label} has no field {name} that could be swept.")


def _fields(part: type[Declared], above: FieldPath) -> Iterator[FieldPath]:
    for field in part.declarations():
        path = (*above, field.name)
        if field.part is not None:
            yield from _fields(field.part, path)
        else:
            yield path


def _values(text: str, field: FieldDeclaration) -> tuple[Any, ...]:
    """`4`, `1:64` (both ends included), `1024:8192:1024` (with a step); other kinds of fields one by one."""
    try:
        if field.kind == "int":
            numbers = [int(number) for number in text.split(":")]
            if len(numbers) == 1:
                return tuple(numbers)
            first, last, *steps = numbers
            found = range(first, last + 1, *steps[:1])
            if len(steps) > 1 or not found or len(found) > MOST_VALUES:
                raise ValueError(text)
            return tuple(found)
        if field.kind == "float":
            return (float(text),)
        if field.kind == "bool":
            return ({"true": True, "false": False}[text.lower()],)
    except (ValueError, KeyError):
        raise PlannerError(f"{field.label}: “{text}” cannot be read. An axis is written as {EXAMPLES}.") from None
    return (text,)
