"""Llama-shaped decoders with a mixture of experts in some or all layers: Mixtral, Qwen3-MoE and their relatives."""

from dataclasses import replace

from planner.engine.activations.models import llama
from planner.engine.activations.setting import Found, Setting, divided
from planner.engine.activations.shape import ExpertShape, LayerShape
from planner.engine.term import Factor
from planner.model.spec import Attention, LayerGroup, MixtureOfExperts, ModelSpec


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """The body of a model whose layers are Llama's, but for the experts of some."""
    groups = spec.stack.groups
    if len(spec.stacks) > 1 or not any(isinstance(group.feed_forward, MixtureOfExperts) for group in groups):
        return None
    if not all(_has_told_attention(group) and is_told(group) for group in groups):
        return None
    return with_experts(with_attention(llama.approximate(spec, setting), spec), spec, setting)


def _has_told_attention(group: LayerGroup) -> bool:
    """Llama's attention, whatever part of a head turns and however wide the norms of queries and keys are."""
    mixer = group.mixer
    if not isinstance(mixer, Attention) or mixer.rotary_share == 0:
        return False
    scope = "head" if mixer.qk_norm_scope == "all" else mixer.qk_norm_scope
    likened = replace(mixer, rotary_share=1.0, qk_norm_scope=scope)
    return llama.has_llama_attention(replace(group, mixer=likened))


def with_attention(found: Found, spec: ModelSpec) -> Found:
    """`found` with what its attention has beyond Llama's."""
    body = found.body
    assert isinstance(body, llama.DecoderBody)
    shapes: list[LayerShape] = []
    symbols = list(found.symbols)
    for shape, group in zip(body.layers, spec.stack.groups, strict=True):
        mixer = llama.attention_of(group)
        rotated = int(mixer.head_dim * mixer.rotary_share)
        whole = mixer.qk_norm_scope == "all"
        turns_part = 0 < mixer.rotary_share < 1
        shapes.append(replace(shape, whole_qk_norm=whole, rotates_all=not turns_part, heads_first=turns_part))
        symbols += [
            Factor(f"{shape.name}rotated", rotated),
            Factor(f"{shape.name}half rotated", rotated // 2),
            Factor(f"{shape.name}head dim not rotated", mixer.head_dim - rotated),
        ]
    return replace(found, body=replace(body, layers=tuple(shapes)), symbols=tuple(symbols))


def is_told(group: LayerGroup) -> bool:
    """Whether the feed-forward is a dense one, or a mixture of this shape."""
    feed_forward = group.feed_forward
    if not isinstance(feed_forward, MixtureOfExperts):
        return llama.has_dense_feed_forward(group)
    plain = feed_forward.dense is None and feed_forward.latent_size is None and not feed_forward.visits_all
    return feed_forward.expert_kind == "subclass" and plain


def with_experts(found: Found, spec: ModelSpec, setting: Setting) -> Found:
    """`found` with the experts of each layer that has some in place of the dense feed-forward."""
    body = found.body
    assert isinstance(body, llama.DecoderBody)
    shapes: list[LayerShape] = []
    symbols = list(found.symbols)
    for shape, group in zip(body.layers, spec.stack.groups, strict=True):
        feed_forward = group.feed_forward
        if isinstance(feed_forward, MixtureOfExperts):
            shape = replace(
                shape,
                experts=expert_shape(feed_forward, setting),
                gated=feed_forward.shared is None or feed_forward.shared.gated,
                mlp_bias=feed_forward.shared is not None and feed_forward.shared.bias,
            )
            symbols += expert_symbols(shape.name, feed_forward, spec.stack.hidden_size, setting)
        shapes.append(shape)
    return replace(found, body=replace(body, layers=tuple(shapes)), symbols=tuple(symbols))


def expert_shape(mixture: MixtureOfExperts, setting: Setting) -> ExpertShape:
    """What the experts of one kind of layer are, without sizes."""
    return ExpertShape(
        routing=mixture.routing,
        implementation=setting.experts,
        gated=mixture.gated,
        activation=mixture.activation,
        bias=mixture.bias,
        transposed=mixture.transposed,
        clamped=mixture.clamped,
        router_bias=mixture.router_bias,
        shared=mixture.shared is not None,
        shared_gate=mixture.shared_gate,
        shared_first=mixture.shared_gate or mixture.shared_first,
    )


def expert_symbols(name: str, mixture: MixtureOfExperts, hidden_size: int, setting: Setting) -> list[Factor]:
    """The sizes of one kind of layer's experts."""
    shared = mixture.shared.size if mixture.shared is not None else 1
    return [
        Factor(f"{name}experts", mixture.experts),
        divided(f"{name}own experts", mixture.experts, setting.expert_parallel),
        Factor(f"{name}experts per token", mixture.experts_per_token),
        Factor(f"{name}expert groups", mixture.groups),
        Factor(f"{name}chosen groups", mixture.chosen_groups),
        Factor(f"{name}expert width", mixture.latent_size or hidden_size),
        divided(f"{name}expert ffn", mixture.size, setting.expert_tensor or setting.tensor_parallel),
        divided(f"{name}ffn", shared, setting.tensor_parallel),
    ]
