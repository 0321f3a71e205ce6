"""Where gradients stay from one step to the next, and in which dtype they are added up."""

from typing import Literal

from planner.engine.phases.methods import offloads_gradients
from planner.engine.phases.standing import has_master_weights, recipe_precision
from planner.engine.sharding import WHOLE_TENSORS, states_in_16_bits
from planner.scenario.step import TrainingStep


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


def accumulates_in_fp32(phase: TrainingStep) -> bool:
    """Whether gradients of 16-bit weights are added up in fp32: Megatron Core, DeepSpeed's BF16_Optimizer."""
    stated = phase.gradient_accumulation_dtype
    in_fp32 = not states_in_16_bits(phase.parallelism) if stated is None else stated == "fp32"
    return has_master_weights(recipe_precision(phase)) and in_fp32
