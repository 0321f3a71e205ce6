"""Keys, values and recurrent states that inference keeps, in bytes per GPU, for each kind of layer.

Engines differ in how many tokens they hold for a sliding-window layer and in which step they round; both are
arguments. Rules: Shazeer 2019 (MQA), Ainslie 2023 (GQA), DeepSeek-V2 2024 (MLA), and the logs named in `source`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.engine.rounding import ceil_div, round_up, smaller
from planner.engine.term import Factor, Number, Term
from planner.model.spec import (
    Attention,
    Block,
    LatentAttention,
    LayerGroup,
    LightningAttention,
    Mixer,
    ModelSpec,
    ParallelMixers,
    RecurrentMixer,
    Rwkv,
)

WindowTokens = Callable[[int, Number], Number]
"""How many tokens of a sequence a sliding-window layer holds: (window, tokens) -> tokens."""


def window_alone(window: int, tokens: Number) -> Number:
    """A sliding layer holds its window and no more."""
    held: Number = smaller(window, tokens)
    return held


def every_token(_window: int, tokens: Number) -> Number:
    """Engines that keep all tokens for sliding layers too."""
    return tokens


SCALED_TOGETHER = 128
SPARSE_SOURCE = (
    "python/sglang/srt/mem_cache/memory_pool.py NSATokenToKVPool and vllm/v1/attention/backends/mla: scales per 128 "
    "elements, rotated keys in 16 bits"
)


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """How an engine keeps its cache; `state_bytes` is the width of recurrent states, `conv_bytes` of convolutions'."""

    element_bytes: float = 2
    block_size: int = 1
    window_tokens: WindowTokens = window_alone
    state_bytes: float = 4
    conv_bytes: float = 2
    kernel_columns_less: int = 0
    """Columns that a convolution's state holds fewer than its kernel: transformers keeps all, engines one less."""
    packs_sparse: bool = False
    """Serving engines keep the key of a sparse indexer in 8 bits with a scale per 128, and 8-bit latents likewise."""
    source: str = "Two vectors of the KV heads' width per token and layer (Ainslie 2023, arXiv 2305.13245)"
    value_bytes: float | None = None
    """Width of a cached value where it is not that of a key."""


def kv_cache_terms(
    spec: ModelSpec,
    policy: CachePolicy,
    alive: tuple[str, ...],
    *,
    sequences: Number,
    tokens: Number,
    encoder_tokens: Number = 0,
    tensor_parallel: Number = 1,
    pipeline: Number = 1,
) -> tuple[Term, ...]:
    """The cache of `sequences`, each `tokens` long, on the fullest GPU: one term per kind of layer.

    KV heads are divided by tensor parallelism until each rank has one; a latent cache (MLA) is not divided. With
    pipeline parallelism each stage holds the cache of its own layers.
    """
    terms: list[Term] = []
    for group, mixer in cached_mixers(spec):
        layers = _share("layers", group.count, pipeline, "stages")
        terms += _mixer_terms(mixer, layers, policy, alive, sequences, tokens, tensor_parallel)
        if group.cross_attention is not None and _any(encoder_tokens):
            crossed = _attention_term(
                group.cross_attention, "cross-attention cache", layers, policy, alive, sequences,
                Factor("encoder tokens", encoder_tokens), tensor_parallel,
            )  # fmt: skip
            terms.append(crossed)
    return tuple(item for item in terms if _any(item.bytes))


def kv_bytes_per_token(
    spec: ModelSpec,
    element_bytes: float = 2,
    *,
    value_bytes: float | None = None,
    tensor_parallel: Number = 1,
    pipeline: Number = 1,
    packs_sparse: bool = False,
) -> Number:
    """Bytes of one more token of one sequence at short context, on the fullest GPU."""
    policy = CachePolicy(element_bytes, window_tokens=every_token, packs_sparse=packs_sparse, value_bytes=value_bytes)
    both = [
        kv_cache_terms(spec, policy, ("decode",), sequences=1, tokens=count, tensor_parallel=tensor_parallel,
                       pipeline=pipeline)
        for count in (2, 1)
    ]  # fmt: skip
    two, one = (total_bytes(terms) for terms in both)
    difference: Number = two - one
    return difference


def is_causal(spec: ModelSpec) -> bool:
    """Whether the main stack generates, so that it keeps a cache or a state."""
    main = replace(spec, stacks=spec.stacks[:1])
    return any(
        bool(mixer.cached_elements) if isinstance(mixer, Attention) else getattr(mixer, "causal", True)
        for _, mixer in cached_mixers(main)
        if not isinstance(mixer, Block)
    )


def with_expanded_latents(spec: ModelSpec) -> ModelSpec:
    """The model as engines without latent attention cache it: keys and values of every head, padded to 256.

    vllm/attention/backends before 0.7 padded both to the next head size its kernels knew (vllm-project/vllm#4650).
    """
    return replace(spec, stacks=tuple(replace(s, groups=tuple(map(_expanded, s.groups))) for s in spec.stacks))


def _expanded(group: LayerGroup) -> LayerGroup:
    if not isinstance(group.mixer, LatentAttention):
        return group
    return replace(group, mixer=Attention(group.mixer.heads, group.mixer.heads, 256))


def total_bytes(terms: Iterable[Term]) -> Any:
    """The sum of several terms: an int, or an array over the points of a sweep."""
    return sum((item.bytes for item in terms), start=0)


def state_elements(mixer: RecurrentMixer, columns_less: int = 0) -> tuple[int, int]:
    """Recurrent and convolution elements per sequence and layer, with `columns_less` columns than the kernel has."""
    recurrent, convolution = mixer.state_elements
    if isinstance(mixer, Rwkv | LightningAttention):
        return recurrent, convolution
    return recurrent, convolution // mixer.kernel * (mixer.kernel - columns_less)


def _any(value: Number) -> bool:
    return bool(value.any()) if isinstance(value, np.ndarray) else bool(value)


def cached_mixers(spec: ModelSpec) -> Iterator[tuple[LayerGroup, Mixer]]:
    """Every mixer of the model with the group of layers it stands in, parallel ones one by one."""
    for stack in spec.stacks:
        for group in stack.groups:
            mixers = group.mixer.mixers if isinstance(group.mixer, ParallelMixers) else (group.mixer,)
            for mixer in mixers:
                if mixer is not None:
                    yield group, mixer


def _mixer_terms(
    mixer: Mixer,
    layers: Factor,
    policy: CachePolicy,
    alive: tuple[str, ...],
    sequences: Number,
    tokens: Number,
    tensor_parallel: Number,
) -> list[Term]:
    if isinstance(mixer, Attention):
        if not mixer.cached_elements:
            return []
        windowed = mixer.window is not None
        held = policy.window_tokens(mixer.window, tokens) if mixer.window is not None else tokens
        name = f"KV cache, window of {mixer.window} tokens" if windowed else "KV cache"
        factor = _tokens(held, tokens, policy.block_size)
        return [_attention_term(mixer, name, layers, policy, alive, sequences, factor, tensor_parallel)]
    if isinstance(mixer, LatentAttention):
        if not mixer.causal:
            return []
        if policy.packs_sparse and mixer.indexer is not None:
            blocks = _tokens(tokens, tokens, policy.block_size)
            packed = (Factor("sequences", sequences), layers, blocks, _packed_latent(mixer, policy.element_bytes))
            return [Term("kv_cache", "latent KV cache with index", packed, alive, SPARSE_SOURCE)]
        factors = (
            Factor("sequences", sequences), layers,
            Factor("latent width", mixer.cached_elements, "KV rank + rotated key (+ indexer key)"),
            _tokens(tokens, tokens, policy.block_size), _bytes(policy.element_bytes),
        )  # fmt: skip
        source = "DeepSeek-V2 (arXiv 2405.04434): one latent and one rotated key per token, on every rank whole"
        return [Term("kv_cache", "latent KV cache", factors, alive, source)]
    if isinstance(mixer, Block | ParallelMixers):
        return []
    recurrent, convolution = state_elements(mixer, policy.kernel_columns_less)
    source = "A state of fixed size per sequence and layer, divided by tensor parallelism"
    return [
        Term("kv_cache", name,
             (Factor("sequences", sequences), layers, _share("state elements", elements, tensor_parallel, "ranks"),
              _bytes(width)), alive, source)
        for name, elements, width in (
            ("recurrent state", recurrent, policy.state_bytes),
            ("convolution state", convolution, policy.conv_bytes),
        )
    ]  # fmt: skip


def _packed_latent(mixer: LatentAttention, element_bytes: float) -> Factor:
    """Bytes of a token in one layer of DeepSeek-V3.2: 656 + 132 with an 8-bit cache, 1152 + 132 with a 16-bit one."""
    indexer = 0 if mixer.indexer is None else mixer.indexer.head_dim
    key = indexer + indexer // SCALED_TOGETHER * 4
    if element_bytes > 1:
        latent = int((mixer.kv_lora_rank + mixer.qk_rope_head_dim) * element_bytes)
    else:
        latent = mixer.kv_lora_rank + mixer.kv_lora_rank // SCALED_TOGETHER * 4 + 2 * mixer.qk_rope_head_dim
    return Factor("bytes", latent + key, f"latent {latent} + index key {key}")


def _attention_term(
    attention: Attention,
    name: str,
    layers: Factor,
    policy: CachePolicy,
    alive: tuple[str, ...],
    sequences: Number,
    tokens: Factor,
    tensor_parallel: Number,
) -> Term:
    stored = attention.kv_heads if attention.cache_heads is None else attention.cache_heads
    heads = _share("kv heads", stored, tensor_parallel, "ranks")
    width: tuple[Factor, ...]
    if policy.value_bytes not in (None, policy.element_bytes):
        key, value = attention.head_dim * policy.element_bytes, attention.value_dim * (policy.value_bytes or 0)
        pair = Factor("bytes of a key and a value", key + value, f"{key:g} + {value:g}")
        return Term("kv_cache", name, (Factor("sequences", sequences), layers, heads, tokens, pair), alive,
                    policy.source)  # fmt: skip
    if attention.value_dim == attention.head_dim:
        width = (Factor("K and V", 2), heads, Factor("head dim", attention.head_dim))
    else:
        both = attention.head_dim + attention.value_dim
        width = (heads, Factor("key and value dim", both, f"{attention.head_dim} + {attention.value_dim}"))
    factors = (Factor("sequences", sequences), layers, *width, tokens, _bytes(policy.element_bytes))
    return Term("kv_cache", name, factors, alive, policy.source)


def _tokens(held: Number, tokens: Number, block_size: int) -> Factor:
    rounded = round_up(held, block_size)
    notes = []
    if held is not tokens:
        notes.append(f"window holds {held} of {tokens}")
    if block_size > 1:
        notes.append(f"in blocks of {block_size}")
    plain = isinstance(tokens, int)
    return Factor("tokens", rounded, ", ".join(notes) if plain else "")


def _share(name: str, value: int, parts: Number, of: str) -> Factor:
    if isinstance(parts, int) and parts == 1:
        return Factor(name, value)
    return Factor(name, ceil_div(value, parts), f"{value} over {parts} {of}" if isinstance(parts, int) else "")


def _bytes(width: float) -> Factor:
    return Factor("bytes", int(width) if float(width).is_integer() else width)
