"""Llama 3.2 Vision: cross-attention layers between the language model's own, and a tower of local and global layers."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import layer_count, merged
from planner.model.readers.multimodal import joined, text_model, text_part
from planner.model.readers.vit import patches, tower_layer
from planner.model.spec import (
    LAYER_NORM,
    RMS_NORM,
    Attention,
    LayerGroup,
    Linear,
    ModelSpec,
    NormPart,
    Part,
    Stack,
    Table,
    Tensor,
)

MODEL_TYPES = ("mllama", "mllama_text_model")

_TRAITS = Traits(dropout="dropout")
_USUAL_CROSS = (3, 8, 13, 18, 23, 28, 33, 38)
_EXTRA_TOKENS = 8
"""Rows of the token table beyond the vocabulary, for image tokens."""
_ASPECT_RATIOS = 8


def read(config: Config, task: str | None) -> ModelSpec:
    """The language model alone or with its tower."""
    if config.model_type == "mllama_text_model":
        return _text(config, task)
    text = text_part(config, "mllama_text_model")
    language = text_model(text)
    vision = _vision(config.part("vision_config", "mllama_vision_model"), language.stack.hidden_size)
    config = config.with_values(tie_word_embeddings=False)
    return joined(config, task, text, language, (vision,), ties=True)


def _text(config: Config, task: str | None) -> ModelSpec:
    cross = config.sizes("cross_attention_layers") if config.raw("cross_attention_layers") else _USUAL_CROSS
    network, hidden = feed_forward(config, _TRAITS), config.size("hidden_size")
    own = LayerGroup(1, attention(config, _TRAITS), network)
    looks = replace(attention(config, _TRAITS), qk_norm=RMS_NORM, causal=False, kv_inputs=hidden, rotary_share=0.0)
    gates = (Tensor("cross_attn_attn_gate", (1,)), Tensor("cross_attn_mlp_gate", (1,)))
    across = LayerGroup(1, None, network, cross_attention=looks, extra=gates)
    groups = merged(across if index in cross else own for index in range(layer_count(config)))
    spec = decoder_model(config, task, _TRAITS, groups)
    table = spec.stack.embedding
    assert table is not None
    stack = replace(spec.stack, embedding=replace(table, vocab=table.vocab + _EXTRA_TOKENS))
    return replace(spec, stacks=(stack,))


def _vision(config: Config, width: int) -> Stack:
    hidden, grid = config.size("hidden_size"), patches(config)
    tiles, positions = config.size("max_num_tiles"), grid.count + 1
    ratios = config.raw("supported_aspect_ratios")
    rows = (len(ratios) if isinstance(ratios, list) and ratios else _ASPECT_RATIOS) + 1
    before: tuple[Part, ...] = (
        grid.projection(hidden, bias=False),
        Tensor("class_embedding", (hidden,)),
        Tensor("gated_positional_embedding.gate", (1,)),
        Tensor("gated_positional_embedding.embedding", (positions, hidden)),
        Table("gated_positional_embedding.tile_embedding", rows, tiles * positions * hidden),
        Table("pre_tile_positional_embedding", rows, tiles * hidden),
        Tensor("pre_tile_positional_embedding.gate", (1,)),
        Table("post_tile_positional_embedding", rows, tiles * hidden),
        Tensor("post_tile_positional_embedding.gate", (1,)),
        NormPart("layernorm_pre", hidden),
    )
    local = _unbiased(tower_layer(config))
    gates = (Tensor("gate_attn", (1,)), Tensor("gate_ffn", (1,)))
    whole = replace(local, count=config.size("num_global_layers"), extra=gates)
    after = (Linear("multi_modal_projector", config.size("vision_output_dim"), width, bias=True),)
    return Stack("vision", hidden, None, (local, whole), LAYER_NORM, before, after, grid.image())


def _unbiased(group: LayerGroup) -> LayerGroup:
    assert isinstance(group.mixer, Attention)
    return replace(group, mixer=replace(group.mixer, qkv_bias=False, output_bias=False))
