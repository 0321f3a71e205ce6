"""Training and fine-tuning: the recording of one step, beside the states that stand through it."""

from typing import Literal, cast

import numpy as np

from planner.engine.activations.lower import PRECISIONS, Lowered, lower
from planner.engine.activations.recipe import Loss, Sharding
from planner.engine.activations.setting import Loads
from planner.engine.activations.tape import BYTES
from planner.engine.phases.methods import (
    adapter_recipe,
    joined_tokens,
    offloads_gradients,
    techniques,
    trained_layers,
    virtual_tokens,
)
from planner.engine.phases.standing import StateChoices, adapters, has_master_weights, recipe_precision, standing
from planner.engine.rounding import ceil_div, smaller
from planner.engine.sharding import ALL, WHOLE_TENSORS, Shards, gathers_are_recorded
from planner.engine.term import Number
from planner.engine.traced import TracedPhase
from planner.model.spec import ModelSpec
from planner.scenario.step import TrainingStep

TORCHTUNE_CHUNKS = 8
MOMENTS = {name: name for name in ALL}


def plan_step(
    phase: TrainingStep,
    spec: ModelSpec,
    *,
    micro_batch_size: Number | None = None,
    sequence_length: Number | None = None,
) -> TracedPhase:
    """One step of training or fine-tuning on the fullest rank.

    `micro_batch_size` and `sequence_length` replace those of the phase, and may be arrays over a sweep.
    """
    states = standing(spec, StateChoices.of(phase))
    lowered = _lower(
        phase,
        spec,
        phase.micro_batch_size if micro_batch_size is None else micro_batch_size,
        phase.sequence_length if sequence_length is None else sequence_length,
    )
    return TracedPhase(
        lowered,
        states.terms,
        MOMENTS,
        1 if gathers_are_recorded(phase.parallelism) else Shards.of(phase.parallelism).gradients,
        _exact_gradients(lowered, states.trained_elements),
    )


def _lower(phase: TrainingStep, spec: ModelSpec, batch: Number, length: Number) -> Lowered:
    parallelism = phase.parallelism
    tuned = adapters(phase)
    if parallelism.context > 1:
        length = ceil_div(length, parallelism.context)
    length = length + joined_tokens(phase)
    loads = Loads(
        batch=batch,
        sequence=length,
        rank=tuned.lora.rank if tuned else 1,
        virtual_tokens=virtual_tokens(phase),
        decoder_sequence=phase.decoder_sequence_length,
        image_size=phase.image_size,
        tensor_parallel=parallelism.tensor,
        sequence_parallel=parallelism.sequence_parallel,
        pipeline=parallelism.pipeline,
        loss_chunk=_loss_chunk(phase, spec, batch * length),
    )
    full = phase.activation_checkpointing == "full"
    return lower(
        spec,
        loads,
        precision=recipe_precision(phase),
        attention=phase.attention_implementation,
        mask=phase.attention_mask,
        version=phase.framework_version,
        training=True,
        checkpointing=("reentrant" if phase.checkpointing_reentrant else "non-reentrant") if full else "none",
        loss=cast(Loss, phase.loss_implementation),
        loss_upcast=phase.loss_upcast,
        keeps_outputs=phase.keeps_outputs,
        gradients_from_start=_gradients_from_start(phase),
        gradient_dtype="fp32" if has_master_weights(recipe_precision(phase)) else None,
        lora=adapter_recipe(phase, spec),
        quantized_base=tuned is not None and tuned.frozen_format is not None,
        use_cache=phase.use_cache and not full,
        experts=phase.experts_implementation,
        sharding=_sharding(phase),
        shards=Shards.of(parallelism).weights,
        techniques=techniques(phase),
        trained_layers=trained_layers(phase),
        profile=phase.activation_profile,
    )


def _loss_chunk(phase: TrainingStep, spec: ModelSpec, tokens: Number) -> Number:
    """Tokens per chunk: stated, or as the implementations choose them.

    torchtune cuts the sequence in 8; Liger takes about as many tokens as keep a chunk of logits the size of the
    hidden states, as a power of two.
    """
    if phase.loss_chunk_tokens is not None:
        stated: Number = smaller(tokens, phase.loss_chunk_tokens)
        return stated
    if phase.loss_chunks is not None or phase.loss_implementation != "fused_linear" or spec.head is None:
        return -(-tokens // (phase.loss_chunks or TORCHTUNE_CHUNKS))
    pieces = -(-spec.head.outputs // spec.stack.hidden_size)
    share = np.asarray(-(-tokens // pieces))
    chunk = 2 ** np.ceil(np.log2(np.maximum(share, 1))).astype(np.int64)
    chosen: Number = smaller(tokens, chunk if chunk.ndim else int(chunk))
    return chosen


def _sharding(phase: TrainingStep) -> Sharding | None:
    """FSDP's mixed precision: autocast precisions mean fp32 shards that are gathered in 16 bits."""
    spread = phase.parallelism
    if not gathers_are_recorded(spread):
        return None
    shard_dtype, autocast = PRECISIONS[phase.precision]
    compute_dtype = autocast or shard_dtype
    flat = spread.backend == "fsdp1"
    return Sharding(
        shard_dtype,
        compute_dtype,
        spread.fsdp_reduce_dtype or compute_dtype,
        spread.reshard_after_forward,
        flat_parameters=flat,
        keeps_gradients=flat and spread.use_orig_params,
    )


def _gradients_from_start(phase: TrainingStep) -> Literal["none", "step", "accumulation"]:
    """Whether backward finds gradients to add to."""
    if offloads_gradients(phase):
        return "none"
    spread = phase.parallelism
    under_ddp = spread.zero_stage == 0 or spread.backend == WHOLE_TENSORS
    in_buckets = under_ddp and spread.data > 1 and spread.gradient_as_bucket_view
    if has_master_weights(recipe_precision(phase)) or in_buckets or not phase.zero_grad_set_to_none:
        return "step"
    return "accumulation" if phase.gradient_accumulation_steps > 1 else "none"


def _exact_gradients(lowered: Lowered, trained_elements: int) -> int | None:
    """Bytes of all gradients where the recorded layers are not exactly the model's own; None where they are."""
    recipe = lowered.recipe
    if not lowered.approximations or recipe.lora is not None or recipe.sharding is not None:
        return None
    if recipe.techniques.update_copies is not None:
        return None
    return trained_elements * BYTES[lowered.recipe.gradient_dtype]
