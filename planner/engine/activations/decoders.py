"""From the structure of a decoder to what is recorded of it: one shape and a few dimensions per kind of layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from planner.engine.activations.kernels import kernel
from planner.engine.activations.setting import RECORDED, Setting, divided
from planner.engine.activations.shape import LayerShape
from planner.engine.term import Factor
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, ModelSpec


def only_stack(spec: ModelSpec) -> tuple[LayerGroup, ...] | None:
    """The layers of a plain language model; None for one with further stacks or without a vocabulary to predict."""
    plain = len(spec.stacks) == 1 and spec.stack.embedding is not None
    return spec.stack.groups if plain and spec.head is not None and spec.head.kind == "vocabulary" else None


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of layer of a model: what is recorded of each, their dimensions and how many there are."""

    shapes: tuple[LayerShape, ...]
    symbols: tuple[Factor, ...]
    layers: Mapping[str, int]


def kinds_of(groups: Sequence[LayerGroup], setting: Setting, *, only_eager: bool = False) -> Kinds:
    """One kind per group, in their order."""
    shapes = tuple(attention_shape(index, group, setting, only_eager=only_eager) for index, group in enumerate(groups))
    symbols = [
        symbol
        for shape, group in zip(shapes, groups, strict=True)
        for symbol in attention_symbols(shape, group, setting)
    ]
    return Kinds(shapes, tuple(symbols), {str(index): group.count for index, group in enumerate(groups)})


def equal_layers(spec: ModelSpec) -> tuple[LayerGroup, ...] | None:
    """The layers of a plain language model that differ in nothing but where they stand."""
    groups = only_stack(spec)
    if not groups or len({replace(group, count=1, indices=()) for group in groups}) > 1:
        return None
    return groups


def attention_shape(index: int, group: LayerGroup, setting: Setting, *, only_eager: bool = False) -> LayerShape:
    """The shape of the `index`-th kind of layer. `only_eager`: its class knows no other attention."""
    mixer, feed_forward = group.mixer, group.feed_forward
    assert isinstance(mixer, Attention)
    assert isinstance(feed_forward, DenseFeedForward)
    grouped = mixer.kv_heads != mixer.heads
    implementation = "eager" if only_eager else setting.attention
    masked = implementation == "eager" or setting.masks(mixer.window)
    return LayerShape(
        name=f"kind {index + 1} " if index else "",
        copies=min(group.count, RECORDED),
        grouped_queries=grouped,
        kernel=kernel(
            implementation,
            setting.compute_dtype,
            masked=masked,
            grouped_queries=grouped,
            single_kv_head=mixer.kv_heads == 1,
            head_dim=mixer.head_dim,
        ),
        masked=masked,
        qkv_bias=mixer.qkv_bias,
        output_bias=mixer.output_bias,
        qk_norm=mixer.qk_norm is not None,
        qk_norm_rotated=mixer.qk_norm_rotated,
        attention_dropout=mixer.dropout > 0 and setting.training,
        gated=feed_forward.gated,
        activation=feed_forward.activation,
        mlp_bias=feed_forward.bias,
        single_kv_head=grouped and mixer.kv_heads == 1,
        single_sequence=setting.single_sequence,
        shared_mask=not setting.needs_mask,
        caches_all_heads=mixer.cache_heads is not None and mixer.cache_heads != mixer.kv_heads,
        rotates_all=mixer.rotary_share == 1.0,
        rotates=mixer.rotary_share > 0,
        hidden_dropout=group.dropout > 0 and setting.training,
    )


def attention_symbols(shape: LayerShape, group: LayerGroup, setting: Setting) -> tuple[Factor, ...]:
    """The dimensions of one kind of layer, as one of the tensor-parallel GPUs holds them."""
    mixer, feed_forward = group.mixer, group.feed_forward
    assert isinstance(mixer, Attention)
    assert isinstance(feed_forward, DenseFeedForward)
    rotated = int(mixer.head_dim * mixer.rotary_share)
    return (
        divided(f"{shape.name}heads", mixer.heads, setting.tensor_parallel),
        divided(f"{shape.name}kv heads", mixer.kv_heads, setting.tensor_parallel),
        Factor(f"{shape.name}head dim", mixer.head_dim),
        Factor(f"{shape.name}half head dim", mixer.head_dim // 2),
        Factor(f"{shape.name}rotated", rotated),
        Factor(f"{shape.name}half rotated", rotated // 2),
        Factor(f"{shape.name}head dim not rotated", mixer.head_dim - rotated),
        divided(f"{shape.name}all heads", mixer.heads + 2 * mixer.kv_heads, setting.tensor_parallel),
        divided(f"{shape.name}ffn", feed_forward.size, setting.tensor_parallel),
    )


def embedding_dropout(spec: ModelSpec, setting: Setting) -> bool:
    return setting.training and spec.stack.embedding is not None and spec.stack.embedding.dropout > 0
