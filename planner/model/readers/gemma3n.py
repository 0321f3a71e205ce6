"""Gemma 3n: four parallel residual streams (AltUp), a low-rank side path (LAuReL), and per-layer embeddings."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import every, layer_count, merged
from planner.model.readers.multimodal import text_part
from planner.model.spec import RMS_NORM, LayerGroup, Linear, ModelSpec, NormPart, Part, Table, Tensor

MODEL_TYPES = ("gemma3n", "gemma3n_text")

_TRAITS = Traits(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, activation="hidden_activation")


def read(config: Config, task: str | None) -> ModelSpec:
    """The language model. The towers, a MobileNet and a conformer from other libraries, are left out and said so."""
    if config.model_type == "gemma3n_text":
        return _text(config, task)
    spec = _text(text_part(config, "gemma3n_text"), "causal-lm")
    towers = "the vision and audio towers of Gemma 3n are left out; only its language model is planned"
    return replace(spec, name="gemma3n", model_type="gemma3n", approximate=towers)


def _text(config: Config, task: str | None) -> ModelSpec:
    count, hidden = layer_count(config), config.size("hidden_size")
    types = config.texts("layer_types", count)
    slides = every(5, count) if types is None else [kind == "sliding_attention" for kind in types]
    first_shared = count - config.count("num_kv_shared_layers")
    sizes = _sizes(config, count)
    kinds = [(slides[index], index >= first_shared, sizes[index]) for index in range(count)]
    made = {kind: _layer(config, *kind, hidden) for kind in set(kinds)}
    size, streams = config.size("hidden_size_per_layer_input"), config.size("altup_num_inputs")
    before: list[Part] = [
        Table("embed_tokens_per_layer", config.size("vocab_size_per_layer_input"), count * size),
        Linear("per_layer_model_projection", hidden, count * size),
        NormPart("per_layer_projection_norm", size, RMS_NORM),
    ]
    before += [Linear("altup_projections", hidden, hidden)] * (streams - 1)
    after: list[Part] = [Linear("altup_unembed_projections", hidden, hidden)] * (streams - 1)
    if after:
        # With a tied head the last of them is the last module: 4-bit loaders keep it.
        kept = Linear("altup_unembed_projections", hidden, hidden, kind="subclass")
        after[-1] = kept if config.flag("tie_word_embeddings") or task == "feature-extraction" else after[-1]
    groups = merged(made[kind] for kind in kinds)
    return decoder_model(config, task, _TRAITS, groups, tuple(before), tuple(after))


def _sizes(config: Config, count: int) -> tuple[int, ...]:
    if isinstance(config.raw("intermediate_size"), list):
        return config.sizes("intermediate_size", count)
    return (config.size("intermediate_size"),) * count


def _layer(config: Config, slides: bool, shared: bool, ffn: int, hidden: int) -> LayerGroup:
    looks = replace(attention(config, _TRAITS), own_key_value=not shared)
    if slides:
        looks = replace(looks, window=config.size("sliding_window"))
    streams, rank = config.size("altup_num_inputs"), config.size("laurel_rank")
    size = config.size("hidden_size_per_layer_input")
    extra: tuple[Part, ...] = (
        Tensor("altup.correct_output_scale", (hidden,)),
        Linear("altup.correction_coefs", streams, streams),
        Linear("altup.prediction_coefs", streams, streams**2),
        Linear("altup.modality_router", hidden, streams),
        NormPart("altup.router_norm", hidden, RMS_NORM),
        Linear("laurel.linear_left", hidden, rank),
        Linear("laurel.linear_right", rank, hidden),
        NormPart("laurel.post_laurel_norm", hidden, RMS_NORM),
        Linear("per_layer_input_gate", hidden, size),
        Linear("per_layer_projection", size, hidden),
        NormPart("post_per_layer_input_norm", hidden, RMS_NORM),
    )
    network = feed_forward(config, _TRAITS, ffn)
    return LayerGroup(1, looks, network, RMS_NORM, 4, "sandwich", extra=extra)
