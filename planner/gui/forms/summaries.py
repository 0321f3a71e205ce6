"""What a closed group of fields says about itself, such as `DP 8 · ZeRO-1`."""

from planner.scenario.choices import OFFLOADS
from planner.scenario.parallelism import Offload, Parallelism, ServingParallelism
from planner.scenario.phases import Lora
from planner.scenario.roles import FurtherModel

_SEPARATOR = " · "


def summary(part: object) -> str:
    """One short line for a part of a phase; empty where there is nothing to say."""
    if isinstance(part, ServingParallelism):
        return _parallelism(part)
    if isinstance(part, Offload):
        return _offload(part)
    if isinstance(part, Lora):
        return f"rank {part.rank}"
    return _model(part) if isinstance(part, FurtherModel) else ""


def _model(part: FurtherModel) -> str:
    size = f"{part.parameters / 1e9:g} B parameters" if part.parameters else "as the policy"
    words = [part.preset.rpartition("/")[2] if part.preset else size]
    words += [part.dtype] if part.dtype else []
    return _SEPARATOR.join(words)


def _parallelism(part: ServingParallelism) -> str:
    degrees = [("DP", part.data), ("TP", part.tensor), ("PP", part.pipeline), ("EP", part.expert)]
    if isinstance(part, Parallelism):
        degrees.append(("CP", part.context))
    words = [f"{name} {degree}" for name, degree in degrees if degree > 1]
    if isinstance(part, Parallelism) and part.zero_stage:
        words.insert(1 if part.data > 1 else 0, f"ZeRO-{part.zero_stage}")
    return _SEPARATOR.join(words) or "one GPU"


def _offload(part: Offload) -> str:
    places = (
        ("optimizer", part.optimizer),
        ("weights", part.parameters),
        ("gradients", part.gradients),
        ("activations", part.activations),
    )
    words = [f"{name} in {OFFLOADS[place]}" for name, place in places if place != "none"]
    return _SEPARATOR.join(words) or "none"
