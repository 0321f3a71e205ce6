"""The language model of Llama 4: chunked attention, layers with experts between dense ones."""

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward, layer
from planner.model.readers.layers import layer_count, merged, windows
from planner.model.spec import DenseFeedForward, LayerGroup, MixtureOfExperts, ModelSpec

MODEL_TYPES = ("llama4_text",)

_TRAITS = Traits(qkv_bias="attention_bias", output_bias="attention_bias", ffn="intermediate_size_mlp")


def read(config: Config, task: str | None) -> ModelSpec:
    """A Llama 4 language model. Its query and key norms have no weights."""
    count = layer_count(config)
    step = config.size("interleave_moe_layer_step")
    sparse = set(config.sizes("moe_layers")) if config.raw("moe_layers") else set(range(step - 1, count, step))
    dense = feed_forward(config, _TRAITS)
    shared = DenseFeedForward(config.size("intermediate_size"))
    experts = config.size("num_local_experts")
    mixture = MixtureOfExperts(
        experts, config.size("num_experts_per_tok", maximum=experts), shared.size, shared=shared, transposed=True
    )
    chunk = config.size("attention_chunk_size")
    seen = windows(config, count)
    if config.texts("layer_types") is None:
        every = config.size("no_rope_layer_interval", 4)
        seen = [chunk if (index + 1) % every else None for index in range(count)]

    def one(index: int) -> LayerGroup:
        network = mixture if index in sparse else dense
        return layer(_TRAITS, attention(config, _TRAITS, seen[index]), network)

    return decoder_model(config, task, _TRAITS, merged(one(index) for index in range(count)))
