"""Where gradients stay from one step to the next, and in which dtype they are added up."""

from typing import Literal

from planner.engine.phases.methods import offloads_gradients
from planner.engine.phases.standing import has_master_weights, recipe_precision
from planner.engine.sharding import WHOLE_TENSORS, gathers_are_recorded, gathers_stages, states_in_16_bits
from planner.scenario.step import TrainingStep

WAITING = ("hf-transformers", "litgpt")
"""Loops that scatter gradients at the last micro-batch alone: transformers 5.24 `trainer.py` and accelerate 1.15
`Accelerator.no_sync`, where `sync_each_batch` is off; LitGPT, `fabric.no_backward_sync`."""


def gradients_from_start(phase: TrainingStep) -> Literal["none", "step", "accumulation"]:
    """Whether backward finds gradients to add to."""
    if offloads_gradients(phase):
        return "none"
    spread = phase.parallelism
    under_ddp = spread.zero_stage == 0 or spread.backend == WHOLE_TENSORS
    in_buckets = under_ddp and spread.shard_ranks > 1 and spread.gradient_as_bucket_view
    flat_buffer = spread.backend == "deepspeed" and spread.zero_stage == 3
    if accumulates_in_fp32(phase) or flat_buffer or in_buckets or not phase.zero_grad_set_to_none:
        return "step"
    return "accumulation" if phase.gradient_accumulation_steps > 1 else "none"


def reduces_every_micro_batch(phase: TrainingStep) -> bool:
    """Whether FSDP scatters the gradients of each micro-batch, as stated or as the training loop has it."""
    stated = phase.parallelism.reduces_every_micro_batch
    return phase.activation_profile not in WAITING if stated is None else stated


def whole_until_the_last(phase: TrainingStep) -> bool:
    """Whether FSDP keeps whole gradients of earlier micro-batches. Stages of a pipeline are gathered as a whole."""
    spread = phase.parallelism
    unit_by_unit = gathers_are_recorded(spread) and not gathers_stages(spread)
    return unit_by_unit and phase.gradient_accumulation_steps > 1 and not reduces_every_micro_batch(phase)


def accumulates_in_fp32(phase: TrainingStep) -> bool:
    """Whether gradients of 16-bit weights are added up in fp32: Megatron Core, DeepSpeed's BF16_Optimizer."""
    stated = phase.gradient_accumulation_dtype
    in_fp32 = not states_in_16_bits(phase.parallelism) if stated is None else stated == "fp32"
    return has_master_weights(recipe_precision(phase)) and in_fp32
