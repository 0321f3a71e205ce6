"""What fine-tuning methods train, and how a step's memory-saving settings are recorded."""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any, TypeGuard, cast

from planner.engine.activations.lower import PRECISIONS, lora_recipe
from planner.engine.activations.recipe import LoraRecipe
from planner.engine.activations.tape import BYTES
from planner.engine.activations.techniques import (
    Context,
    EncodedAhead,
    Fp8,
    Selective,
    Smoothing,
    Techniques,
    VirtualTokens,
)
from planner.engine.components import trained_part
from planner.engine.optimizer import ParameterTensor, optimizer_record
from planner.model.counts import lora_targets
from planner.model.spec import Attention, ModelSpec
from planner.model.weights import Weight, weights
from planner.scenario.phases import FineTuning, Lora
from planner.scenario.step import TrainingStep

PROMPT_DTYPE = "fp32"
"""peft makes virtual tokens in fp32 (`autocast_adapter_dtype`)."""


def techniques(phase: TrainingStep) -> Techniques:
    """The settings that decide which tensors a step has, beside precision, attention, loss and full checkpointing."""
    selective = phase.activation_checkpointing == "selective"
    return Techniques(
        selective=cast(Selective, phase.selective_policy or "core-attention") if selective else "none",
        checkpoint_interval=phase.checkpoint_interval if phase.selective_policy == "every-nth-layer" else 2,
        checkpoints_first=phase.selective_policy == "every-nth-layer" and phase.activation_profile == "hf-transformers",
        offloads_activations=phase.offload.activations != "none",
        update_copies=_copies_on_arrival(phase),
        tiled_mlp=phase.tiled_mlp and phase.activation_profile == "hf-transformers",
        fp8=_fp8(phase),
        compiled_loss=phase.compile_loss,
        context=_context(phase),
        loss_parallel=divides_logits(phase) and phase.parallelism.tensor > 1,
        keeps_logits=phase.loss_keeps_logits,
        int8_base=isinstance(phase, FineTuning) and phase.frozen_format == "int8",
        liger=(liger := _uses_liger(phase)),
        kernel_norms=liger or phase.activation_profile in ("torchtitan", "torchtune"),
        smoothing=_smoothing(phase),
        frozen_table=_trains_whole(phase) and phase.freezes_embeddings,
        frozen_images=_trains_whole(phase) and phase.freezes_images,
        embedding_gradient=phase.activation_profile == "hf-transformers" and phase.activation_checkpointing == "full",
        encoded_ahead=cast(EncodedAhead, phase.encoded_ahead),
        virtual_tokens=cast(VirtualTokens, method) if (method := _method(phase)) in ("prompt", "prefix") else "none",
    )


def _context(phase: TrainingStep) -> Context:
    spread = phase.parallelism
    return cast(Context, spread.context_parallel_mode) if spread.context > 1 else "none"


def divides_logits(phase: TrainingStep) -> bool:
    """Whether the loss sees a part of the vocabulary: asked for, or as torchtitan does beside tensor parallelism."""
    return phase.parallelism.loss_parallel or phase.activation_profile == "torchtitan"


def offloads_gradients(phase: TrainingStep) -> bool:
    """Whether gradients are moved to host RAM as they come: asked for, or where DeepSpeed updates on the CPU.

    ZeRO-Offload (arXiv:2101.06840): stages 2 and 3 send each gradient to the CPU that updates the weight.
    """
    spread = phase.parallelism
    by_rule = spread.backend == "deepspeed" and spread.zero_stage >= 2 and phase.offload.optimizer != "none"
    return phase.offload.gradients != "none" or by_rule


def optimizer_kernels(phase: TrainingStep) -> str:
    """The kernels of the update: those asked for, or the software's own.

    Megatron Core takes FusedAdam and FusedSGD of Transformer Engine or Apex, which update in place, whatever is asked
    for (`core/optimizer/__init__.py`).
    """
    fused = "fused" in optimizer_record(phase.optimizer).implementations
    return "fused" if fused and phase.activation_profile == "megatron-core" else phase.optimizer_implementation


def _copies_on_arrival(phase: TrainingStep) -> int | None:
    """Temporaries at the moment a gradient is there, if it does not stay."""
    if updates_in_backward(phase):
        return _update_copies(phase)
    return 0 if offloads_gradients(phase) else None


def updates_in_backward(phase: TrainingStep) -> bool:
    """Whether gradients die as soon as they are there: asked for, or the optimizer's own way (LOMO)."""
    return phase.optimizer_in_backward or optimizer_record(phase.optimizer).in_backward


def _update_copies(phase: TrainingStep) -> int:
    """Temporaries of the weight that is being updated, as copies of its gradient."""
    chosen = optimizer_record(phase.optimizer).implementation(optimizer_kernels(phase))
    own = BYTES[PRECISIONS[phase.precision][0]]
    walk = [_copies(instant, own) for instant in chosen.get("walk", ())]
    copies: list[float] = [float(chosen.get("list_copies", 0)), *walk]
    return ceil(max(copies))


def _copies(instant: Mapping[str, Any], own: int) -> float:
    return sum(_part_copies(part, own) for part in instant.get("parts", (instant,)))


def _part_copies(part: Mapping[str, Any], own: int) -> float:
    stated = part.get("bytes", own)
    width = stated if isinstance(stated, int) else own
    return float(part.get("copies", 0) + (part.get("cast_copies", 0) if own < width else 0)) * width / own


def _uses_liger(phase: TrainingStep) -> bool:
    """transformers takes a loss fused with the head from Liger, which replaces further operators by default.

    Source: Liger-Kernel `transformers/monkey_patch.py: apply_liger_kernel_to_llama`.
    """
    return phase.activation_profile == "hf-transformers" and phase.loss_implementation == "fused_linear"


def _fp8(phase: TrainingStep) -> Fp8:
    if phase.precision != "fp8":
        return "none"
    if phase.activation_profile == "megatron-core":
        return "transformer-engine-cached"
    if phase.fp8_recipe == "blockwise":
        return "transformer-engine"
    compiled = phase.compile or phase.activation_profile in ("torchtitan", "torchtune")
    return "torchao-compiled" if compiled else "torchao"


def _trains_whole(phase: TrainingStep) -> TypeGuard[FineTuning]:
    return isinstance(phase, FineTuning) and phase.method == "full"


def frozen_parts(phase: TrainingStep) -> frozenset[str]:
    """Parts that are frozen where everything else is trained."""
    if not _trains_whole(phase):
        return frozenset()
    asked = {"embeddings": phase.freezes_embeddings, "images": phase.freezes_images}
    return frozenset(name for name, frozen in asked.items() if frozen)


def _smoothing(phase: TrainingStep) -> Smoothing:
    """Who smooths labels: the Trainer of transformers, else PyTorch's cross entropy. Kernels do it on the way."""
    if phase.label_smoothing == 0 or phase.loss_implementation != "full_logits" or phase.compile_loss:
        return "none"
    return "trainer" if phase.activation_profile == "hf-transformers" else "loss"


def _method(phase: TrainingStep) -> str:
    return phase.method if isinstance(phase, FineTuning) else "full"


def trained_layers(phase: TrainingStep) -> int | None:
    """How many of the last layers are trained; None where it is all of them."""
    return phase.trained_layers if isinstance(phase, FineTuning) and phase.method == "last_layers" else None


def virtual_tokens(phase: TrainingStep) -> int:
    """Trained tokens in front of each sequence or of its keys and values."""
    return phase.virtual_tokens if isinstance(phase, FineTuning) and phase.method in ("prompt", "prefix") else 0


def joined_tokens(phase: TrainingStep) -> int:
    """Trained tokens that lengthen the sequence itself."""
    return virtual_tokens(phase) if _method(phase) == "prompt" else 0


def adapter_recipe(phase: TrainingStep, spec: ModelSpec) -> LoraRecipe | None:
    """What is frozen and what hangs beside it; without targets, everything is frozen."""
    method = _method(phase)
    if not isinstance(phase, FineTuning) or method == "full":
        return None
    if not phase.uses_adapters:
        return LoraRecipe(frozenset(), False, PROMPT_DTYPE)
    lora = phase.lora
    if spec.task == "diffusion":
        # Names of modules are those of the file, as nothing stands between a denoiser's layers and their adapters.
        adapted = lora_targets(trained_part(spec), lora.target_modules)
        roles = frozenset(weight.role for weight, _ in adapted)
        return LoraRecipe(roles, lora.dropout > 0, lora.adapter_dtype, method == "dora")
    return lora_recipe(
        spec,
        lora.target_modules,
        dropout=lora.dropout > 0,
        dtype=lora.adapter_dtype,
        decomposed=method == "dora",
    )


@lru_cache(maxsize=256)
def method_tensors(
    spec: ModelSpec, method: str, lora: Lora | None, trained: int, tokens: int, weight_bytes: int
) -> tuple[ParameterTensor, ...] | None:
    """The tensors that a fine-tuning method trains; None where it trains all weights.

    LoRA: two matrices for each adapted layer; DoRA also a length per output. Prompt tuning: a vector per virtual token;
    prefix tuning: keys and values per virtual token and layer (peft 0.21).
    """
    if lora is not None:
        rank, width = lora.rank, BYTES[lora.adapter_dtype]
        return tuple(
            ParameterTensor(shape, copies, width)
            for weight, copies in lora_targets(spec, lora.target_modules)
            for shape in _adapter_shapes(weight, rank, decomposed=method == "dora")
        )
    if method == "prompt":
        return (ParameterTensor((tokens, spec.stack.hidden_size), 1, BYTES[PROMPT_DTYPE]),)
    if method == "prefix":
        return tuple(
            ParameterTensor((tokens, group.mixer.kv_heads * group.mixer.head_dim), 2 * group.count, BYTES[PROMPT_DTYPE])
            for group in spec.stack.groups
            if isinstance(group.mixer, Attention)
        )
    if method == "last_layers":
        return tuple(
            ParameterTensor(weight.shape, copies, weight_bytes)
            for weight, copies in last_layer_weights(spec, trained)
            if copies
        )
    return None


def _adapter_shapes(weight: Weight, rank: int, *, decomposed: bool) -> tuple[tuple[int, ...], ...]:
    outputs, inputs = weight.shape[0], weight.shape[1]
    pair = ((rank, inputs), (outputs, rank))
    return (*pair, (outputs,)) if decomposed else pair


def last_layer_weights(spec: ModelSpec, trained: int) -> tuple[tuple[Weight, int], ...]:
    """Weights of the last layers of the main stack, each with how many of those layers have it."""
    left, taken = trained, {}
    for index in reversed(range(len(spec.stack.groups))):
        taken[index] = min(left, spec.stack.groups[index].count)
        left -= taken[index]
    main = {weight.stack for weight, _ in weights(spec) if weight.group is not None}
    stack = next(iter(main)) if len(main) == 1 else ""
    return tuple(
        (weight, copies * taken[weight.group] // spec.stack.groups[weight.group].count)
        for weight, copies in weights(spec)
        if weight.group is not None and weight.stack == stack
    )
