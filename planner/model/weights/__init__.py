"""Every parameter tensor of a model, from which all counts, shards and adapters are derived."""

from collections.abc import Iterator
from functools import lru_cache

from planner.model.spec import DOWNSAMPLE, Block, Head, LayerGroup, Linear, LinearKind, ModelSpec, Shard, Stack
from planner.model.weights.feed_forward import feed_forward_weights
from planner.model.weights.mixers import mixer_weights
from planner.model.weights.weight import Weight, WeightKind, expand, linear, norm, placed

__all__ = ["Weight", "WeightKind", "layer_weights", "stack_weights", "weights"]


@lru_cache(maxsize=4096)
def layer_weights(group: LayerGroup, hidden_size: int) -> tuple[Weight, ...]:
    """The tensors of one layer of `group` in a stack of width `hidden_size`."""
    hidden = hidden_size if group.width is None else group.width
    return tuple(_layer(group, hidden))


def _layer(group: LayerGroup, hidden: int) -> Iterator[Weight]:
    if group.mixer is not None:
        for weight in mixer_weights(group.mixer, hidden):
            yield placed(weight, "other" if _reduces(group) else "mixer", "", None)
    if group.cross_attention is not None:
        for weight in mixer_weights(group.cross_attention, hidden):
            yield placed(weight, "cross_attention", "", None)
    if group.feed_forward is not None:
        for weight in feed_forward_weights(group.feed_forward, hidden):
            yield placed(weight, "feed_forward", "", None)
    for _ in range(group.norms):
        yield from norm("norm", hidden, group.norm)
    for part in group.extra:
        yield from expand(part)


def _reduces(group: LayerGroup) -> bool:
    """Whether the group only reduces an image between two stages."""
    return isinstance(group.mixer, Block) and group.mixer.kind == DOWNSAMPLE


def stack_weights(stack: Stack) -> Iterator[tuple[Weight, int]]:
    """Every tensor of one stack with how many there are of it."""
    if stack.embedding is not None:
        shape = (stack.embedding.vocab, stack.embedding.size)
        yield Weight("embed_tokens", shape, "embedding", "vocab", block="embedding", stack=stack.name), 1
    for part in stack.before:
        for weight in expand(part):
            yield placed(weight, "other", stack.name, None), 1
    for index, group in enumerate(stack.groups):
        for weight in layer_weights(group, stack.hidden_size):
            sets = group.count if group.weight_sets is None else group.weight_sets
            yield placed(weight, "other", stack.name, index), sets
    for weight in norm("final_norm", stack.hidden_size, stack.final_norm):
        yield placed(weight, "norm", stack.name, None), 1
    for part in stack.after:
        for weight in expand(part):
            yield placed(weight, "other", stack.name, None), 1


def _head(head: Head, hidden: int) -> Iterator[Weight]:
    for part in head.before:
        yield from expand(part)
    inputs = hidden if head.inputs is None else head.inputs
    kind: LinearKind = "subclass" if head.kept_by_4bit_loaders else "linear"
    shard: Shard = "vocab" if head.kind == "vocabulary" else "replicated"
    for weight in linear(Linear(head.name, inputs, head.outputs, head.bias, shard, kind)):
        if weight.kind == "bias" or not head.tied:
            yield weight


@lru_cache(maxsize=256)
def weights(spec: ModelSpec) -> tuple[tuple[Weight, int], ...]:
    """Every parameter tensor with how many there are of it. A tied head is the token table and is not repeated."""
    found = [entry for stack in spec.stacks for entry in stack_weights(stack)]
    if spec.head is not None:
        found += [(placed(weight, "head", "head", None), 1) for weight in _head(spec.head, spec.stack.hidden_size)]
    return tuple(found)
