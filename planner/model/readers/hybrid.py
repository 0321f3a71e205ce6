"""State-space layers mixed with attention: Jamba, Bamba, Nemotron-H, Falcon-H1, Granite 4, MiniMax-01, LFM2."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import layer_count, merged
from planner.model.readers.moe import OF_CHOSEN, Sparsity, mixture
from planner.model.readers.state_space import dt_rank, inner_size
from planner.model.spec import (
    DenseFeedForward,
    LayerGroup,
    LightningAttention,
    Mamba,
    Mamba2,
    Mixer,
    MixtureOfExperts,
    ModelSpec,
    Norm,
    ParallelMixers,
    RealGatedRecurrence,
    Routing,
    ShortConvolution,
)

_PLAIN = Traits()
_BIASED = Traits(qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias")
_JAMBA_ROUTING = Routing(normalised=False, fp32_weights=False)
_LINEAR = ("linear_attention", "mamba", "mamba2", "M", "conv", "short_conv")


def _mamba2(config: Config, bias: str = "mamba_proj_bias", inner: int | None = None) -> Mamba2:
    """Mamba 2 under the key names of Bamba and its relatives."""
    heads = config.size("mamba_n_heads")
    width = inner_size(config, "mamba_expand") if inner is None else inner
    stated = config.raw("mamba_d_head", "auto")
    head_dim = width // heads if stated == "auto" else config.size("mamba_d_head")
    return Mamba2(
        heads,
        head_dim,
        config.size("mamba_d_state"),
        config.size("mamba_n_groups", 1),
        config.size("mamba_d_conv"),
        config.flag("mamba_conv_bias"),
        config.flag(bias),
        chunk=config.size("mamba_chunk_size", 256),
    )


def _spread(config: Config, task: str | None, traits: Traits, layers: Sequence[LayerGroup]) -> ModelSpec:
    return decoder_model(config, task, traits, merged(layers))


def _jamba(config: Config, task: str | None) -> ModelSpec:
    state = Mamba(
        inner_size(config, "mamba_expand"),
        config.size("mamba_d_state"),
        dt_rank(config, "mamba_dt_rank"),
        config.size("mamba_d_conv"),
        config.flag("mamba_conv_bias"),
        config.flag("mamba_proj_bias"),
        inner_norms=True,
    )
    looks, dense = attention(config, replace(_PLAIN, rotary=False)), feed_forward(config, _PLAIN)
    experts = config.size("num_experts")
    sparse = (
        mixture(config, Sparsity(_PLAIN, size="intermediate_size", routing=_JAMBA_ROUTING)) if experts > 1 else dense
    )

    def one(index: int) -> LayerGroup:
        looking = index % config.size("attn_layer_period") == config.count("attn_layer_offset")
        expert = index % config.size("expert_layer_period") == config.count("expert_layer_offset")
        return LayerGroup(1, looks if looking else state, sparse if expert else dense)

    return _spread(config, task, _PLAIN, [one(index) for index in range(layer_count(config))])


def _bamba(config: Config, task: str | None) -> ModelSpec:
    looks = attention(config, replace(_BIASED, rotary_share=0.5))
    state, dense = _mamba2(config), feed_forward(config, _BIASED)
    at = set(config.sizes("attn_layer_indices")) if config.raw("attn_layer_indices") else set()
    layers = [LayerGroup(1, looks if index in at else state, dense) for index in range(layer_count(config))]
    return _spread(config, task, _BIASED, layers)


def _falcon_h1(config: Config, task: str | None) -> ModelSpec:
    traits = _BIASED
    state = replace(
        _mamba2(config, inner=config.size("mamba_d_ssm", inner_size(config, "mamba_expand"))),
        gated_norm=config.flag("mamba_rms_norm"),
        output_bias=config.flag("projectors_bias"),
    )
    mixer = ParallelMixers((state, attention(config, traits)))
    group = LayerGroup(layer_count(config), mixer, feed_forward(config, traits))
    return decoder_model(config, task, traits, (group,))


def _granite_hybrid(config: Config, task: str | None) -> ModelSpec:
    traits = replace(_BIASED, rotary=config.raw("position_embedding_type") == "rope")
    names = ("", "input_linear", "output_linear")
    shared = DenseFeedForward(config.size("shared_intermediate_size"), fused=True, names=names)
    network: DenseFeedForward | MixtureOfExperts = shared
    if config.count("num_local_experts"):
        sparsity = Sparsity(
            traits,
            experts="num_local_experts",
            size="intermediate_size",
            shared=lambda _: shared,
            routing=OF_CHOSEN,
        )
        network = mixture(config, sparsity)
    looks, state, count = attention(config, traits), _mamba2(config), layer_count(config)
    kinds = config.texts("layer_types", count) or ("mamba",) * count
    layers = [LayerGroup(1, state if kind in _LINEAR else looks, network) for kind in kinds]
    return _spread(config, task, traits, layers)


_NEMOTRON_KINDS = {
    "M": "mamba",
    "*": "attention",
    "-": "mlp",
    "E": "moe",
    "linear_attention": "mamba",
    "full_attention": "attention",
}


def _nemotron_h(config: Config, task: str | None) -> ModelSpec:
    """Each layer is one block behind one norm: Mamba 2 (M), attention (*), feed-forward (-) or experts (E)."""
    pattern = config.raw("hybrid_override_pattern") or config.raw("layers_block_type")
    if not isinstance(pattern, str | list) or not pattern:
        raise config.missing("hybrid_override_pattern", "a text of M, *, - and E, one for each layer")
    kinds = [_NEMOTRON_KINDS.get(str(kind), str(kind)) for kind in pattern]
    unknown = set(kinds) - {"mamba", "attention", "mlp", "moe"}
    if unknown:
        raise config.error("hybrid_override_pattern", sorted(unknown), "made of M, *, - and E")
    norm = Norm(code="weight-in-fp32")
    traits = Traits(norm=norm, gated=False, mlp_bias="mlp_bias", activation="mlp_hidden_act", rotary=False, tied=False)
    blocks: Mapping[str, LayerGroup] = {
        kind: LayerGroup(1, *_nemotron_block(config, traits, kind), norm=norm, norms=1) for kind in set(kinds)
    }
    return _spread(config, task, traits, [blocks[kind] for kind in kinds])


def _nemotron_block(
    config: Config, traits: Traits, kind: str
) -> tuple[Mixer | None, DenseFeedForward | MixtureOfExperts | None]:
    if kind == "mamba":
        groups = config.size("mamba_n_groups", config.size("n_groups", 8))
        kernel = config.size("mamba_d_conv", config.size("conv_kernel"))
        heads, head_dim = config.size("mamba_num_heads"), config.size("mamba_head_dim")
        state, conv_bias, bias = config.size("ssm_state_size"), config.flag("use_conv_bias"), config.flag("use_bias")
        chunk = config.size("chunk_size", config.size("mamba_chunk_size", 128))
        return Mamba2(heads, head_dim, state, groups, kernel, conv_bias, bias, chunk=chunk), None
    if kind == "attention":
        return attention(config, traits), None
    dense = feed_forward(config, traits)
    if kind == "mlp":
        return None, dense
    shared = replace(dense, size=config.size("moe_shared_expert_intermediate_size"))
    experts = config.size("n_routed_experts")
    return None, MixtureOfExperts(
        experts,
        config.size("num_experts_per_tok", maximum=experts),
        config.size("moe_intermediate_size"),
        gated=False,
        activation=dense.activation,
        shared=shared,
        latent_size=config.optional_size("moe_latent_size"),
    )


def _minimax(config: Config, task: str | None) -> ModelSpec:
    sparsity = Sparsity(_PLAIN, experts="num_local_experts", size="intermediate_size")
    experts, looks, count = mixture(config, sparsity), attention(config, _PLAIN), layer_count(config)
    lightning = LightningAttention(looks.heads, looks.head_dim)
    types = config.texts("layer_types", count)
    if types is None:
        types = tuple("linear_attention" if index % 2 else "full_attention" for index in range(count))
    layers = [LayerGroup(1, lightning if kind in _LINEAR else looks, experts) for kind in types]
    return _spread(config, task, _PLAIN, layers)


def _lfm2(config: Config, task: str | None) -> ModelSpec:
    traits = Traits(
        qk_norm=True,
        attention_names=("q_proj", "k_proj", "v_proj", "out_proj"),
        mlp_names=("w1", "w3", "w2"),
        ffn="intermediate_size",
    )
    count, hidden = layer_count(config), config.size("hidden_size")
    short = ShortConvolution(hidden, config.size("conv_L_cache"), config.flag("conv_bias"))
    looks = attention(config, traits)
    types = config.texts("layer_types", count)
    if types is None:
        at = set(config.sizes("full_attn_idxs")) if config.raw("full_attn_idxs") else set(range(count))
        types = tuple("full_attention" if index in at else "conv" for index in range(count))
    if config.model_type == "lfm2_moe":
        dense = feed_forward(config, traits)
        experts = mixture(config, Sparsity(traits, routing=Routing("sigmoid", fp32_scores=False, scaled=True)))
        first = config.count("num_dense_layers")
        networks = [dense if index < first else experts for index in range(count)]
    else:
        networks = [feed_forward(config, traits, _lfm2_size(config))] * count
    pairs = zip(types, networks, strict=True)
    layers = [LayerGroup(1, short if kind in _LINEAR else looks, network) for kind, network in pairs]
    tied = "tie_embedding" if config.states("tie_embedding") else "tie_word_embeddings"
    return _spread(config, task, replace(traits, tied=tied), layers)


def _lfm2_size(config: Config) -> int:
    """LFM2 takes two thirds of the stated size, rounded up to `block_multiple_of`."""
    size = config.size("block_ff_dim", config.size("intermediate_size"))
    if not config.flag("block_auto_adjust_ff_dim"):
        return size
    size = int(config.number("block_ffn_dim_multiplier", 1.0) * int(2 * size / 3))
    multiple = config.size("block_multiple_of")
    return -(-size // multiple) * multiple


def _recurrent_gemma(config: Config, task: str | None) -> ModelSpec:
    traits = Traits(qkv_bias="attention_bias", output_bias=True, mlp_bias=True, activation="hidden_activation")
    hidden, count = config.size("hidden_size"), layer_count(config)
    network = feed_forward(config, traits, config.size("intermediate_size") // 2)
    looks = attention(config, traits, config.size("attention_window_size"))
    width = config.size("lru_width", hidden)
    recurrence = RealGatedRecurrence(width, looks.heads, config.size("conv1d_width"))
    types = config.texts("block_types") or ("recurrent",)
    kinds = [types[index % len(types)] for index in range(count)]
    layers = [LayerGroup(1, recurrence if kind == "recurrent" else looks, network) for kind in kinds]
    return _spread(config, task, traits, layers)


_READERS = {
    "jamba": _jamba,
    "bamba": _bamba,
    "falcon_h1": _falcon_h1,
    "granitemoehybrid": _granite_hybrid,
    "nemotron_h": _nemotron_h,
    "minimax": _minimax,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2,
    "recurrent_gemma": _recurrent_gemma,
}
MODEL_TYPES = tuple(_READERS)


def read(config: Config, task: str | None) -> ModelSpec:
    """A decoder that mixes state-space or linear layers with attention."""
    return _READERS[config.model_type](config, task)
