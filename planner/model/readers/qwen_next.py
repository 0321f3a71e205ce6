"""Qwen3-Next and the text models of Qwen3.5: three Gated DeltaNet layers to one of gated attention."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import every, layer_count, merged
from planner.model.readers.moe import SPARSE, all_sparse, mixture, sparse_steps
from planner.model.spec import RMS_NORM, FeedForward, GatedDeltaNet, LayerGroup, ModelSpec

MODEL_TYPES = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")

_NORM = replace(RMS_NORM, code="one-plus-weight")
_TRAITS = Traits(norm=_NORM, qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, qk_norm_kind=_NORM)
_ROTARY_SHARE = 0.25


def gated_layers(config: Config) -> tuple[LayerGroup, ...]:
    """The layers, by `layer_types` or every `full_attention_interval`-th one with attention."""
    count = layer_count(config)
    types = config.texts("layer_types", count)
    linear = every(config.size("full_attention_interval", 4), count)
    if types is not None:
        linear = [kind == "linear_attention" for kind in types]
    delta = GatedDeltaNet(
        key_heads=config.size("linear_num_key_heads"),
        value_heads=config.size("linear_num_value_heads"),
        key_head_dim=config.size("linear_key_head_dim"),
        value_head_dim=config.size("linear_value_head_dim"),
        kernel=config.size("linear_conv_kernel_dim"),
        fused=config.model_type == "qwen3_next",
    )
    looks = replace(attention(config, _TRAITS), gated=True)
    if looks.rotary_share == 1.0:
        looks = replace(looks, rotary_share=_ROTARY_SHARE)
    networks = _networks(config, count)
    layers = zip(linear, networks, strict=True)
    return merged(LayerGroup(1, delta if is_linear else looks, network, _NORM) for is_linear, network in layers)


def _networks(config: Config, count: int) -> list[FeedForward]:
    if config.model_type == "qwen3_5_text":
        return [feed_forward(config, _TRAITS)] * count
    sparse = sparse_steps(config, count) if config.model_type == "qwen3_next" else all_sparse(config, count)
    experts = mixture(config, replace(SPARSE["qwen2_moe"], normalised=True))
    dense = None if all(sparse) else feed_forward(config, _TRAITS)
    return [experts if is_sparse or dense is None else dense for is_sparse in sparse]


def read(config: Config, task: str | None) -> ModelSpec:
    """A hybrid decoder of the Qwen3-Next line."""
    return decoder_model(config, task, _TRAITS, gated_layers(config))
