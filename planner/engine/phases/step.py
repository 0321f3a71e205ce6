"""Training and fine-tuning: the recording of one step, beside the states that stand through it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from planner.engine.activations.lower import PRECISIONS, Lowered, lower
from planner.engine.activations.recipe import Loss, Sharding
from planner.engine.activations.setting import Loads
from planner.engine.activations.tape import BYTES
from planner.engine.moments import ALL, IN_MODEL
from planner.engine.phases.gradients import accumulates_in_fp32, gradients_from_start, whole_until_the_last
from planner.engine.phases.methods import (
    adapter_recipe,
    divides_logits,
    joined_tokens,
    techniques,
    trained_layers,
    virtual_tokens,
)
from planner.engine.phases.role_models import role_spec, trains_together, value_phase
from planner.engine.phases.roles import role_terms, sequences_per_sample, value_activations
from planner.engine.phases.stage_shards import stage_terms
from planner.engine.phases.standing import StateChoices, adapters, recipe_precision, standing
from planner.engine.pipeline import Ends, Stage, ends_of, layers_of, may_be_fullest, stage_layers
from planner.engine.rounding import ceil_div, smaller
from planner.engine.sharding import (
    Shards,
    divided,
    gathers_are_recorded,
    gathers_stages,
)
from planner.engine.switches import switches
from planner.engine.term import Factor, Number, Term
from planner.engine.traced import TracedPhase
from planner.model.spec import ModelSpec
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

TORCHTUNE_CHUNKS = 8
LITGPT_CHUNK = 128
SCHEDULE = "Megatron-LM, megatron/core/pipeline_parallel/schedules.py (1F1B and its interleaved form)"
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
    batch, length = _sizes(phase, micro_batch_size, sequence_length)
    whole = _plan(phase, spec, batch, length)
    points = kinds_of_points(spec, batch, length)
    if not points:
        return whole
    parts = ((where, _plan(phase, spec, _at(batch, where), _at(length, where))) for where in points)
    return replace(whole, parts=tuple(parts))


def _sizes(
    phase: TrainingStep, micro_batch_size: Number | None, sequence_length: Number | None
) -> tuple[Number, Number]:
    """Sequences and tokens of each on one GPU."""
    batch = phase.micro_batch_size if micro_batch_size is None else micro_batch_size
    return batch, own_length(phase, phase.sequence_length if sequence_length is None else sequence_length)


def kinds_of_points(spec: ModelSpec, batch: Number, length: Number) -> tuple[NDArray[np.bool_], ...]:
    """Points of a sweep between which other tensors exist; empty where they are the same at all points."""
    if np.size(batch) == 1 and np.size(length) == 1:
        return ()
    batches, lengths = np.broadcast_arrays(batch, length)
    kind = np.zeros(batches.shape, dtype=np.int64)
    for item in switches(spec):
        kind = 2 * kind + ((batches if item.axis == "batch" else lengths) > item.last)
    kinds = np.unique(kind)
    return tuple(kind == one for one in kinds) if len(kinds) > 1 else ()


def _at(value: Number, points: NDArray[np.bool_]) -> Number:
    if np.size(value) == 1:
        return value
    chosen: Number = np.broadcast_to(np.asarray(value), points.shape)[points]
    return chosen


def own_length(phase: TrainingStep, length: Number) -> Number:
    """Tokens of a sequence on one GPU, trained ones in front included."""
    if phase.parallelism.context > 1:
        length = ceil_div(length, phase.parallelism.context)
    return length + joined_tokens(phase)


def _plan(phase: TrainingStep, spec: ModelSpec, batch: Number, length: Number) -> TracedPhase:
    if phase.parallelism.pipeline > 1:
        return fullest(phase, plan_stages(phase, spec, batch, length))
    states = standing(spec, StateChoices.of(phase))
    terms = (
        *states.terms,
        *role_terms(phase, spec, None, batch, length),
    )
    if isinstance(phase, FineTuning) and trains_together(phase):
        model = role_spec(phase.value, spec, scores=True)
        value = TracedPhase(lowered_step(value_phase(phase), model, batch, length), (), MOMENTS)
        terms = (*terms, value_activations(1, value.kept_bytes()))
    batch = batch * sequences_per_sample(phase)
    return traced_step(phase, terms, lowered_step(phase, spec, batch, length), states.trained_elements)


def traced_step(phase: TrainingStep, terms: tuple[Term, ...], lowered: Lowered, trained_elements: int) -> TracedPhase:
    """A recording beside the terms that stand; `trained_elements` are those of the recorded part of the model."""
    spread = phase.parallelism
    unit_by_unit = gathers_are_recorded(spread) and not gathers_stages(spread)
    shards = 1 if unit_by_unit else Shards.of(spread).gradients
    exact = _exact_gradients(lowered, trained_elements, experts_apart=spread.expert > 1 and shards > 1)
    return TracedPhase(lowered, terms, MOMENTS, shards, exact)


def lowered_step(phase: TrainingStep, spec: ModelSpec, batch: Number, length: Number, ends: Ends = "both") -> Lowered:
    """The recipe of one micro-batch through the model, or through a part of it with these ends."""
    parallelism = phase.parallelism
    tuned = adapters(phase)
    loads = Loads(
        batch=batch,
        sequence=length,
        rank=tuned.lora.rank if tuned else 1,
        virtual_tokens=virtual_tokens(phase),
        decoder_sequence=phase.decoder_sequence_length,
        image_size=phase.image_size,
        image_tokens=phase.image_tokens,
        tensor_parallel=parallelism.tensor,
        expert_parallel=parallelism.expert,
        expert_tensor=parallelism.ranks_per_expert,
        context_parallel=parallelism.context,
        sequence_parallel=parallelism.sequence_parallel or phase.activation_profile == "torchtitan",
        loss_parallel=divides_logits(phase),
        loss_chunk=_loss_chunk(phase, spec, batch, length),
    )
    full = phase.activation_checkpointing == "full"
    precision, gradient_dtype = recipe_precision(phase), "fp32" if accumulates_in_fp32(phase) else None
    if gathers_stages(parallelism):
        # The stage runs on what was gathered of it; its rank keeps its shares in their own type.
        gradient_dtype = PRECISIONS[precision][0]
        precision = precision.removeprefix("amp-")
    return lower(
        spec,
        loads,
        precision=precision,
        attention=phase.attention_implementation,
        mask=phase.attention_mask,
        version=phase.framework_version,
        training=True,
        checkpointing=("reentrant" if phase.checkpointing_reentrant else "non-reentrant") if full else "none",
        loss=_loss(phase),
        loss_upcast=phase.loss_upcast,
        keeps_outputs=phase.keeps_outputs,
        gradients_from_start=gradients_from_start(phase),
        gradient_dtype=gradient_dtype,
        lora=adapter_recipe(phase, spec),
        quantized_base=tuned is not None and tuned.frozen_format is not None,
        use_cache=phase.use_cache and not full,
        experts=phase.experts_implementation,
        token_dispatcher=phase.moe_token_dispatcher,
        sharding=None if gathers_stages(parallelism) else _sharding(phase),
        shards=Shards.of(parallelism).weights,
        techniques=techniques(phase),
        trained_layers=trained_layers(phase),
        profile=phase.activation_profile,
        ends=ends,
    )


def _loss(phase: TrainingStep) -> Loss:
    """Preference and reinforcement tuning train with log-probabilities instead of a cross entropy (TRL)."""
    preferred = isinstance(phase, FineTuning) and phase.objective != "sft" and not phase.compile_loss
    if preferred and phase.loss_implementation == "full_logits" and phase.activation_profile == "hf-transformers":
        return "log_probabilities"
    return cast(Loss, phase.loss_implementation)


def _loss_chunk(phase: TrainingStep, spec: ModelSpec, batch: Number, length: Number) -> Number:
    """Tokens per chunk: stated, or as the implementations choose them.

    torchtune cuts the sequence in 8; Liger takes about as many tokens as keep a chunk of logits the size of the
    hidden states, as a power of two; LitGPT takes so many positions of every sequence, whatever the batch, 128 by
    default (`litgpt/finetune/lora.py: fit`, `lm_head_chunk_size`).
    """
    if phase.activation_profile == "litgpt":
        positions = phase.loss_chunk_tokens or LITGPT_CHUNK
        cut: Number = -(-length // phase.loss_chunks) if phase.loss_chunks is not None else positions
        of_each: Number = smaller(length, cut)
        return of_each
    tokens = batch * length
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
    shard_dtype, autocast = PRECISIONS[recipe_precision(phase)]
    compute_dtype = autocast or shard_dtype
    flat = spread.backend == "fsdp1"
    reshard = spread.reshard_after_forward and spread.zero_stage == 3
    return Sharding(
        shard_dtype,
        compute_dtype,
        spread.fsdp_reduce_dtype or compute_dtype,
        reshard,
        flat_parameters=flat,
        keeps_gradients=flat and spread.use_orig_params,
        waits=whole_until_the_last(phase),
        offloads=phase.offload.parameters != "none",
        gathers_fp8=phase.precision == "fp8" and phase.fp8_all_gather,
    )


def _exact_gradients(lowered: Lowered, trained_elements: int, *, experts_apart: bool) -> int | None:
    """Bytes of all gradients where the recorded layers are not exactly the model's own; None where they are."""
    recipe = lowered.recipe
    if not (lowered.approximations or experts_apart) or recipe.lora is not None or recipe.sharding is not None:
        return None
    if recipe.techniques.update_copies is not None:
        return None
    return trained_elements * BYTES[lowered.recipe.gradient_dtype]


def plan_pipeline(
    phase: TrainingStep,
    spec: ModelSpec,
    *,
    micro_batch_size: Number | None = None,
    sequence_length: Number | None = None,
    every_stage: bool = True,
) -> tuple[TracedPhase, ...]:
    """Every stage of the phase's pipeline, or those of which one is the fullest; the one rank's step without stages.

    Sizes may be arrays over points of one kind (`kinds_of_points`).
    """
    batch, length = _sizes(phase, micro_batch_size, sequence_length)
    layout = phase.parallelism
    if layout.pipeline == 1:
        return (_plan(phase, spec, batch, length),)
    some = None if every_stage else may_be_fullest(spec, layout.pipeline, layout.pipeline_interleave)
    return plan_stages(phase, spec, batch, length, some)


def plan_stages(
    phase: TrainingStep, spec: ModelSpec, batch: Number, length: Number, some: Sequence[int] | None = None
) -> tuple[TracedPhase, ...]:
    """Stages of the pipeline at the backward pass of its first micro-batch, when most of them are in flight.

    A value model beside the policy is trained at another time (`role_update`), so that only what stands of it counts.
    """
    layout = phase.parallelism
    indices = range(layout.pipeline) if some is None else some
    stages = (Stage(index, layout.pipeline, layout.pipeline_interleave) for index in indices)
    return tuple(_plan_stage(phase, spec, stage, batch, length) for stage in stages)


def _plan_stage(phase: TrainingStep, spec: ModelSpec, stage: Stage, batch: Number, length: Number) -> TracedPhase:
    roles = role_terms(phase, spec, stage, batch, length)
    batch = batch * sequences_per_sample(phase)
    states = standing(stage_layers(spec, stage), StateChoices.of(phase, stage.ends))
    running = stage.chunks - 1
    ends = ends_of(first=stage.is_first and running == 0, last=stage.is_last)
    part = layers_of(spec, stage, running)
    own = states if stage.chunks == 1 else standing(part, StateChoices.of(phase, ends))
    waiting: list[tuple[int, TracedPhase]] = []
    for chunk, count in enumerate(stage.micro_batches_in_flight(phase.gradient_accumulation_steps)):
        others = count - (chunk == running)
        if others > 0:
            kept_ends = ends_of(first=stage.is_first and chunk == 0, last=False)
            lowered = lowered_step(phase, layers_of(spec, stage, chunk), batch, length, kept_ends)
            waiting.append((others, TracedPhase(lowered, (), MOMENTS)))
    terms = (
        *states.terms,
        *roles,
        *(_waiting(count, part.kept_bytes()) for count, part in waiting),
        *_other_chunks(phase, states.trained_elements - own.trained_elements),
        *_whole_stage(phase, spec, stage, states.trained_elements),
    )
    lowered = lowered_step(phase, part, batch, length, ends)
    return replace(traced_step(phase, terms, lowered, own.trained_elements), waiting=tuple(waiting))


def _whole_stage(phase: TrainingStep, spec: ModelSpec, stage: Stage, trained: int) -> tuple[Term, ...]:
    sharding = _sharding(phase)
    if sharding is None:
        return ()
    return stage_terms(stage_layers(spec, stage), stage.ends, phase.parallelism, sharding, trained)


def _waiting(count: int, kept: Number) -> Term:
    factors = (Factor("micro-batches in flight, beside the running one", count), Factor("bytes kept by one", kept))
    return Term("activations", "micro-batches that wait for backward", factors, IN_MODEL, SCHEDULE)


def _other_chunks(phase: TrainingStep, elements: int) -> tuple[Term, ...]:
    """Gradients of the chunks that the recorded micro-batch does not run through."""
    if elements <= 0:
        return ()
    fresh = gradients_from_start(phase) == "none"
    dtype = "fp32" if accumulates_in_fp32(phase) else PRECISIONS[recipe_precision(phase)][0]
    factors = (Factor("parameters of the other chunks", elements), Factor("bytes", BYTES[dtype]))
    alive = ("optimizer_step",) if fresh else ALL
    return divided(
        (Term("gradients", "gradients of the other chunks", factors, alive, SCHEDULE),),
        Shards.of(phase.parallelism).gradients,
    )


def fullest(phase: TrainingStep, stages: tuple[TracedPhase, ...]) -> TracedPhase:
    """The stage that the figures are for."""
    wanted = phase.parallelism.reported_stage
    if wanted == "fullest":
        return max(stages, key=lambda stage: int(np.max(stage.peak_bytes())))
    return stages[0 if wanted == "first" else -1]
