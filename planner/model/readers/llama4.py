"""The language model of Llama 4: chunked attention, layers with experts between dense ones."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward, layer
from planner.model.readers.layers import layer_count, merged, windows
from planner.model.spec import Attention, DenseFeedForward, LayerGroup, MixtureOfExperts, ModelSpec, Norm

MODEL_TYPES = ("llama4_text",)

_TRAITS = Traits(qkv_bias="attention_bias", output_bias="attention_bias", ffn="intermediate_size_mlp")


_LENGTH_ONE = Norm(weight=False)


def _rotating(config: Config, count: int) -> list[bool]:
    """Which layers turn queries and keys: those that `no_rope_layers` marks by 1, or all but every fourth."""
    marks = config.raw("no_rope_layers")
    if isinstance(marks, list) and len(marks) == count:
        return [bool(mark) for mark in marks]
    every = config.size("no_rope_layer_interval", 4)
    return [(index + 1) % every != 0 for index in range(count)]


def _positioned(config: Config, looks: Attention, *, rotates: bool) -> Attention:
    """Layers that rotate may bring queries and keys to length one; the others scale queries by their position."""
    if not rotates:
        return replace(looks, rotary_share=0.0, scaled_by_position=config.flag("attn_temperature_tuning", True))
    norm = _LENGTH_ONE if config.flag("use_qk_norm", True) else None
    return replace(looks, rotary_pairs="complex", qk_norm=norm, qk_norm_rotated=norm is not None)


def read(config: Config, task: str | None) -> ModelSpec:
    """A Llama 4 language model. Its query and key norms have no weights."""
    count = layer_count(config)
    step = config.size("interleave_moe_layer_step")
    sparse = set(config.sizes("moe_layers")) if config.raw("moe_layers") else set(range(step - 1, count, step))
    dense = feed_forward(config, _TRAITS)
    shared = DenseFeedForward(config.size("intermediate_size"))
    experts = config.size("num_local_experts")
    mixture = MixtureOfExperts(
        experts,
        config.size("num_experts_per_tok", maximum=experts),
        shared.size,
        shared=shared,
        transposed=True,
        visits_all=True,
    )
    chunk = config.size("attention_chunk_size")
    seen = windows(config, count)
    if config.texts("layer_types") is None:
        every = config.size("no_rope_layer_interval", 4)
        seen = [chunk if (index + 1) % every else None for index in range(count)]

    rotates = _rotating(config, count)

    def one(index: int) -> LayerGroup:
        network = mixture if index in sparse else dense
        looks = attention(config, _TRAITS, seen[index])
        return layer(_TRAITS, _positioned(config, looks, rotates=rotates[index]), network)

    return decoder_model(config, task, _TRAITS, merged(one(index) for index in range(count)))
