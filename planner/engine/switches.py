"""The sizes of a workload, and where a framework runs other kernels: there the need may jump, even downwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from planner.engine.plan import PhaseName
from planner.model.spec import ModelSpec

Axis = Literal["batch", "sequence"]

AXES: Mapping[PhaseName, Mapping[str, Axis]] = {
    "design": {"micro_batch_size": "batch", "sequence_length": "sequence"},
    "preprocessing": {"batch_size": "batch"},
    "training": {"micro_batch_size": "batch", "sequence_length": "sequence"},
    "fine_tuning": {"micro_batch_size": "batch", "sequence_length": "sequence"},
    "evaluation": {"batch_size": "batch", "sequence_length": "sequence"},
    "serving": {"concurrent_sequences": "batch", "context_length": "sequence"},
}
"""The sizes of each phase, which may be looked for and swept as arrays."""

ONE_SEQUENCE = "heads of a single sequence are a batch of matrices without a copy"
WINDOW = "a sequence longer than a layer's window needs a mask, with which attention runs another kernel"


@dataclass(frozen=True, slots=True)
class Switch:
    """Other tensors exist above `last` than up to it."""

    axis: Axis
    last: int
    why: str


def tile_length(spec: ModelSpec) -> int:
    """Above every multiple of this length, a tiled feed-forward has one more tile, and all its tiles are shorter.

    DeepSpeed `TiledMLP`: ceil(sequence / hidden) equal tiles.
    """
    return spec.stack.hidden_size


def switches(spec: ModelSpec) -> tuple[Switch, ...]:
    """Those of a model, in rising order along each axis."""
    windows = {getattr(group.mixer, "window", None) for stack in spec.stacks for group in stack.groups}
    found = sorted(window for window in windows if window is not None)
    return (Switch("batch", 1, ONE_SEQUENCE), *(Switch("sequence", window, WINDOW) for window in found))
