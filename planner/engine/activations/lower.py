"""A model and a workload become a recipe (what is recorded) and symbols (how large its dimensions are)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from planner.engine.activations.kernels import kernel
from planner.engine.activations.recipe import LayerShape, Loss, LoraRecipe, Recipe
from planner.engine.activations.trace import RECORDED, Symbols
from planner.engine.activations.versions import builds_mask_without_being_given_one
from planner.engine.term import Factor, Number
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec

PRECISIONS: Mapping[str, tuple[str, str | None]] = {
    "fp32": ("fp32", None),
    "tf32": ("fp32", None),
    "amp-fp16": ("fp32", "fp16"),
    "amp-bf16": ("fp32", "bf16"),
    "bf16": ("bf16", None),
    "fp16": ("fp16", None),
    "bf16-fp32-master": ("bf16", None),
    "fp16-fp32-master": ("fp16", None),
    "fp8": ("bf16", None),
}
"""Precision to (dtype of the weights, autocast dtype)."""

ATTENTION_ROLES = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_ROLES = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Loads:
    """The numeric side of a workload, per GPU; any of them may be an array over the points of a sweep."""

    batch: Number
    sequence: Number
    context: Number = 0
    rank: Number = 1
    loss_chunk: Number = 1
    """Tokens whose logits exist at once, where the loss is computed piece by piece."""
    tensor_parallel: int = 1
    pipeline: int = 1


@dataclass(frozen=True, slots=True)
class Lowered:
    """What the engine records, and what it fills in."""

    recipe: Recipe
    symbols: Symbols
    layers: Mapping[str, Number]
    approximations: tuple[str, ...]
    """What of the model is not told tensor by tensor."""


def lower(
    spec: ModelSpec,
    loads: Loads,
    *,
    precision: str,
    attention: str,
    mask: str,
    version: str,
    training: bool,
    checkpointing: Literal["none", "reentrant", "non-reentrant"] = "none",
    loss: Loss = "full_logits",
    loss_upcast: bool = True,
    keeps_outputs: bool = False,
    gradients_from_start: Literal["none", "step", "accumulation"] = "none",
    gradient_dtype: str | None = None,
    lora: LoraRecipe | None = None,
    quantized_base: bool = False,
    use_cache: bool = False,
    cache_filled: bool = False,
    logits: Literal["all", "last"] = "all",
) -> Lowered:
    """The recipe and the symbols of one step of `spec` in the Hugging Face transformers implementation."""
    weight_dtype, autocast = PRECISIONS[precision]
    needs_mask = mask == "padded" or (
        mask == "none" and training and not use_cache and builds_mask_without_being_given_one(version)
    )
    groups = spec.stack.groups
    shapes = tuple(
        _shape(index, group, attention, autocast or weight_dtype, needs_mask or _window_is_full(group, loads))
        for index, group in enumerate(groups)
    )
    recipe = Recipe(
        layers=shapes,
        tied_embeddings=spec.head is not None and spec.head.tied,
        weight_dtype=weight_dtype,
        autocast=autocast,
        checkpointing=checkpointing,
        loss=loss,
        loss_upcast=loss_upcast,
        keeps_outputs=keeps_outputs,
        gradients_from_start=gradients_from_start,
        gradient_dtype=gradient_dtype or weight_dtype,
        lora=lora,
        quantized_base=quantized_base,
        mask=any(shape.masked for shape in shapes),
        use_cache=use_cache,
        cache_filled=cache_filled,
        logits=logits,
        training=training,
    )
    layers = {str(index): _stage_layers(group.count, loads.pipeline) for index, group in enumerate(groups)}
    return Lowered(recipe, _symbols(spec, loads), layers, approximations(spec))


def _stage_layers(count: int, pipeline: int) -> int:
    return ceil(count / pipeline)


def _window_is_full(group: LayerGroup, loads: Loads) -> bool:
    """A sequence longer than the window needs a mask; the longest sequence of a sweep decides."""
    window = group.mixer.window if isinstance(group.mixer, Attention) else None
    longest: Any = loads.sequence
    return window is not None and bool((longest > window) if isinstance(longest, int | float) else longest.max() > window)


def _shape(index: int, group: LayerGroup, attention: str, compute_dtype: str, masked: bool) -> LayerShape:
    mixer, feed_forward = _attention_of(group), _feed_forward_of(group)
    grouped = mixer.kv_heads != mixer.heads
    masked = attention == "eager" or (masked and attention == "sdpa")
    return LayerShape(
        name=f"kind {index + 1} " if index else "",
        copies=min(group.count, RECORDED),
        grouped_queries=grouped,
        kernel=kernel(
            attention,
            compute_dtype,
            masked=masked,
            grouped_queries=grouped,
            single_kv_head=mixer.kv_heads == 1,
            head_dim=mixer.head_dim,
        ),
        masked=masked,
        qkv_bias=mixer.qkv_bias,
        output_bias=mixer.output_bias,
        qk_norm=mixer.qk_norm is not None,
        attention_dropout=mixer.dropout > 0,
        gated=feed_forward.gated,
        activation=feed_forward.activation,
        mlp_bias=feed_forward.bias,
    )


def _symbols(spec: ModelSpec, loads: Loads) -> dict[str, Factor]:
    t = loads.tensor_parallel
    hidden = spec.stack.hidden_size
    vocabulary = spec.head.outputs if spec.head is not None else hidden
    table = spec.stack.embedding.vocab if spec.stack.embedding is not None else 0
    symbols = [
        Factor("batch", loads.batch),
        Factor("sequence", loads.sequence),
        Factor("sequence rounded up to 32", (loads.sequence + 31) // 32 * 32, "rows of the kernel's logarithms"),
        Factor("context", loads.context),
        Factor("context and new token", loads.context + 1),
        Factor("rank", loads.rank),
        Factor("loss chunk", loads.loss_chunk),
        Factor("hidden", hidden),
        Factor("vocabulary", vocabulary),
        _divided("table rows", table, t),
    ]
    for index, group in enumerate(spec.stack.groups):
        mixer, feed_forward = _attention_of(group), _feed_forward_of(group)
        name = f"kind {index + 1} " if index else ""
        symbols += [
            _divided(f"{name}heads", mixer.heads, t),
            _divided(f"{name}kv heads", mixer.kv_heads, t),
            Factor(f"{name}head dim", mixer.head_dim),
            Factor(f"{name}half head dim", mixer.head_dim // 2),
            _divided(f"{name}ffn", feed_forward.size, t),
        ]
    return {symbol.name: symbol for symbol in symbols}


def _divided(name: str, whole: int, parts: int) -> Factor:
    return Factor(name, whole) if parts == 1 else Factor(name, ceil(whole / parts), f"{whole} / {parts} GPUs")


def _attention_of(group: LayerGroup) -> Attention:
    """The group's attention; a mixer of another kind is taken as attention of the layer's width."""
    mixer = group.mixer
    if isinstance(mixer, Attention):
        return mixer
    heads = getattr(mixer, "heads", 1)
    return Attention(heads=heads, kv_heads=heads, head_dim=getattr(mixer, "head_dim", 128))


def _feed_forward_of(group: LayerGroup) -> DenseFeedForward:
    """The group's dense feed-forward; experts are taken as one of the size that a token visits."""
    feed_forward = group.feed_forward
    if isinstance(feed_forward, DenseFeedForward):
        return feed_forward
    size = getattr(feed_forward, "size", 1) * getattr(feed_forward, "experts_per_token", 1)
    shared = getattr(feed_forward, "shared", None)
    return DenseFeedForward(size + (shared.size if shared is not None else 0))


def approximations(spec: ModelSpec) -> tuple[str, ...]:
    """In which respects the recorded layer is not the model's own."""
    found: list[str] = []
    if len(spec.stacks) > 1:
        found.append("Activations of further stacks (encoder, vision tower) are not counted yet.")
    for group in spec.stack.groups:
        if not _is_told_exactly(group):
            found.append(
                "Activations of this architecture are approximated by those of a Llama-shaped layer of the same width."
            )
            break
    return tuple(found)


def _is_told_exactly(group: LayerGroup) -> bool:
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and group.norm.kind == "rmsnorm"
        and group.arrangement == "pre"
        and not (mixer.fused or mixer.gated or mixer.sinks or feed_forward.fused)
        and mixer.rotary_share == 1.0
        and group.cross_attention is None
    )


def lora_recipe(spec: ModelSpec, targets: str | Iterable[str], *, dropout: bool, dtype: str) -> LoraRecipe:
    """Which of the recorded linear layers have adapters; `targets` as in the scenario, in the model's own names."""
    if targets == "all-linear":
        return LoraRecipe(frozenset((*ATTENTION_ROLES, *MLP_ROLES)), dropout, dtype)
    if targets == "attention":
        return LoraRecipe(frozenset(ATTENTION_ROLES), dropout, dtype)
    roles: dict[str, str] = {role: role for role in (*ATTENTION_ROLES, *MLP_ROLES, "lm_head")}
    for group in spec.stack.groups:
        roles |= dict(zip(_attention_of(group).names, ATTENTION_ROLES, strict=True))
        roles |= dict(zip(_feed_forward_of(group).names, MLP_ROLES, strict=True))
    return LoraRecipe(frozenset(roles[name] for name in targets if name in roles), dropout, dtype)
