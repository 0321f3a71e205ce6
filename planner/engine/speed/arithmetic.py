"""How much arithmetic a model is: weights that each token is multiplied by, and attention between tokens.

A matrix of n weights takes 2 n FLOP per token forward (Kaplan et al., arXiv:2001.08361, section 2.1); its backward pass
takes as much for the gradient of its input and again for that of the weights, 6 n in all. Attention adds, per layer and
head, products of queries with keys and of scores with values (PaLM, arXiv:2204.02311, appendix B, which counts all
pairs); kernels that skip what is masked compute little more than half of the pairs under a causal mask (FlashAttention
2, arXiv:2307.08691, section 4.1). Token tables are read, not multiplied. Norms, rotations, activations, recurrent
states and convolutions are left out: what is counted here is a lower bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from planner.engine.kv_cache import cached_mixers
from planner.model.spec import Attention, Block, LatentAttention, LayerGroup, Mixer, ModelSpec, Stack
from planner.model.weights import Weight, layer_weights

MULTIPLIED = ("linear", "conv1d", "router", "expert")


@dataclass(frozen=True, slots=True)
class Layers:
    """Products with weights in the repeated layers of one stack, as one token sees them."""

    name: str
    weights: int
    """Weights that a token is multiplied by: of routed experts, those that it visits."""
    last_products: int
    """Of these, the last matrix of each layer, which non-reentrant checkpointing need not multiply again."""
    every_second: int
    """Of these, every second matrix."""
    feed_forward: int
    """Of these, those of feed-forwards and experts."""
    count: int


@lru_cache(maxsize=256)
def main_layers(spec: ModelSpec) -> Layers | None:
    """The main stack's; None where its layers are known by their parts alone, or change their resolution."""
    return _layers(spec.stack)


@lru_cache(maxsize=256)
def encoder_layers(spec: ModelSpec) -> Layers | None:
    """Those of the text or speech encoder of an encoder-decoder; None where there is none."""
    found = next((stack for stack in spec.stacks[1:] if stack.image is None and _is_crossed(spec)), None)
    return None if found is None else _layers(found)


def _is_crossed(spec: ModelSpec) -> bool:
    return any(group.cross_attention is not None for group in spec.stack.groups)


def _layers(stack: Stack) -> Layers | None:
    if not all(_is_told(group) for group in stack.groups):
        return None
    weights = last = second = forward = count = 0
    for group in stack.groups:
        met = [weight for weight in layer_weights(group, stack.hidden_size) if _multiplies(weight)]
        visited = [_visited(weight) for weight in met]
        weights += sum(visited) * group.count
        forward += sum(_visited(weight) for weight in met if weight.block == "feed_forward") * group.count
        last += visited[-1] * group.count if visited else 0
        second += sum(visited[1::2]) * group.count
        count += group.count
    return Layers(stack.name, weights, last, second, forward, count)


def _is_told(group: LayerGroup) -> bool:
    return not isinstance(group.mixer, Block) and group.width is None and group.downsampling == 1


def _multiplies(weight: Weight) -> bool:
    return weight.kind in MULTIPLIED and len(weight.shape) > 1 + (weight.kind == "expert" and weight.experts > 1)


def _visited(weight: Weight) -> int:
    return weight.elements * weight.experts_per_token // weight.experts


def head_weights(spec: ModelSpec) -> int:
    """Weights of the output projection over a vocabulary; 0 where there is none, or one per sequence."""
    head = spec.head
    if head is None or head.kind != "vocabulary":
        return 0
    return head.outputs * (spec.stack.hidden_size if head.inputs is None else head.inputs)


def pairs(tokens: int, window: int | None, *, causal: bool, skips: bool) -> float:
    """Pairs of a query and a key whose score is computed; `skips`: kernels leave out what is masked."""
    if not skips:
        return float(tokens) * tokens
    seen = tokens if window is None else min(window, tokens)
    if not causal:
        return float(tokens) * seen
    return seen * (seen + 1) / 2 + float(tokens - seen) * seen


def attention_flops(spec: ModelSpec, tokens: int, *, skips: bool) -> float:
    """FLOP of attention in one forward pass of the main stack over a sequence, over all heads and layers."""
    total = 0.0
    for group, mixer in _main_mixers(spec):
        width, window, causal = _scored(mixer)
        if width:
            total += 2.0 * width * group.count * pairs(tokens, window, causal=causal, skips=skips)
    return total


def decoded_attention_flops(spec: ModelSpec, tokens: int) -> float:
    """FLOP of attention when one more token looks at `tokens` before it.

    Latent attention then works on the latents themselves, of the KV rank and the rotated part, once for scores and
    once for values (DeepSeek-V2, arXiv:2405.04434, section 2.1.2: absorbed projections).
    """
    total = 0.0
    for group, mixer in _main_mixers(spec):
        width, window, _ = _scored(mixer)
        if isinstance(mixer, LatentAttention):
            width = mixer.heads * (2 * mixer.kv_lora_rank + mixer.qk_rope_head_dim)
        total += 2.0 * width * group.count * min(tokens, window or tokens)
    return total


def _main_mixers(spec: ModelSpec) -> Iterator[tuple[LayerGroup, Mixer]]:
    main = {id(group) for group in spec.stack.groups}
    return ((group, mixer) for group, mixer in cached_mixers(spec) if id(group) in main)


def _scored(mixer: Mixer) -> tuple[int, int | None, bool]:
    """Widths of all heads' queries and values together, how far back they look, and whether they only look back."""
    if isinstance(mixer, Attention):
        return mixer.heads * (mixer.head_dim + mixer.value_dim), mixer.window, mixer.causal
    if isinstance(mixer, LatentAttention):
        width = mixer.heads * (mixer.head_dim + mixer.v_head_dim)
        return width, mixer.indexer.top_k if mixer.indexer is not None else None, mixer.causal
    return 0, None, True


def attending_width(spec: ModelSpec) -> tuple[int, int]:
    """(elements of keys and values of one token over all layers, elements of queries and outputs of one token)."""
    cached = queried = 0
    for group, mixer in _main_mixers(spec):
        if isinstance(mixer, Attention):
            cached += mixer.kv_heads * (mixer.head_dim + mixer.value_dim) * group.count
            queried += mixer.heads * (mixer.head_dim + mixer.value_dim) * group.count
        elif isinstance(mixer, LatentAttention):
            width = mixer.heads * (mixer.head_dim + mixer.v_head_dim)
            cached, queried = cached + width * group.count, queried + width * group.count
    return cached, queried


def mixtures(spec: ModelSpec) -> Iterator[tuple[int, int, int]]:
    """(layers, experts that a token visits, width of what is sent to them) of each mixture of experts."""
    for group in spec.stack.groups:
        chosen = getattr(group.feed_forward, "experts_per_token", 0)
        if chosen:
            yield group.count, chosen, getattr(group.feed_forward, "latent_size", None) or spec.stack.hidden_size


def meetings(spec: ModelSpec) -> int:
    """How often tensor-parallel ranks add up what they have in one pass: after each half of a layer, where it has two.

    Halves that run side by side are added up at once (GPT-J, GPT-NeoX).
    """
    return sum(group.count * (1 if _is_single(group) else 2) for group in spec.stack.groups)


def _is_single(group: LayerGroup) -> bool:
    return group.arrangement == "parallel" or group.mixer is None or group.feed_forward is None
