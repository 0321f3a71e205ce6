"""What a training step keeps on the GPU from its start to its end: weights, optimizer states, sharding buffers.

None of it depends on how many tokens a step sees, so it is counted once for all workloads of a kind.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from planner.engine.activations.lower import PRECISIONS
from planner.engine.activations.tape import BYTES
from planner.engine.buffers import buffer_terms
from planner.engine.components import frozen_terms, trained_part
from planner.engine.gathered import expert_ranks
from planner.engine.moments import ALL, IN_MODEL
from planner.engine.optimizer import ParameterTensor, is_hidden, state_terms, step_temporary_terms
from planner.engine.phases.methods import (
    frozen_parts,
    method_tensors,
    optimizer_kernels,
    trained_layers,
    updates_in_backward,
    virtual_tokens,
)
from planner.engine.pipeline import Ends
from planner.engine.quantization import stage_weights, weight_terms
from planner.engine.sharding import (
    WHOLE_TENSORS,
    Shards,
    divided,
    fullest_share,
    gathers_are_recorded,
    sharding_buffers,
    shares_rows,
)
from planner.engine.term import Factor, Term
from planner.model.counts import parameters, row_share, shard_elements, shard_shape
from planner.model.spec import ModelSpec
from planner.model.weights import Weight
from planner.scenario.parallelism import Offload, Parallelism
from planner.scenario.phases import FineTuning, Lora
from planner.scenario.step import TrainingStep

MASTER = "16-bit weights with an fp32 copy that the optimizer updates: DeepSpeed BF16_Optimizer, Megatron-LM"
ADAPTERS = "peft 0.21: rank x (inputs + outputs) for each adapted layer (LoRA, arXiv:2106.09685)"
CAST_GRADIENTS = "Megatron-LM, core/optimizer/optimizer.py: _copy_model_grads_to_main_grads"
RANK_STABILIZED = Factor("scaling by rsLoRA", 1, "alpha / root of the rank, a number of the layer (arXiv:2312.03732)")
DTENSOR = "torch 2.13 DTensor: the gradient of a row-wise embedding is replicated; redistributed at the optimizer step"
COMPUTE_BYTES = 2
TORCH_WORKSPACES = "torch aten/src/ATen/cuda: 32 MiB per handle on Hopper or with CUBLAS_WORKSPACE_CONFIG=:4096:8"
MEGATRON_WORKSPACES = (
    Term("temporaries", "cuBLAS workspaces", (Factor("handles", 2), Factor("bytes", 32 * 2**20)), ALL,
         TORCH_WORKSPACES),
)  # fmt: skip
FLOAT8_WORKSPACES = "Transformer Engine 2, pytorch/module/linear.py: _fp8_workspaces, told is_first_microbatch"
LIVE_PARAMETERS = 1_000_000_000
LIVE = "DeepSpeed configuration, stage3_max_live_parameters: 1e9 parameters stay gathered at most"


@dataclass(frozen=True, slots=True)
class StateChoices:
    """The choices of a step that decide its states."""

    precision: str
    optimizer: str
    implementation: str
    state_dtype: str | None
    parallelism: Parallelism
    offload: Offload
    experts_are_linear: bool
    lora: Lora | None
    frozen_format: str | None
    method: str
    trained_layers: int
    virtual_tokens: int
    updates_in_backward: bool
    profile: str
    version: str
    frozen_parts: frozenset[str] = frozenset()
    copies_gradients: bool = False
    """Gradients in 16 bits are cast for the master copy at the step."""
    caches_float8: bool = False
    """Float8 copies of weights stay from one micro-batch to the next."""
    encoded_ahead: str = "nothing"
    """What frozen encoders of a pipeline have done before."""
    ends: Ends | None = None
    """For a part of a model with no layers but its own, which ends it has."""

    @classmethod
    def of(cls, phase: TrainingStep, ends: Ends | None = None) -> "StateChoices":
        tuned = adapters(phase)
        return cls(
            recipe_precision(phase),
            phase.optimizer,
            optimizer_kernels(phase),
            phase.optimizer_state_dtype,
            phase.parallelism,
            phase.offload,
            phase.framework_version.startswith("transformers 4"),
            tuned.lora if tuned else None,
            tuned.frozen_format if tuned else None,
            phase.method if isinstance(phase, FineTuning) else "full",
            trained_layers(phase) or 0,
            virtual_tokens(phase),
            updates_in_backward(phase),
            phase.activation_profile,
            phase.framework_version,
            frozen_parts(phase),
            _copies_gradients(phase),
            phase.precision == "fp8" and phase.activation_profile == "megatron-core",
            phase.encoded_ahead,
            ends,
        )

    @property
    def has_master_weights(self) -> bool:
        return has_master_weights(self.precision)

    @property
    def weight_dtype(self) -> str:
        return PRECISIONS[self.precision][0]

    @property
    def keeps_fp32(self) -> bool:
        """Whether the routers that transformers 5 keeps in fp32 are trained there too."""
        return self.profile == "hf-transformers" and not (self.experts_are_linear or self.has_master_weights)


@dataclass(frozen=True, slots=True)
class Standing:
    """The terms, and how many parameters the optimizer updates."""

    terms: tuple[Term, ...]
    trained_elements: int


def adapters(phase: TrainingStep) -> FineTuning | None:
    """The phase, if it trains adapters."""
    return phase if isinstance(phase, FineTuning) and phase.uses_adapters else None


def recipe_precision(phase: TrainingStep) -> str:
    """The precision as the software in use carries it out.

    DeepSpeed takes no part in autocast: asked for mixed precision, it keeps 16-bit weights and an fp32 master copy
    (DeepSpeed `runtime/engine.py: _configure_distributed_model`, `runtime/bf16_optimizer.py`). Under FSDP, float8 is
    what the linear layers of mixed precision compute in: shards and states stay in fp32 (torchtitan `docs/float8.md`).
    In Megatron Core it comes beside `--bf16`, whose optimizer has a master copy (`core/optimizer/__init__.py`).
    """
    spread = phase.parallelism
    if phase.precision == "fp8" and phase.activation_profile == "megatron-core":
        return "bf16-fp32-master"
    if phase.precision == "fp8" and gathers_are_recorded(spread):
        return "amp-bf16"
    if phase.precision.startswith("amp-") and spread.zero_stage > 0 and spread.backend == "deepspeed":
        return f"{phase.precision.removeprefix('amp-')}-fp32-master"
    return phase.precision


def _copies_gradients(phase: TrainingStep) -> bool:
    """DeepSpeed's ZeRO casts them too, which its own terms tell."""
    stated = phase.gradient_accumulation_dtype
    return stated not in (None, "fp32") and phase.parallelism.backend != "deepspeed"


def has_master_weights(precision: str) -> bool:
    return precision.endswith("-fp32-master")


@lru_cache(maxsize=256)
def standing(spec: ModelSpec, choices: StateChoices) -> Standing:
    """Terms that are alive for whole moments of a step, on the fullest rank."""
    encoders = frozen_terms(spec, choices.encoded_ahead, choices.precision, ALL)
    spec = trained_part(spec)
    parallelism = choices.parallelism
    shards = Shards.of(parallelism)
    tensors = _trained_tensors(spec, choices, shards.optimizer)
    elements = _elements(_trained_tensors(spec, choices, shards.gradients))
    held = _elements(_trained_tensors(spec, choices, 1))
    gradient_bytes = 4 if choices.has_master_weights else BYTES[choices.weight_dtype]
    terms = (
        *_kept_weights(spec, choices, shards),
        *encoders,
        *_adapter_weights(choices, tensors),
        *_float8_copies(spec, choices),
        *buffer_terms(spec, BYTES[choices.weight_dtype], ALL, version=choices.version),
        *_optimizer_terms(
            choices,
            *_own_share(tensors, parallelism, shards.optimizer, cuts_experts=choices.profile == "torchtitan"),
        ),
        *_whole_table_gradient(spec, choices, elements),
        *(MEGATRON_WORKSPACES if choices.profile == "megatron-core" else ()),
        *sharding_buffers(parallelism, parameters(spec), held, COMPUTE_BYTES, gradient_bytes, choices.profile),
    )
    return Standing(terms, elements)


def _float8_copies(spec: ModelSpec, choices: StateChoices) -> tuple[Term, ...]:
    """Transformer Engine's workspaces: each linear weight of the layers and its transpose in one byte."""
    if not choices.caches_float8:
        return ()
    spread = choices.parallelism
    elements = sum(
        shard_elements(weight, spread.tensor, spread.expert_share) * copies
        for weight, copies in stage_weights(spec, spread.pipeline, choices.ends)
        if weight.group is not None and weight.kind in ("linear", "conv1d", "expert")
    )
    factors = (Factor("linear weights", elements), Factor("as they are and transposed", 2), Factor("bytes", 1))
    return (Term("weights", "linear weights in float8", factors, ALL, FLOAT8_WORKSPACES),)


def _elements(tensors: tuple[ParameterTensor, ...]) -> int:
    return sum(tensor.elements * tensor.multiplicity for tensor in tensors)


def _kept_weights(spec: ModelSpec, choices: StateChoices, shards: Shards) -> tuple[Term, ...]:
    """This rank's weights; where they wait in host RAM or on NVMe, those that are on the GPU at a time."""
    if choices.offload.parameters == "none":
        whole = _weights(spec, choices, shards.weights)
        return whole if _shares_weight_rows(choices) else divided(whole, shards.weights)
    if choices.parallelism.shard_ranks > 1:
        return ()
    live = min(LIVE_PARAMETERS, parameters(spec))
    how = f"the smaller of max_live_parameters, {LIVE_PARAMETERS}, and the model's parameters"
    factors = (Factor("parameters", live, how), Factor("bytes", COMPUTE_BYTES))
    return (Term("weights", "weights on the GPU at a time", factors, IN_MODEL, LIVE),)


def _weights(spec: ModelSpec, choices: StateChoices, shards: int) -> tuple[Term, ...]:
    return weight_terms(
        spec,
        choices.frozen_format or choices.weight_dtype,
        choices.parallelism.tensor,
        ALL,
        pipeline=choices.parallelism.pipeline,
        expert_parallel=expert_ranks(choices.parallelism, shards),
        experts_as_linear=choices.experts_are_linear,
        kept_bytes=_kept_bytes(choices),
        every_linear=choices.profile == "litgpt",
        keeps_fp32=choices.keeps_fp32,
        ends=choices.ends,
        row_ranks=shards if _shares_weight_rows(choices) else 1,
        cuts_experts=choices.profile == "torchtitan",
    )


def _shares_weight_rows(choices: StateChoices) -> bool:
    """Packed 4-bit weights are one column, whose rows always suffice."""
    return shares_rows(choices.parallelism) and choices.frozen_format is None


def _kept_bytes(choices: StateChoices) -> int | None:
    """Bytes of a weight that a quantized base leaves alone, where these are not the format's own.

    peft's `prepare_model_for_kbit_training` casts them all to fp32 and trains under autocast.
    """
    prepared = choices.frozen_format is not None and choices.weight_dtype == "fp32"
    return BYTES[choices.weight_dtype] if prepared else None


@lru_cache(maxsize=256)
def _trained_tensors(spec: ModelSpec, choices: StateChoices, shards: int) -> tuple[ParameterTensor, ...]:
    """The tensors the optimizer updates, before they are divided over `shards`: all weights, or what is trained."""
    parallelism = choices.parallelism
    width = 4 if choices.has_master_weights else BYTES[choices.weight_dtype]
    chosen = method_tensors(spec, choices.method, choices.lora, choices.trained_layers, choices.virtual_tokens, width)
    if chosen is not None:
        return chosen
    return tuple(
        ParameterTensor(
            shard_shape(weight, parallelism.tensor, expert_ranks(parallelism, shards)),
            copies,
            4 if weight.fp32 and choices.keeps_fp32 else width,
            is_hidden(weight),
        )
        for weight, copies in stage_weights(spec, parallelism.pipeline, choices.ends)
        if not weight.frozen and not _is_frozen(weight, spec, choices.frozen_parts)
    )


def _is_frozen(weight: Weight, spec: ModelSpec, parts: frozenset[str]) -> bool:
    """Whether a weight belongs to a part that is asked to be frozen."""
    table = spec.stack.embedding
    if "embeddings" in parts and table is not None and weight.kind == "embedding" and weight.shape[0] == table.vocab:
        return True
    return "images" in parts and any(
        stack.name == weight.stack and stack.image is not None for stack in spec.stacks[1:]
    )


def _adapter_weights(choices: StateChoices, tensors: tuple[ParameterTensor, ...]) -> tuple[Term, ...]:
    """Trained weights that are none of the model's own."""
    if choices.method in ("full", "last_layers"):
        return ()
    elements = sum(tensor.elements * tensor.multiplicity for tensor in tensors)
    factors = (
        Factor("adapter parameters", elements),
        Factor("bytes", tensors[0].dtype_bytes if tensors else 0),
        *((RANK_STABILIZED,) if choices.lora is not None and choices.lora.rank_stabilized else ()),
    )
    ranks = Shards.of(choices.parallelism).weights
    if choices.offload.parameters != "none" and ranks > 1:
        return ()
    if shares_rows(choices.parallelism):
        own = sum(prod(row_share(tensor.shape, ranks)) * tensor.multiplicity for tensor in tensors)
        shared = Factor(factors[0].name, own, f"rows of {elements} / {ranks} ranks")
        return (Term("weights", "adapters", (shared, *factors[1:]), ALL, ADAPTERS),)
    return divided((Term("weights", "adapters", factors, ALL, ADAPTERS),), ranks)


def _whole_table_gradient(spec: ModelSpec, choices: StateChoices, elements: int) -> tuple[Term, ...]:
    """This rank's rows of the token table's gradient, which DTensor cuts out of the whole one for the optimizer."""
    parallelism, table = choices.parallelism, spec.stack.embedding
    replicated = choices.profile != "megatron-core" and choices.ends in (None, "first", "both")
    if parallelism.tensor == 1 or choices.lora is not None or table is None or not (elements and replicated):
        return ()
    factors = (
        Factor("table rows", -(-table.vocab // parallelism.tensor), f"{table.vocab} / {parallelism.tensor} GPUs"),
        Factor("hidden", table.size),
        Factor("bytes", BYTES[choices.weight_dtype]),
    )
    return (Term("temporaries", "this rank's rows of the table's gradient", factors, ("optimizer_step",), DTENSOR),)


def _own_share(
    tensors: tuple[ParameterTensor, ...], parallelism: Parallelism, ranks: int, *, cuts_experts: bool
) -> tuple[tuple[ParameterTensor, ...], int]:
    """The tensors whose states the fullest rank holds, and how many ranks share each of them."""
    if parallelism.backend == WHOLE_TENSORS and ranks > 1:
        return fullest_share(tensors, ranks), 1
    if shares_rows(parallelism):
        shared = (replace(each, shape=row_share(each.shape, ranks, cuts_experts=cuts_experts)) for each in tensors)
        return tuple(shared), 1
    return tensors, ranks


def _optimizer_terms(choices: StateChoices, tensors: tuple[ParameterTensor, ...], ranks: int) -> tuple[Term, ...]:
    """States through the whole step, temporaries in `optimizer_step`; nothing where the states are offloaded."""
    if choices.offload.optimizer != "none":
        return ()
    width = None if choices.state_dtype is None else BYTES[choices.state_dtype]
    rule = (choices.optimizer, choices.implementation, tensors)
    states = state_terms(*rule, ALL, shards=ranks, state_bytes=width)
    temporaries: tuple[Term, ...] = ()
    if not choices.updates_in_backward:
        temporaries = step_temporary_terms(*rule, ("optimizer_step",), shards=ranks, state_bytes=width)
    if not choices.has_master_weights:
        return (*states, *temporaries)
    elements = sum(tensor.elements * tensor.multiplicity for tensor in tensors)
    factors = (Factor("parameters", elements), Factor("bytes", 4))
    copy = Term("optimizer_states", "fp32 master weights", factors, ALL, MASTER)
    cast = Term("temporaries", "gradients cast for the master copy", factors, ("optimizer_step",), CAST_GRADIENTS)
    added = (copy, cast) if choices.copies_gradients else (copy,)
    return (*states, *temporaries, *divided(added, ranks))
