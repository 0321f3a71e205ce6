"""A trial step, and the model of a trial on a few layers, as a configuration with fewer layers would build it."""

from dataclasses import replace
from functools import lru_cache

from planner.model.spec import LayerGroup, ModelSpec, Stack
from planner.scenario.phases import Design
from planner.scenario.step import TrainingStep


@lru_cache(maxsize=64)
def reduced(spec: ModelSpec, layers: int | None) -> ModelSpec:
    """The model with the first `layers` layers of each stack (`num_hidden_layers`); as it is where None is asked.

    The layers of a denoiser are no run of equal ones that could be cut short.
    """
    if layers is None or spec.task == "diffusion":
        return spec
    return replace(spec, stacks=tuple(_cut(stack, layers) for stack in spec.stacks))


@lru_cache(maxsize=64)
def trial_step(phase: Design) -> TrainingStep:
    """The trial as a training step whose optimizer keeps no states."""
    shared = {field: getattr(phase, field) for field in type(phase).model_fields if field in TrainingStep.model_fields}
    return TrainingStep(**shared, optimizer="sgd")


def _cut(stack: Stack, layers: int) -> Stack:
    groups: list[LayerGroup] = []
    left = layers
    for group in stack.groups:
        if left > 0:
            groups.append(replace(group, count=min(group.count, left)))
            left -= group.count
    return replace(stack, groups=tuple(groups))
