"""Further mixtures of experts: EXAONE-MoE, Solar Open, FlexOlmo, Trinity (AFMoE) and MiMo-V2-Flash."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import every, layer_count, merged, windows
from planner.model.readers.moe import (
    GROUPED_SIGMOID,
    IN_MODEL_DTYPE,
    Sparsity,
    first_dense,
    mixture,
    shared_experts,
    sparse_layers,
)
from planner.model.spec import Attention, LayerGroup, ModelSpec, Tensor

MODEL_TYPES = ("exaone_moe", "solar_open", "flex_olmo", "afmoe", "mimo_v2_flash")


def _patterned(config: Config, layers: int) -> list[int | None]:
    """EXAONE: all but every `sliding_window_pattern`-th layer slide."""
    period = config.count("sliding_window_pattern", 4)
    return windows(config, layers, every(period, layers) if period else None)


_BIASED = Traits(qkv_bias="attention_bias", output_bias="attention_bias")
SPARSE = {
    "exaone_moe": Sparsity(
        Traits(qk_norm=True, windows=_patterned),
        sparse=first_dense,
        shared=shared_experts("num_shared_experts"),
        routing=GROUPED_SIGMOID,
        normalised=True,
    ),
    "solar_open": Sparsity(
        Traits(qkv_bias="attention_bias"),
        experts="n_routed_experts",
        shared=shared_experts("n_shared_experts"),
        routing=GROUPED_SIGMOID,
        normalised=True,
    ),
    "flex_olmo": Sparsity(
        replace(_BIASED, qk_norm=True, qk_norm_scope="all", arrangement="post"),
        size="intermediate_size",
        routing=IN_MODEL_DTYPE,
        normalised=False,
    ),
    "afmoe": Sparsity(
        replace(_BIASED, qk_norm=True, norms=4, arrangement="sandwich"),
        shared=shared_experts("num_shared_experts"),
        router="linear",
    ),
    "mimo_v2_flash": Sparsity(Traits(qkv_bias="attention_bias"), experts="n_routed_experts", sparse=first_dense),
}


def read(config: Config, task: str | None) -> ModelSpec:
    """A decoder with a mixture of experts."""
    sparsity = SPARSE[config.model_type]
    special = {"afmoe": _afmoe, "mimo_v2_flash": _mimo}.get(config.model_type)
    groups = special(config, sparsity) if special else sparse_layers(config, sparsity)
    return decoder_model(config, task, sparsity.traits, groups)


def _afmoe(config: Config, sparsity: Sparsity) -> tuple[LayerGroup, ...]:
    """Gated attention, dense first layers, and a trainable correction of the router."""
    traits, count = sparsity.traits, layer_count(config)
    experts = mixture(config, sparsity)
    experts = replace(experts, extra=(Tensor("expert_bias", (experts.experts,)),))
    dense, first = feed_forward(config, traits), config.count("num_dense_layers")
    seen = windows(config, count, every(config.size("global_attn_every_n_layers"), count))

    def one(index: int) -> LayerGroup:
        looks = attention(config, traits, seen[index])
        looks = replace(looks, output_gate=looks.query_size)
        return LayerGroup(1, looks, dense if index < first else experts, traits.norm, 4, "sandwich")

    return merged(one(index) for index in range(count))


def _mimo(config: Config, sparsity: Sparsity) -> tuple[LayerGroup, ...]:
    """Sliding layers have twice the KV heads and sinks; values are narrower than keys."""
    traits, count = sparsity.traits, layer_count(config)
    sparse = first_dense(config, count)
    if config.texts("mlp_layer_types") is None:
        sparse = [index > 0 for index in range(count)]
    types = config.texts("layer_types", count)
    slides = [index != 0 and (index + 1) % 6 != 0 for index in range(count)]
    if types is not None:
        slides = [kind == "sliding_attention" for kind in types]
    plain = replace(attention(config, traits), value_head_dim=config.size("v_head_dim"))
    local = _local(config, plain)
    experts, dense = mixture(config, sparsity), feed_forward(config, traits)
    layers = zip(slides, sparse, strict=True)
    return merged(LayerGroup(1, local if near else plain, experts if has else dense) for near, has in layers)


def _local(config: Config, plain: Attention) -> Attention:
    kv_heads = 2 * plain.kv_heads
    if plain.heads % kv_heads:
        raise config.error("num_key_value_heads", plain.kv_heads, f"half of a divisor of the {plain.heads} heads")
    return replace(plain, kv_heads=kv_heads, window=config.size("sliding_window"), sinks=True)
