"""Vision towers of vision-language models, by the model type of `vision_config`."""

from dataclasses import replace

from planner.errors import ModelError
from planner.model.readers.clip import vision_tower
from planner.model.readers.config import Config
from planner.model.readers.layers import layer_count
from planner.model.readers.vit import patches, tower_layer
from planner.model.spec import (
    LAYER_NORM,
    RMS_NORM,
    Attention,
    Convolution,
    DenseFeedForward,
    ImageInput,
    LayerGroup,
    Linear,
    Norm,
    NormPart,
    Part,
    Stack,
    Table,
    Tensor,
)

_CLIP_NAMES = ("q_proj", "k_proj", "v_proj", "out_proj")


def tower(config: Config) -> Stack:
    """The stack of a vision tower, without what projects its output into the language model."""
    kind = config.model_type
    if kind in ("clip_vision_model", "siglip_vision_model"):
        return vision_tower(config)
    if kind in ("idefics3_vision", "smolvlm_vision"):
        return _idefics(config)
    if kind == "pixtral":
        return _pixtral(config)
    if kind == "internvl_vision":
        return _internvl(config)
    if kind == "llama4_vision_model":
        return _llama4(config)
    if kind in QWEN_TOWERS:
        return _qwen(config)
    raise ModelError(f"{config.where}: vision towers of type “{kind}” cannot be read yet.")


def _idefics(config: Config) -> Stack:
    """A SigLIP tower without pooling."""
    hidden, grid = config.size("hidden_size"), patches(config)
    before = (grid.projection(hidden), Table("position_embedding", grid.count, hidden))
    group = tower_layer(config, _CLIP_NAMES, dropout="attention_dropout")
    return Stack("vision", hidden, None, (group,), LAYER_NORM, before, image=grid.image())


def _pixtral(config: Config) -> Stack:
    """Pixtral: RMS norms, rotary positions, gated feed-forwards, no biases; images of any size."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    dropout = config.number("attention_dropout", 0.0, maximum=1.0)
    width = config.divisible("hidden_size", "num_attention_heads")
    mixer = Attention(heads, heads, width, dropout=dropout, causal=False)
    network = DenseFeedForward(config.size("intermediate_size"), activation=config.text("hidden_act", "gelu"))
    group = LayerGroup(layer_count(config), mixer, network, RMS_NORM)
    patch = config.size("patch_size")
    projection = Convolution("patch_conv", config.size("num_channels", 3), hidden, (patch, patch), patch, bias=False)
    before = (projection, NormPart("ln_pre", hidden, RMS_NORM))
    image = ImageInput(patch, config.optional_size("image_size"))
    return Stack("vision", hidden, None, (group,), None, before, image=image)


def _internvl(config: Config) -> Stack:
    hidden, grid = config.size("hidden_size"), patches(config)
    norm = RMS_NORM if config.text("norm_type", "layer_norm") == "rms_norm" else LAYER_NORM
    before: list[Part] = [Tensor("cls_token", (1, 1, hidden)), grid.projection(hidden)]
    if config.flag("use_mask_token"):
        before.append(Tensor("mask_token", (1, 1, hidden)))
    if config.flag("use_absolute_position_embeddings", True):
        before.append(Tensor("position_embeddings", (1, grid.count + 1, hidden)))
    scales = (Tensor("lambda_1", (hidden,)), Tensor("lambda_2", (hidden,)))
    names = ("q_proj", "k_proj", "v_proj", "projection_layer")
    bias = config.flag("attention_bias")
    group = tower_layer(config, names, qkv_bias=bias, extra=scales, dropout="attention_dropout")
    assert isinstance(group.mixer, Attention)
    mixer = replace(group.mixer, qk_norm_scope="all", qk_norm=RMS_NORM if config.flag("use_qk_norm") else None)
    final = None if config.flag("use_mean_pooling", True) else LAYER_NORM
    groups = (replace(group, mixer=mixer, norm=norm),)
    return Stack("vision", hidden, None, groups, final, tuple(before), image=grid.image())


def _llama4(config: Config) -> Stack:
    """Llama 4: patches through a linear layer, a class token, norms around the layers, a pixel-shuffle MLP."""
    hidden, grid = config.size("hidden_size"), patches(config)
    projection = Linear("patch_embedding", grid.channels * grid.patch_size**2, hidden)
    before = (
        Tensor("class_embedding", (hidden,)),
        Tensor("positional_embedding_vlm", (grid.count + 1, hidden)),
        projection,
        NormPart("layernorm_pre", hidden),
    )
    inner, outer = config.size("projector_input_dim"), config.size("projector_output_dim")
    adapter = (
        Linear("vision_adapter.fc1", config.size("intermediate_size"), inner),
        Linear("vision_adapter.fc2", inner, outer),
    )
    group = tower_layer(config, dropout="attention_dropout")
    return Stack("vision", hidden, None, (group,), LAYER_NORM, before, adapter, grid.image())


QWEN_TOWERS = {
    "qwen2_vl_vision": LAYER_NORM,
    "qwen2_5_vl_vision": RMS_NORM,
    "qwen3_vl_vision": LAYER_NORM,
    "qwen3_vl_moe_vision": LAYER_NORM,
    "qwen3_5_vision": LAYER_NORM,
    "qwen3_5_moe_vision": LAYER_NORM,
}
"""Towers of the Qwen-VL line, with their norms."""


def _qwen(config: Config) -> Stack:
    """Qwen-VL towers: 3D patches, fused attention, and a merger of 2 x 2 patches into one token."""
    kind = config.model_type
    second, third = kind == "qwen2_vl_vision", kind.startswith("qwen3")
    norm = QWEN_TOWERS[kind]
    # Qwen2-VL calls its own width `embed_dim` and that of the language model `hidden_size`.
    width = config.size("embed_dim") if second else config.size("hidden_size")
    outer = config.size("hidden_size") if second else config.size("out_hidden_size")
    patch, frames = config.size("patch_size"), config.size("temporal_patch_size")
    kernel, channels = (frames, patch, patch), config.size("in_channels", 3)
    before: list[Part] = [Convolution("patch_embed", channels, width, kernel, patch, bias=third)]
    if third:
        before.append(Table("pos_embed", config.size("num_position_embeddings"), width))
    merge = config.size("spatial_merge_size")
    merged_width = merge**2 * width
    names = ("linear_fc1", "linear_fc2") if third else ("mlp.0", "mlp.2")
    after = list(_merger(width, merged_width, outer, norm, names))
    deep = config.raw("deepstack_visual_indexes") if kind.startswith("qwen3_vl") else None
    for _ in deep if isinstance(deep, list | tuple) else ():
        after += _merger(merged_width, merged_width, outer, norm, names)
    image = ImageInput(patch, None, channels, frames, merge)
    return Stack("vision", width, None, _qwen_layers(config, width, norm), None, tuple(before), tuple(after), image)


def _merger(normed: int, width: int, outer: int, norm: Norm, names: tuple[str, str]) -> tuple[Part, ...]:
    return (
        NormPart("merger.norm", normed, norm),
        Linear(names[0], width, width, bias=True),
        Linear(names[1], width, outer, bias=True),
    )


def _qwen_layers(config: Config, width: int, norm: Norm) -> tuple[LayerGroup, ...]:
    heads, count = config.size("num_heads"), layer_count(config, "depth")
    if width % heads:
        raise config.error("num_heads", heads, f"a divisor of the width {width}")
    mixer = Attention(
        heads,
        heads,
        width // heads,
        qkv_bias=True,
        output_bias=True,
        fused=True,
        causal=False,
        names=("qkv", "", "", "proj"),
    )
    activation = config.text("hidden_act", "gelu")
    if config.model_type == "qwen2_vl_vision":
        size = int(width * config.number("mlp_ratio", 4))
        network = DenseFeedForward(size, False, activation, bias=True, names=("", "fc1", "fc2"))
    elif config.model_type == "qwen2_5_vl_vision":
        network = DenseFeedForward(config.size("intermediate_size"), True, activation, bias=True)
        return _windowed(config, LayerGroup(1, mixer, network, norm), count)
    else:
        names = ("", "linear_fc1", "linear_fc2")
        network = DenseFeedForward(config.size("intermediate_size"), False, activation, bias=True, names=names)
    return (LayerGroup(count, mixer, network, norm),)


def _windowed(config: Config, layer: LayerGroup, count: int) -> tuple[LayerGroup, ...]:
    """Qwen2.5-VL: all but `fullatt_block_indexes` look inside windows of `window_size` pixels."""
    full = sorted({index for index in config.sizes("fullatt_block_indexes") if index < count})
    side = config.size("window_size") // config.size("patch_size")
    assert isinstance(layer.mixer, Attention)
    inside = tuple(index for index in range(count) if index not in full)
    local = replace(layer, count=len(inside), mixer=replace(layer.mixer, window=side**2), indices=inside)
    groups = (local, replace(layer, count=len(full), indices=tuple(full)))
    return tuple(group for group in groups if group.count)
