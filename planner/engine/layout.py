"""The smallest number of GPUs on which a training step fits, over the layouts that are legal for the model."""

from collections.abc import Iterator

from planner.engine.assemble import Context
from planner.engine.band import band, case_class
from planner.engine.overhead import allocator_term, process_overhead, workspace_term
from planner.engine.phases.stage_report import settled_step
from planner.engine.phases.step import plan_step
from planner.engine.verdict import MOST_GPUS, gpus_needed
from planner.engine.workspaces import workspace_bytes
from planner.hardware import ChosenGpu
from planner.model.spec import Attention, ModelSpec
from planner.scenario.parallelism import Parallelism
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

TENSOR_DEGREES = (1, 2, 4, 8)
"""Within one node; further apart, exchanging activations in every layer is too slow to be bought for."""


def training_gpus_needed(phase: TrainingStep, spec: ModelSpec, gpu: ChosenGpu, context: Context) -> int | None:
    """The fewest GPUs that fit the step, with everything that data-parallel ranks can share shared among them."""

    def need(gpus: int) -> int | None:
        needs = [_process_bytes(phase, spec, layout, gpu, context) for layout in layouts(spec, gpus)]
        return min(needs, default=None)

    return gpus_needed(need, gpu.capacities.usable_bytes, most=MOST_GPUS)


def layouts(spec: ModelSpec, gpus: int) -> Iterator[Parallelism]:
    """Data and tensor degrees whose product is `gpus`, with ZeRO-3 over the data-parallel ranks."""
    for tensor in TENSOR_DEGREES:
        if gpus % tensor == 0 and _divides_heads(spec, tensor):
            data = gpus // tensor
            yield Parallelism(data=data, tensor=tensor, zero_stage=3 if data > 1 else 0)


def _divides_heads(spec: ModelSpec, tensor: int) -> bool:
    return all(group.mixer.heads % tensor == 0 for group in spec.stack.groups if isinstance(group.mixer, Attention))


def _allocated(phase: TrainingStep, spec: ModelSpec) -> int:
    """Bytes at the fullest moment, what is held between steps of reinforcement tuning included."""
    if isinstance(phase, FineTuning) and phase.objective in ("ppo", "grpo"):
        return settled_step(phase, spec)[0].fullest.allocated_bytes
    return int(plan_step(phase, spec).peak_bytes())


def _process_bytes(phase: TrainingStep, spec: ModelSpec, layout: Parallelism, gpu: ChosenGpu, context: Context) -> int:
    """The high end of the band around the process's bytes."""
    allocated = _allocated(phase.model_copy(update={"parallelism": layout}), spec)
    allocated += workspace_bytes(phase.activation_profile, spec, gpu.gpu, context.hardware.overheads)
    slack = allocator_term(allocated, (), expandable_segments=phase.expandable_segments)
    standing = process_overhead(gpu.gpu, context.hardware.overheads, (), gpus=layout.ranks, training=True)
    workspace = workspace_term(gpu.gpu, context.hardware.overheads, ())
    chosen = band(case_class("training", ranks=layout.ranks, approximate=spec.approximate is not None))
    return chosen.around(allocated + int(slack.bytes) + int(workspace.bytes) + standing.bytes)[1]
