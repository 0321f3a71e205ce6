"""A model and a workload become a recipe (what is recorded) and symbols (how large its dimensions are)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Literal

import numpy as np

from planner.engine.activations.families import OTHER_SOFTWARE, candidates
from planner.engine.activations.fully_shard import unit_symbols, weight_shapes
from planner.engine.activations.models import deepseek, llama
from planner.engine.activations.older import older_than_told
from planner.engine.activations.recipe import LoraRecipe, Loss, Recipe, Sharding
from planner.engine.activations.setting import Found, Loads, Setting, divided
from planner.engine.activations.splits import every_nth, last_layers
from planner.engine.activations.tape import Tape
from planner.engine.activations.techniques import PLAIN, Techniques
from planner.engine.activations.trace import Symbols
from planner.engine.activations.unsettled import known_to_differ
from planner.engine.activations.versions import builds_mask_without_being_given_one, precedes_transformers_5
from planner.engine.pipeline import Ends
from planner.engine.term import Factor, Number
from planner.model.spec import ModelSpec

APPROXIMATED = "Activations of this architecture are approximated by those of a Llama-shaped layer of the same width."
APPROXIMATED_DENOISER = (
    "Activations of this denoiser are approximated by those of Llama-shaped layers over the sequence length, which "
    "should be the tokens of an image; its encoders' are left out."
)
EAGER_DENOISER = (
    "Eager attention of a denoiser is counted as transformers computes it, not as diffusers' processor does."
)
NOT_REENTRANT = "Checkpoints of a denoiser are counted without reentrance, as diffusers makes them."
CORE_ALONE = "Of selective checkpointing of a denoiser only that of the attention core is counted; here nothing is."
AS_TRANSFORMERS = "This architecture is counted as Hugging Face transformers runs it, not as"
ALL_CHECKPOINTED = "Every layer of this architecture is counted as checkpointed."
AS_PROMPT = "Prefix tuning of this architecture is counted as prompt tuning."
ALL_TRAINED = "Every layer of this architecture is counted as trained."
FURTHER_STACKS = "Activations of further stacks (encoder, vision tower) are not counted yet."

NO_IMAGES = (
    "Neither the size nor the tokens of images are stated, so that activations of the vision tower are left out."
)

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
LATENT_ROLES = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
STATE_SPACE_ROLES = ("in_proj", "x_proj", "dt_proj", "out_proj")
DELTA_ROLES = ("in_proj_qkvz", "in_proj_ba", "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
MIXER_ROLES = (*ATTENTION_ROLES, *LATENT_ROLES, *STATE_SPACE_ROLES, *DELTA_ROLES)
FEED_FORWARD_ROLES = (*MLP_ROLES, "shared_expert_gate")
STANDING_ROLES = (
    "pooler",
    "reduction",
    "visual_projection",
    "text_projection",
    "embeddings_project",
    "dense",
    "linear_1",
    "linear_2",
)
"""Linear layers between and after the repeated ones."""


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
    experts: str = "grouped_mm",
    token_dispatcher: str = "alltoall",
    sharding: Sharding | None = None,
    shards: int = 1,
    techniques: Techniques = PLAIN,
    trained_layers: int | None = None,
    profile: str = "hf-transformers",
    ends: Ends = "both",
) -> Lowered:
    """The recipe and the symbols of one step of `spec` in the Hugging Face transformers implementation."""
    weight_dtype, autocast = PRECISIONS[precision]
    if sharding is not None:
        weight_dtype, autocast = sharding.compute_dtype, None
        # Adapters are gathered with the unit that they are part of.
        lora = None if lora is None else replace(lora, dtype=weight_dtype)
    if spec.task == "diffusion" and lora is not None and weight_dtype != "fp32":
        # The scripts of diffusers cast frozen weights to 16 bits and still run the denoiser under autocast
        # (`accelerator.prepare`), so that the adapters compute in 16 bits too.
        autocast = weight_dtype
    setting = Setting(
        attention=attention,
        compute_dtype=autocast or weight_dtype,
        needs_mask=mask == "padded"
        or techniques.virtual_tokens == "prefix"
        or (mask == "none" and not use_cache and builds_mask_without_being_given_one(version, spec.model_type)),
        passes_mask=mask != "none",
        training=training,
        version=version,
        longest_sequence=_longest_that_matters(spec, _largest(loads.sequence)),
        image_size=None if loads.image_size is None else _largest(loads.image_size),
        tensor_parallel=loads.tensor_parallel,
        sequence_parallel=loads.sequence_parallel,
        single_sequence=_largest(loads.batch) == 1,
        experts=experts,
        expert_parallel=loads.expert_parallel,
        expert_tensor=loads.expert_tensor,
        token_dispatcher=token_dispatcher,
        profile=profile,
        adapted=lora.targets if lora is not None and profile == "litgpt" else frozenset(),
    )
    found, approximations, techniques = _find_split(spec, setting, techniques, trained_layers)
    if spec.task == "diffusion":
        approximations = tuple(text for text in approximations if text != ALL_CHECKPOINTED)
        approximations = (*approximations, *_denoiser_limits(attention, checkpointing, techniques.selective))
    if FURTHER_STACKS not in approximations and _lacks_images(spec, loads):
        approximations = (*approximations, NO_IMAGES)
    if techniques.virtual_tokens == "prefix" and not _takes_prefix(found):
        techniques = replace(techniques, virtual_tokens="prompt")
        approximations = (*approximations, AS_PROMPT)
    recipe = Recipe(
        body=found.body,
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
        passes_mask=mask != "none",
        use_cache=use_cache,
        cache_filled=cache_filled,
        logits=logits,
        training=training,
        single_sequence=setting.single_sequence,
        sharding=sharding,
        techniques=techniques,
        ends=ends,
        scores=spec.head is not None and spec.head.kind == "classification",
    )
    if trained_layers is not None and not _trains(recipe):
        recipe = replace(recipe, lora=None)
        approximations = (*approximations, ALL_TRAINED)
    if found.doubts is not None:
        approximations = (*approximations, *found.doubts(recipe))
    if profile == "hf-transformers" and not precedes_transformers_5(version):
        approximations = (*approximations, *known_to_differ(spec, recipe, setting))
    layers: dict[str, Number] = {kind: ceil(count / loads.pipeline) for kind, count in found.layers.items()}
    derived = found.derived(loads) if found.derived is not None else ()
    symbols = dict(_model_symbols(spec, loads.tensor_parallel, loads.loss_parallel))
    symbols.update((symbol.name, symbol) for symbol in (*_workload_symbols(spec, loads), *found.symbols, *derived))
    if sharding is not None:
        shares = (
            None
            if sharding.flat_parameters or loads.expert_parallel > 1
            else weight_shapes(spec, loads.tensor_parallel)
        )
        units = unit_symbols(
            recipe, symbols, shards, loads.expert_parallel, shares, cuts_experts=profile == "torchtitan"
        )
        symbols |= {symbol.name: symbol for symbol in units}
    return Lowered(recipe, symbols, layers, approximations)


def _denoiser_limits(attention: str, checkpointing: str, selective: str) -> Iterable[str]:
    """Settings that diffusers has otherwise, or not at all."""
    found = {
        EAGER_DENOISER: attention == "eager",
        NOT_REENTRANT: checkpointing == "reentrant",
        CORE_ALONE: selective not in ("none", "core-attention"),
    }
    return tuple(text for text, applies in found.items() if applies)


def _lacks_images(spec: ModelSpec, loads: Loads) -> bool:
    """Whether a language model reads images of any size, and the workload says nothing of theirs."""
    image = spec.stacks[-1].image if len(spec.stacks) > 1 else None
    stated = loads.image_size is not None or loads.image_tokens is not None
    return image is not None and image.image_size is None and not stated


@lru_cache(maxsize=64)
def _trains(recipe: Recipe) -> bool:
    """Whether the family leaves anything to train where only some layers are."""
    return any(weight.requires_grad for _, _, weight in recipe.body.build(Tape(), recipe).weights())


def _find_split(
    spec: ModelSpec, setting: Setting, techniques: Techniques, trained_layers: int | None
) -> tuple[Found, tuple[str, ...], Techniques]:
    """The body of a model some of whose layers are treated differently, where its family can tell them apart."""
    halves = techniques.selective in ("every-2nd-layer", "every-nth-layer")
    if not halves and trained_layers is None:
        return (*_find(spec, setting), techniques)
    if any(group.width is not None for group in spec.stack.groups):
        # Layers of a pyramid's stage cannot be told from what shrinks the map before them.
        found, approximations = _find(spec, setting)
        return found, (*approximations, ALL_CHECKPOINTED) if halves else approximations, techniques
    divided_spec, trained, kept = spec, frozenset[str](), frozenset[str]()
    if trained_layers is not None:
        split = last_layers(spec, trained_layers)
        divided_spec, trained = split.spec, split.chosen
    if halves:
        split = every_nth(divided_spec, techniques.checkpoint_interval, from_first=techniques.checkpoints_first)
        divided_spec, trained, kept = split.spec, split.descendants(trained), split.chosen
    whole, approximations = _find(spec, setting)
    found, divided_approximations = _find(divided_spec, setting)
    told_apart = found.layers == {str(index): group.count for index, group in enumerate(divided_spec.stack.groups)}
    if told_apart and divided_approximations == approximations:
        return found, approximations, replace(techniques, kept_kinds=kept, trained_kinds=trained)
    return whole, (*approximations, ALL_CHECKPOINTED) if halves else approximations, techniques


def _takes_prefix(found: Found) -> bool:
    """Whether the recorded layers have keys and values, one by one, that trained ones can be put before."""
    body = found.body
    return isinstance(body, llama.DecoderBody) and all(layer.latent is None for layer in body.layers)


def _largest(value: Number) -> int:
    return value if isinstance(value, int) else int(np.max(value))


@lru_cache(maxsize=512)
def _windows(spec: ModelSpec) -> tuple[int, ...] | None:
    """Attention windows of a model; None where every length counts, as for scans that are cut into chunks."""
    mixers = [group.mixer for stack in spec.stacks for group in stack.groups]
    if any(hasattr(mixer, "chunk") for mixer in mixers):
        return None
    return tuple(sorted({window for mixer in mixers if (window := getattr(mixer, "window", None)) is not None}))


def _longest_that_matters(spec: ModelSpec, sequence: int) -> int:
    """A length that exceeds the same attention windows as `sequence`, so that equal structures are found once."""
    windows = _windows(spec)
    if windows is None:
        return sequence
    return max((window + 1 for window in windows if sequence > window), default=0)


@lru_cache(maxsize=512)
def _find(spec: ModelSpec, setting: Setting) -> tuple[Found, tuple[str, ...]]:
    """The family whose structure the model has, or the nearest one and in which respects it is not."""
    own = tuple(candidates(OTHER_SOFTWARE.get(setting.profile, ())))
    found = next((answer for find in own if (answer := find(spec, setting)) is not None), None)
    if found is not None:
        return found, ()
    older = older_than_told(spec, setting)
    other = (f"{AS_TRANSFORMERS} {setting.profile}.",) if own else ()
    found = next((answer for find in candidates() if (answer := find(spec, setting)) is not None), None)
    if found is not None:
        return found, (*other, *older)
    if spec.task == "diffusion":
        return deepseek.approximate(replace(spec, stacks=spec.stacks[:1]), setting), (APPROXIMATED_DENOISER, *other)
    further = (FURTHER_STACKS,) if len(spec.stacks) > 1 else ()
    language = replace(spec, stacks=spec.stacks[:1], task="causal-lm")
    found = next((answer for find in candidates() if (answer := find(language, setting)) is not None), None)
    if further and found is not None:
        return found, (*other, *further, *older)
    return deepseek.approximate(spec, setting), (APPROXIMATED, *other, *further, *older)


@lru_cache(maxsize=256)
def _model_symbols(spec: ModelSpec, tensor_parallel: int, loss_parallel: bool) -> Mapping[str, Factor]:
    """Dimensions that every model has, whatever its workload."""
    vocabulary = spec.head.outputs if spec.head is not None else spec.stack.hidden_size
    table = spec.stack.embedding.vocab if spec.stack.embedding is not None else 0
    symbols = (
        Factor("hidden", spec.stack.hidden_size),
        divided("vocabulary", vocabulary, tensor_parallel if loss_parallel else 1),
        Factor("whole table rows", table),
        divided("table rows", table, tensor_parallel),
    )
    return {symbol.name: symbol for symbol in symbols}


def _workload_symbols(spec: ModelSpec, loads: Loads) -> tuple[Factor, ...]:
    return (
        Factor("batch", loads.batch),
        Factor("sequence", loads.sequence),
        Factor("sequence rounded up to 32", (loads.sequence + 31) // 32 * 32, "rows of the kernel's logarithms"),
        Factor("predicted positions", loads.sequence - 1 + (loads.sequence == 1), "sequence, less its last one"),
        Factor("context", loads.context),
        Factor("context ranks", loads.context_parallel),
        Factor("expert ranks", loads.expert_parallel),
        _expert_tokens(loads),
        Factor("context and new token", loads.context + 1),
        Factor("rank", loads.rank),
        Factor("virtual tokens", loads.virtual_tokens),
        Factor("sequence behind the prompt", loads.sequence - loads.virtual_tokens),
        Factor("prefix and sequence", loads.virtual_tokens + loads.sequence),
        Factor(
            "prefix and sequence rounded up to 16",
            (loads.virtual_tokens + loads.sequence + 15) // 16 * 16,
            "rows of the kernel's bias",
        ),
        Factor("tile", _tile(loads.sequence, spec.stack.hidden_size), "of about as many tokens as the model is wide"),
        Factor("loss chunk", loads.loss_chunk),
        Factor("further chunks", -(-loads.sequence // loads.loss_chunk) - 1, "of the sequence, after the first"),
        Factor(
            "sequence shard",
            -(-loads.sequence // loads.tensor_parallel),
            "" if loads.tensor_parallel == 1 else f"sequence / {loads.tensor_parallel} GPUs",
        ),
    )


def _expert_tokens(loads: Loads) -> Factor:
    """Tokens of a sequence whose rows the GPUs that share an expert have in common."""
    if loads.expert_tensor is None or loads.expert_tensor == loads.tensor_parallel:
        return Factor("expert tokens", loads.sequence, "all of the sequence")
    shard = -(-loads.sequence // loads.tensor_parallel)
    how = f"sequence / {loads.tensor_parallel} GPUs x {loads.expert_tensor} that share an expert"
    return Factor("expert tokens", shard * loads.expert_tensor, how)


def _tile(sequence: Number, hidden: int) -> Number:
    """Tokens of one tile of a tiled feed-forward: ceil(sequence / hidden) equal tiles (DeepSpeed, `TiledMLP`)."""
    tiles = -(-sequence // hidden)
    return -(-sequence // tiles)


def lora_recipe(
    spec: ModelSpec, targets: str | Iterable[str], *, dropout: bool, dtype: str, decomposed: bool = False
) -> LoraRecipe:
    """Which of the recorded linear layers have adapters; `targets` as in the scenario, in the model's own names."""
    if targets == "all-linear":
        return LoraRecipe(frozenset((*MIXER_ROLES, *FEED_FORWARD_ROLES, *STANDING_ROLES)), dropout, dtype, decomposed)
    if targets == "attention":
        return LoraRecipe(frozenset(MIXER_ROLES), dropout, dtype, decomposed)
    wanted = frozenset((targets,) if isinstance(targets, str) else targets)
    named = [(role, role) for role in (*MIXER_ROLES, *FEED_FORWARD_ROLES, "lm_head")]
    for group in spec.stack.groups:
        named += zip(llama.attention_of(group).names, ATTENTION_ROLES, strict=True)
        named += zip(llama.feed_forward_of(group).names, MLP_ROLES, strict=True)
    # One name may be used in both halves of a layer, as GPT-2 does with `c_proj`.
    chosen = frozenset(role for name, role in named if name in wanted)
    return LoraRecipe(chosen, dropout, dtype, decomposed)
