"""Which fields of a phase can be explored, and how they are called."""

from functools import reduce

from planner.engine.switches import AXES
from planner.gui.state import State
from planner.scenario import FieldPath, declaration_at

_FURTHER: tuple[tuple[str, ...], ...] = (
    ("lora", "rank"),
    ("parallelism", "zero_stage"),
    ("parallelism", "tensor"),
)
_WITHOUT_VRAM = "preprocessing"


def fields_of(state: State, phase: str) -> dict[FieldPath, str]:
    """The fields of a planned phase that have a curve, by their labels in the form."""
    planned = getattr(state.scenario.phases, phase)
    if planned is None or phase == _WITHOUT_VRAM:
        return {}
    names = (*((name,) for name in AXES[phase]), *_FURTHER)  # type: ignore[index]  # a phase by its name
    found: dict[FieldPath, str] = {}
    for name in names:
        path: FieldPath = ("phases", phase, *name)
        declared = declaration_at(path)
        if declared is not None and reduce(lambda part, step: getattr(part, step, None), name, planned) is not None:
            found[path] = declared.label
    return found
