"""DBRX: a mixture of experts whose sizes stand in nested configurations."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, decoder_model
from planner.model.readers.layers import layer_count
from planner.model.spec import Attention, LayerGroup, MixtureOfExperts, ModelSpec, Norm

MODEL_TYPES = ("dbrx",)

_NORM = Norm("layernorm")


def read(config: Config, task: str | None) -> ModelSpec:
    """A DBRX decoder; the defaults are those of `DbrxAttentionConfig` and `DbrxFFNConfig`."""
    heads = config.size("num_attention_heads")
    looks, network = config.part("attn_config", "dbrx_attention"), config.part("ffn_config", "dbrx_ffn")
    kv_heads = looks.size("kv_n_heads", 1)
    if heads % kv_heads:
        raise looks.error("kv_n_heads", kv_heads, f"a divisor of the {heads} attention heads")
    mixer = Attention(
        heads,
        kv_heads,
        config.divisible("hidden_size", "num_attention_heads"),
        dropout=looks.number("attn_pdrop", 0.0, maximum=1.0),
        fused=True,
        names=("Wqkv", "", "", "out_proj"),
    )
    experts = network.size("moe_num_experts", 4)
    feed_forward = MixtureOfExperts(
        experts,
        network.size("moe_top_k", 1, maximum=experts),
        network.size("ffn_hidden_size", 3584),
        router="linear",
    )
    group = LayerGroup(layer_count(config), mixer, feed_forward, _NORM)
    spec = decoder_model(config, task, Traits(norm=_NORM), (group,))
    return replace(spec, max_positions=config.optional_size("max_seq_len"))
