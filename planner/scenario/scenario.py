"""The scenario: a model, the phases of its life, and the hardware they are judged against."""

from functools import reduce
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, ValidationError

from planner.scenario.declaration import Declared, declare, declare_part
from planner.scenario.hardware import Hardware
from planner.scenario.model_source import ModelSource
from planner.scenario.phases import Phases
from planner.scenario.refusals import issues_of, refusal, unknown_field

FORMAT: Final = "vram-planner/scenario"
VERSION: Final = 1

FieldPath = tuple[str | int, ...]


class Scenario(Declared):
    """What is asked. Frozen: an edit makes a new scenario, and shares with the old one what did not change."""

    form_order: ClassVar[tuple[str, ...]] = ("name", "model", "phases", "hardware")

    format: Literal["vram-planner/scenario"] = Field(FORMAT, title="Format")
    version: Literal[1] = Field(VERSION, title="Version")
    name: str = declare("", "Name", "What the plan is called in titles and reports.", max_length=300)
    model: ModelSource = declare(..., "Model", "A preset, a config.json, dimensions, or only a number of weights.")
    phases: Phases = declare_part(Phases, "Phases", "The phases that are planned, each with its workload.")
    hardware: Hardware = declare_part(Hardware, "Hardware", "The GPUs to compare and the node around them.")

    @classmethod
    def of(cls, document: Any) -> Self:
        """A scenario from plain values. Raises `ScenarioError` with an issue for every field that is wrong."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise refusal(issues_of(error, cls)) from None

    def with_value(self, path: FieldPath, value: Any) -> Self:
        """The scenario with one value set: `scenario.with_value(("phases", "training", "micro_batch_size"), 4)`.

        None takes a value back: the field follows its default, the phase is left out. A phase or part that is not
        there yet is made with its defaults. Raises `ScenarioError` when the value is refused.
        """
        if not path:
            return type(self).of(value)
        scenario: Self = _replaced(self, path, value, ())
        return scenario

    def to_document(self) -> dict[str, Any]:
        """Plain values as they stand in a file: what was stated, without the defaults."""
        return {"format": FORMAT, "version": VERSION, **self.model_dump(mode="json", exclude_unset=True)}


def _replaced(part: Any, path: FieldPath, value: Any, done: FieldPath) -> Any:
    """`part` with the value at `path` replaced; `done` is where `part` itself is, for messages."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(part, tuple) and isinstance(step, int) and 0 <= step < len(part):
        return (*part[:step], _replaced(part[step], rest, value, (*done, step)), *part[step + 1 :])
    if not isinstance(part, Declared) or step not in type(part).model_fields:
        raise refusal((unknown_field(part, step, done),))
    name = str(step)
    current = getattr(part, name)
    if current is None and rest:
        inner = reduce(lambda built, key: {key: built}, reversed(rest), value)
    else:
        inner = _replaced(current, rest, value, (*done, name))
    try:
        return part.replaced(name, inner)
    except ValidationError as error:
        raise refusal(issues_of(error, type(part), done)) from None
