"""Gemma 4: wider heads in its global layers, shared keys and values, per-layer embeddings, experts beside a dense
network, with a vision tower and, in the small models, an audio tower."""

from dataclasses import replace

from planner.model.readers.config import Config
from planner.model.readers.decoder import Traits, attention, decoder_model, feed_forward
from planner.model.readers.layers import every, layer_count, merged
from planner.model.readers.multimodal import joined, text_model, text_part
from planner.model.readers.tasks import task_of
from planner.model.spec import (
    RMS_NORM,
    Attention,
    Block,
    Convolution,
    FeedForward,
    ImageInput,
    LayerGroup,
    Linear,
    MixtureOfExperts,
    ModelSpec,
    Norm,
    NormPart,
    Part,
    Stack,
    Table,
    Tensor,
)

MODEL_TYPES = ("gemma4", "gemma4_text")

_TRAITS = Traits(qkv_bias="attention_bias", output_bias="attention_bias", qk_norm=True, activation="hidden_activation")
_GLOBAL_HEAD_DIM = 512


def read(config: Config, task: str | None) -> ModelSpec:
    """The language model alone or with its towers."""
    if config.model_type == "gemma4_text":
        return _text(config, task)
    text = text_part(config, "gemma4_text")
    language = text_model(text)
    width = language.stack.hidden_size
    towers: list[Stack] = []
    audible, tied = config.states("audio_config"), config.flag("tie_word_embeddings")
    if config.states("vision_config"):
        # With a tied head the projection of the last tower is the last module: 4-bit loaders keep it.
        towers.append(_vision(config.part("vision_config", "gemma4_vision"), width, kept=tied and not audible))
    if audible:
        towers.append(_audio(config.part("audio_config", "gemma4_audio"), width, kept=tied))
    return joined(config, task, text, language, tuple(towers), ties=False)


def _text(config: Config, task: str | None) -> ModelSpec:
    count, hidden = layer_count(config), config.size("hidden_size")
    types = config.texts("layer_types", count)
    sliding = every(6, count) if types is None else [kind == "sliding_attention" for kind in types]
    sliding[-1] = False
    # The last layers reuse the keys and values of earlier ones.
    first_shared = count - config.count("num_kv_shared_layers")
    kinds = [(slides, index >= first_shared) for index, slides in enumerate(sliding)]
    size = config.count("hidden_size_per_layer_input")
    made = {kind: _layer(config, *kind, hidden, size) for kind in set(kinds)}
    before: tuple[Part, ...] = ()
    if size:
        before = (
            Table("embed_tokens_per_layer", config.size("vocab_size_per_layer_input"), count * size),
            Linear("per_layer_model_projection", hidden, count * size),
            NormPart("per_layer_projection_norm", size, RMS_NORM),
        )
    groups = merged(made[kind] for kind in kinds)
    return decoder_model(config, task_of(config, task, "causal-lm"), _TRAITS, groups, before)


def _layer(config: Config, slides: bool, shared: bool, hidden: int, size: int) -> LayerGroup:
    extra: tuple[Part, ...] = ()
    if size:
        extra = (
            Linear("per_layer_input_gate", hidden, size),
            Linear("per_layer_projection", size, hidden),
            NormPart("post_per_layer_input_norm", hidden, RMS_NORM),
        )
    network, norms = _network(config, shared)
    mixer = _attention(config, slides, shared)
    return LayerGroup(1, mixer, network, RMS_NORM, norms, "sandwich", extra=extra)


def _attention(config: Config, slides: bool, shared: bool) -> Attention:
    looks = attention(config, replace(_TRAITS, rotary=False))
    looks = replace(looks, rotary_share=1.0, own_key_value=not shared)
    if slides:
        return replace(looks, window=config.size("sliding_window"))
    same = config.flag("attention_k_eq_v")
    kv_heads = config.optional_size("num_global_key_value_heads") if same else None
    return replace(
        looks,
        head_dim=config.size("global_head_dim", _GLOBAL_HEAD_DIM),
        kv_heads=looks.kv_heads if kv_heads is None else kv_heads,
        value_from_key=same,
        rotary_share=0.25,
    )


def _network(config: Config, shared: bool) -> tuple[FeedForward, int]:
    """The feed-forward and the layer's norms; with experts there are three more."""
    dense = feed_forward(config, _TRAITS)
    if shared and config.flag("use_double_wide_mlp"):
        dense = replace(dense, size=2 * dense.size)
    if not config.flag("enable_moe_block"):
        return dense, 4
    experts, hidden = config.size("num_experts"), config.size("hidden_size")
    mixture = MixtureOfExperts(
        experts,
        config.size("top_k_experts", maximum=experts),
        config.size("moe_intermediate_size"),
        activation=dense.activation,
        router="linear",
        dense=dense,
        extra=(Tensor("router.scale", (hidden,)), Tensor("router.per_expert_scale", (experts,))),
    )
    return mixture, 7


def _projection(name: str, inputs: int, width: int, kept: bool) -> Linear:
    return Linear(name, inputs, width, kind="subclass" if kept else "linear")


def _vision(config: Config, width: int, kept: bool) -> Stack:
    """Patches of any image, two position tables, layers like the language model's; 3 x 3 patches become one token."""
    hidden, patch = config.size("hidden_size"), config.size("patch_size")
    looks = replace(attention(config, _TRAITS), causal=False)
    group = LayerGroup(layer_count(config), looks, feed_forward(config, _TRAITS), RMS_NORM, 4, "sandwich")
    before = (
        Linear("input_proj", 3 * patch**2, hidden),
        Tensor("position_embedding_table", (2, config.size("position_embedding_size"), hidden)),
    )
    image = ImageInput(patch, merge_size=config.size("pooling_kernel_size", 3))
    after = (_projection("embed_vision", hidden, width, kept),)
    return Stack("vision", hidden, None, (group,), None, before, after, image)


def _audio(config: Config, width: int, kept: bool) -> Stack:
    """Two convolutions over the spectrogram, then conformers: attention and convolution between two feed-forwards."""
    hidden = config.size("hidden_size")
    first, second = config.sizes("subsampling_conv_channels", 2)
    # Two strides of 2 leave a quarter of the 128 mel bins, each with the channels of the second convolution.
    before = (
        Convolution("layer0.conv", 1, first, (3, 3), 2, bias=False),
        NormPart("layer0.norm", first, Norm("layernorm")),
        Convolution("layer1.conv", first, second, (3, 3), 2, bias=False),
        NormPart("layer1.norm", second, Norm("layernorm")),
        Linear("input_proj_linear", first // 4 * second, hidden),
    )
    output = config.size("output_proj_dims", hidden)
    after = (Linear("output_proj", hidden, output, bias=True), _projection("embed_audio", output, width, kept))
    group = LayerGroup(layer_count(config), _conformer(config, hidden), None, RMS_NORM, norms=0)
    return Stack("audio", hidden, None, (group,), None, before, after)


def _conformer(config: Config, hidden: int) -> Block:
    heads = config.size("num_attention_heads")
    parts: list[Part] = []
    for half in ("feed_forward1", "feed_forward2"):
        parts += [NormPart(f"{half}.pre_layer_norm", hidden, RMS_NORM), Linear("ffw_layer_1", hidden, 4 * hidden)]
        parts += [Linear("ffw_layer_2", 4 * hidden, hidden), NormPart(f"{half}.post_layer_norm", hidden, RMS_NORM)]
    parts += [Linear(name, hidden, hidden) for name in ("q_proj", "k_proj", "v_proj", "post", "relative_k_proj")]
    parts.append(Tensor("per_dim_scale", (hidden // heads,)))
    kernel = (config.size("conv_kernel_size"),)
    parts += [
        Linear("linear_start", hidden, 2 * hidden),
        Convolution("depthwise_conv1d", hidden, hidden, kernel, groups=hidden, bias=False),
        Linear("linear_end", hidden, hidden),
    ]
    names = ("pre_layer_norm", "conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out")
    return Block("conformer", (*parts, *(NormPart(name, hidden, RMS_NORM) for name in names)))
