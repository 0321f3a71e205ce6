"""Sizes of a workload at which a framework runs other kernels: what is needed may jump there, even downwards."""

from dataclasses import dataclass
from typing import Literal

from planner.model.spec import ModelSpec

Axis = Literal["batch", "sequence"]

ONE_SEQUENCE = "heads of a single sequence are a batch of matrices without a copy"
WINDOW = "a sequence longer than a layer's window needs a mask, with which attention runs another kernel"


@dataclass(frozen=True, slots=True)
class Switch:
    """Other tensors exist above `last` than up to it."""

    axis: Axis
    last: int
    why: str


def switches(spec: ModelSpec) -> tuple[Switch, ...]:
    """Those of a model, in rising order along each axis."""
    windows = {getattr(group.mixer, "window", None) for stack in spec.stacks for group in stack.groups}
    found = sorted(window for window in windows if window is not None)
    return (Switch("batch", 1, ONE_SEQUENCE), *(Switch("sequence", window, WINDOW) for window in found))
