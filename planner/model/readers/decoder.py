"""Decoders of the common shape: token table, equal layers of attention and feed-forward, final norm, head.

`Traits` states how one architecture departs from Llama. A bias or norm that depends on the file is given by the name of
its key, one that is fixed in the code by True or False.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from planner.model.readers.config import Config
from planner.model.readers.layers import layer_count, merged, windows
from planner.model.readers.tasks import decoder_head, task_of
from planner.model.spec import (
    RMS_NORM,
    Arrangement,
    Attention,
    DenseFeedForward,
    Embedding,
    FeedForward,
    Head,
    LayerGroup,
    LinearKind,
    ModelSpec,
    Norm,
    Part,
    Stack,
)

MOST_HEADS = 65_536
Switch = bool | str
Windows = Callable[[Config, int], list[int | None]]


@dataclass(frozen=True, slots=True)
class Traits:
    """How a decoder differs from Llama."""

    norm: Norm = RMS_NORM
    norms: int = 2
    arrangement: Arrangement = "pre"
    qkv_bias: Switch = False
    output_bias: Switch = False
    mlp_bias: Switch = False
    gated: bool = True
    fused_qkv: bool = False
    fused_mlp: bool = False
    qk_norm: Switch = False
    qk_norm_kind: Norm = RMS_NORM
    qk_norm_scope: Literal["head", "all", "each"] = "head"
    qk_norm_rotated: bool = False
    head_dim: str = "head_dim"
    kv_heads: str = "num_key_value_heads"
    ffn: str = "intermediate_size"
    ffn_ratio: int | None = None
    """Times the hidden size, where the feed-forward's own size is not stated."""
    activation: str = "hidden_act"
    windows: Windows = windows
    linear: LinearKind = "linear"
    final_norm: bool = True
    head_bias: Switch = False
    tied: Switch = "tie_word_embeddings"
    attention_names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "o_proj")
    mlp_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    rotary: bool = True
    rotary_pairs: Literal["halves", "neighbours"] = "halves"
    rotary_upcast: Literal["none", "tables", "products", "all"] = "none"
    rotary_share: float = 1.0
    """The part of a head that is turned where the file does not say it."""
    rotary_size: str | None = None
    """Key of how many elements of a head are turned, which some files state in place of a share."""
    scores_in_fp32: bool = False
    dropout: str = "attention_dropout"
    hidden_dropout: str | None = None
    """Key of the dropout after attention and feed-forward, for classes that have one."""
    embedding_dropout: str | None = None
    scaled_embedding: bool = False
    softcap: bool | None = None
    """Whether scores and logits are capped where the keys `attn_logit_softcapping` and `final_logit_softcapping` are
    absent; None: the class knows no caps."""
    scaled_residual: bool = False
    scaled_logits: bool = False


def switch(config: Config, value: Switch) -> bool:
    return config.flag(value) if isinstance(value, str) else value


def head_dim(config: Config, key: str = "head_dim", hidden: str = "hidden_size") -> int:
    """The stated width of a head, else hidden size over heads."""
    stated = config.optional_size(key)
    return config.divisible(hidden, "num_attention_heads") if stated is None else stated


def attention(config: Config, traits: Traits, window: int | None = None) -> Attention:
    """The attention of one layer."""
    heads = config.size("num_attention_heads", maximum=MOST_HEADS)
    kv_heads = config.size(traits.kv_heads, heads, maximum=MOST_HEADS)
    if heads % kv_heads:
        raise config.error(traits.kv_heads, kv_heads, f"a divisor of the {heads} attention heads")
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim(config, traits.head_dim),
        qkv_bias=switch(config, traits.qkv_bias),
        output_bias=switch(config, traits.output_bias),
        qk_norm=traits.qk_norm_kind if switch(config, traits.qk_norm) else None,
        window=window,
        dropout=config.number(traits.dropout, 0.0, maximum=1.0),
        qk_norm_scope=traits.qk_norm_scope,
        qk_norm_rotated=traits.qk_norm_rotated,
        fused=traits.fused_qkv,
        rotary_share=rotary_share(config, _usual_share(config, traits)) if traits.rotary else 0.0,
        rotary_pairs=traits.rotary_pairs,
        rotary_upcast=traits.rotary_upcast,
        scores_in_fp32=traits.scores_in_fp32,
        softcap=is_capped(config, traits, "attn_logit_softcapping"),
        linear=traits.linear,
        names=traits.attention_names,
    )


def is_capped(config: Config, traits: Traits, key: str) -> bool:
    """Whether a tanh caps what `key` names; a null says no."""
    if traits.softcap is None:
        return False
    return config.stated[key] is not None if key in config.stated else traits.softcap


def _usual_share(config: Config, traits: Traits) -> float:
    turned = None if traits.rotary_size is None else config.optional_size(traits.rotary_size)
    return traits.rotary_share if turned is None else min(1.0, turned / head_dim(config, traits.head_dim))


def rotary_share(config: Config, usual: float = 1.0) -> float:
    """The part of a head that rotary embedding turns."""
    parameters = config.raw("rope_parameters")
    nested = parameters.get("partial_rotary_factor") if isinstance(parameters, dict) else None
    if isinstance(nested, int | float) and 0 <= nested <= 1:
        return float(nested)
    return config.number("partial_rotary_factor", usual, maximum=1.0)


def feed_forward_size(config: Config, traits: Traits) -> int:
    usual = None if traits.ffn_ratio is None else traits.ffn_ratio * config.size("hidden_size")
    return config.size(traits.ffn, usual)


def feed_forward(config: Config, traits: Traits, size: int | None = None) -> DenseFeedForward:
    """The dense feed-forward of one layer."""
    return DenseFeedForward(
        size=feed_forward_size(config, traits) if size is None else size,
        gated=traits.gated,
        activation=config.text(traits.activation, "silu"),
        bias=switch(config, traits.mlp_bias),
        fused=traits.fused_mlp,
        linear=traits.linear,
        names=traits.mlp_names,
    )


def layer(
    traits: Traits, mixer: Attention, network: FeedForward, extra: tuple[Part, ...] = (), dropout: float = 0.0
) -> LayerGroup:
    return LayerGroup(
        1,
        mixer,
        network,
        traits.norm,
        traits.norms,
        traits.arrangement,
        extra=extra,
        dropout=dropout,
        residual_scaled=traits.scaled_residual,
    )


def hidden_dropout(config: Config, traits: Traits) -> float:
    return 0.0 if traits.hidden_dropout is None else config.number(traits.hidden_dropout, 0.0, maximum=1.0)


def decoder_layers(config: Config, traits: Traits) -> tuple[LayerGroup, ...]:
    """Equal layers, but for their windows."""
    network = feed_forward(config, traits)
    seen = traits.windows(config, layer_count(config))
    dropout = hidden_dropout(config, traits)
    kinds = {window: layer(traits, attention(config, traits, window), network, dropout=dropout) for window in set(seen)}
    return merged(kinds[window] for window in seen)


def decoder_stack(
    config: Config,
    traits: Traits,
    groups: tuple[LayerGroup, ...],
    before: tuple[Part, ...] = (),
    after: tuple[Part, ...] = (),
    embedding_size: int | None = None,
) -> Stack:
    hidden = config.size("hidden_size")
    return Stack(
        name="decoder",
        hidden_size=hidden,
        embedding=Embedding(
            config.size("vocab_size"),
            hidden if embedding_size is None else embedding_size,
            traits.scaled_embedding,
            0.0 if traits.embedding_dropout is None else config.number(traits.embedding_dropout, 0.0, maximum=1.0),
        ),
        groups=groups,
        final_norm=traits.norm if traits.final_norm else None,
        before=before,
        after=after,
    )


def decoder_model(
    config: Config,
    asked: str | None,
    traits: Traits,
    groups: tuple[LayerGroup, ...] | None = None,
    before: tuple[Part, ...] = (),
    after: tuple[Part, ...] = (),
    embedding_size: int | None = None,
    head: Head | None = None,
) -> ModelSpec:
    """A whole decoder with the head that its task asks for."""
    task = task_of(config, asked, "causal-lm")
    layers = decoder_layers(config, traits) if groups is None else groups
    stack = decoder_stack(config, traits, layers, before, after, embedding_size)
    vocab = config.size("vocab_size")
    tied, bias = switch(config, traits.tied), switch(config, traits.head_bias)
    own = decoder_head(config, task, vocab, tied=tied, bias=bias)
    if head is not None and own is not None and own.kind == "vocabulary":
        own = head
    if own is not None and own.kind == "vocabulary":
        own = replace(own, softcap=is_capped(config, traits, "final_logit_softcapping"), scaled=traits.scaled_logits)
    return ModelSpec(
        name=config.model_type,
        model_type=config.model_type,
        task=task,
        stacks=(stack,),
        head=own,
        max_positions=config.optional_size("max_position_embeddings"),
    )
