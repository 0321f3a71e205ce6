"""Training and fine-tuning: what stays for the whole step, beside the recording of the step itself."""

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from planner.engine.activations.lower import PRECISIONS, Loads, Lowered, lora_recipe, lower
from planner.engine.activations.tape import BYTES
from planner.engine.optimizer import ParameterTensor, state_terms, step_temporary_terms
from planner.engine.rounding import smaller
from planner.engine.quantization import stage_weights, weight_terms
from planner.engine.sharding import ALL, Shards, divided, sharding_buffers
from planner.engine.term import Factor, Number, Term
from planner.engine.traced import TracedPhase
from planner.model.counts import lora_targets, shard_elements
from planner.model.spec import Attention, ModelSpec
from planner.model.weights import Weight
from planner.scenario.phases import FineTuning
from planner.scenario.step import TrainingStep

TORCHTUNE_CHUNKS = 8
MOMENTS = {name: name for name in ALL}
MASTER = "16-bit weights with an fp32 copy that the optimizer updates: DeepSpeed BF16_Optimizer, Megatron-LM"
ADAPTERS = "peft 0.21: rank x (inputs + outputs) for each adapted layer (LoRA, arXiv:2106.09685)"
ROTARY = "transformers 5.24, LlamaRotaryEmbedding: inv_freq and original_inv_freq, fp32"


@dataclass(frozen=True, slots=True)
class Trained:
    """Which tensors a step updates."""

    tensors: tuple[ParameterTensor, ...]
    weight_terms: tuple[Term, ...]

    @property
    def elements(self) -> int:
        return sum(tensor.elements * tensor.multiplicity for tensor in self.tensors)


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
    parallelism = phase.parallelism
    shards = Shards.of(parallelism)
    weight_dtype, _ = PRECISIONS[phase.precision]
    master = phase.precision.endswith("-fp32-master")
    trained = _trained(phase, spec, 4 if master else BYTES[weight_dtype])
    lowered = _lower(phase, spec, trained, master, micro_batch_size, sequence_length)
    standing = [
        *divided(trained.weight_terms, shards.weights),
        *rotary_buffers(spec, ALL),
        *_optimizer_terms(phase, trained, shards.optimizer, master),
        *sharding_buffers(
            spec, parallelism, trained.elements, 2, 4 if master else BYTES[lowered.recipe.gradient_dtype]
        ),
    ]
    if phase.offload.parameters != "none":
        standing = [item for item in standing if item.name not in ("embeddings", "head", "layers")]
    return TracedPhase(lowered, tuple(standing), MOMENTS, shards.gradients, _exact_gradients(phase, lowered, trained))


def _lower(
    phase: TrainingStep,
    spec: ModelSpec,
    trained: Trained,
    master: bool,
    micro_batch_size: Number | None,
    sequence_length: Number | None,
) -> Lowered:
    parallelism = phase.parallelism
    tuned = phase if isinstance(phase, FineTuning) and phase.uses_adapters else None
    bucket_view = parallelism.zero_stage == 0 and parallelism.data > 1 and parallelism.gradient_as_bucket_view
    gradients: Literal["none", "step", "accumulation"] = "none"
    if master or bucket_view or not phase.zero_grad_set_to_none:
        gradients = "step"
    elif phase.gradient_accumulation_steps > 1:
        gradients = "accumulation"
    length = phase.sequence_length if sequence_length is None else sequence_length
    length = length if parallelism.context == 1 else -(-length // parallelism.context)
    batch = phase.micro_batch_size if micro_batch_size is None else micro_batch_size
    loads = Loads(
        batch=batch,
        sequence=length,
        rank=tuned.lora.rank if tuned else 1,
        tensor_parallel=parallelism.tensor,
        pipeline=parallelism.pipeline,
        loss_chunk=_loss_chunk(phase, spec, batch * length),
    )
    full = phase.activation_checkpointing == "full"
    return lower(
        spec,
        loads,
        precision=phase.precision,
        attention=phase.attention_implementation,
        mask=phase.attention_mask,
        version=phase.framework_version,
        training=True,
        checkpointing=("reentrant" if phase.checkpointing_reentrant else "non-reentrant") if full else "none",
        loss=phase.loss_implementation,
        loss_upcast=phase.loss_upcast,
        keeps_outputs=phase.keeps_outputs,
        gradients_from_start=gradients,
        gradient_dtype="fp32" if master else None,
        lora=lora_recipe(spec, tuned.lora.target_modules, dropout=tuned.lora.dropout > 0, dtype=tuned.lora.adapter_dtype)
        if tuned
        else None,
        quantized_base=tuned is not None and tuned.frozen_format is not None,
        use_cache=phase.use_cache and not full,
    )


def _loss_chunk(phase: TrainingStep, spec: ModelSpec, tokens: Number) -> Number:
    """Tokens per chunk: stated, or as the implementations choose them.

    torchtune cuts the sequence in 8; Liger takes about as many tokens as keep a chunk of logits the size of the
    hidden states, as a power of two.
    """
    if phase.loss_chunk_tokens is not None:
        return smaller(tokens, phase.loss_chunk_tokens)
    if phase.loss_chunks is not None or phase.loss_implementation != "fused_linear" or spec.head is None:
        return -(-tokens // (phase.loss_chunks or TORCHTUNE_CHUNKS))
    pieces = -(-spec.head.outputs // spec.stack.hidden_size)
    share = np.asarray(-(-tokens // pieces))
    chunk = 2 ** np.ceil(np.log2(np.maximum(share, 1))).astype(np.int64)
    return smaller(tokens, chunk if chunk.ndim else int(chunk))


def _trained(phase: TrainingStep, spec: ModelSpec, optimizer_bytes: int) -> Trained:
    """The tensors the optimizer updates, and the weights on the GPU."""
    parallelism = phase.parallelism
    weight_dtype, _ = PRECISIONS[phase.precision]
    tuned = phase if isinstance(phase, FineTuning) and phase.uses_adapters else None
    base = weight_terms(
        spec,
        (tuned.frozen_format if tuned else None) or weight_dtype,
        parallelism.tensor,
        ALL,
        pipeline=parallelism.pipeline,
        expert_parallel=parallelism.expert,
        experts_as_linear=phase.framework_version.startswith("transformers 4"),
    )
    if tuned is None:
        tensors = tuple(
            ParameterTensor(_shard_shape(weight, parallelism.tensor, parallelism.expert), copies, optimizer_bytes)
            for weight, copies in stage_weights(spec, parallelism.pipeline)
        )
        return Trained(tensors, base)
    rank, width = tuned.lora.rank, BYTES[tuned.lora.adapter_dtype]
    tensors = tuple(
        ParameterTensor(shape, copies, width)
        for weight, copies in lora_targets(spec, tuned.lora.target_modules)
        for shape in ((rank, weight.shape[1]), (weight.shape[0], rank))
    )
    count = sum(tensor.elements * tensor.multiplicity for tensor in tensors)
    adapters = Term("weights", "adapters", (Factor("adapter parameters", count), Factor("bytes", width)), ALL, ADAPTERS)
    return Trained(tensors, (*base, adapters))


def _shard_shape(weight: Weight, tensor_parallel: int, expert_parallel: int) -> tuple[int, ...]:
    """The shape of this rank's part of a weight."""
    if tensor_parallel == 1 and expert_parallel == 1:
        return weight.shape
    own = shard_elements(weight, tensor_parallel, expert_parallel)
    if len(weight.shape) == 1:
        return (own,)
    if weight.shard == "row":
        return (*weight.shape[:-1], own // prod(weight.shape[:-1]))
    return (own // prod(weight.shape[1:]), *weight.shape[1:])


def _optimizer_terms(phase: TrainingStep, trained: Trained, ranks: int, master: bool) -> tuple[Term, ...]:
    """States through the whole step, temporaries in `optimizer_step`; nothing where the states are offloaded."""
    if phase.offload.optimizer != "none":
        return ()
    state_bytes = None if phase.optimizer_state_dtype is None else BYTES[phase.optimizer_state_dtype]
    states = state_terms(
        phase.optimizer, phase.optimizer_implementation, trained.tensors, ALL, shards=ranks, state_bytes=state_bytes
    )
    temporaries = step_temporary_terms(
        phase.optimizer,
        phase.optimizer_implementation,
        trained.tensors,
        ("optimizer_step",),
        shards=ranks,
        state_bytes=state_bytes,
    )
    copy = Term("optimizer_states", "fp32 master weights",
                (Factor("parameters", trained.elements), Factor("bytes", 4)), ALL, MASTER)  # fmt: skip
    return (*states, *temporaries, *(divided((copy,), ranks) if master else ()))


def rotary_buffers(spec: ModelSpec, alive: tuple[str, ...]) -> tuple[Term, ...]:
    """The frequencies of rotary embedding, which the model keeps twice."""
    mixer = spec.stack.groups[0].mixer if spec.stack.groups else None
    if not isinstance(mixer, Attention) or mixer.rotary_share == 0:
        return ()
    rotated = int(mixer.head_dim * mixer.rotary_share) // 2
    factors = (Factor("buffers", 2), Factor("half of the rotated head dim", rotated), Factor("bytes", 4))
    return (Term("weights", "rotary frequencies", factors, alive, ROTARY),)


def _exact_gradients(phase: TrainingStep, lowered: Lowered, trained: Trained) -> int | None:
    """Bytes of all gradients where the recorded layers are not exactly the model's own; None where they are."""
    if not lowered.approximations or lowered.recipe.lora is not None:
        return None
    return trained.elements * BYTES[lowered.recipe.gradient_dtype]
