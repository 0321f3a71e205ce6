"""Diffusion transformers with cross attention to the text: PixArt (arXiv:2310.00426) and Wan."""

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.readers.diffusion.blocks import conv, embedding_layers
from planner.model.spec import (
    RMS_NORM,
    Attention,
    Convolution,
    DenseFeedForward,
    ImageInput,
    LayerGroup,
    Linear,
    ModelSpec,
    Norm,
    Part,
    Stack,
    Tensor,
)

MODEL_TYPES = ("PixArtTransformer2DModel", "WanTransformer3DModel")
_NAMES = ("to_q", "to_k", "to_v", "to_out")
_NO_WEIGHT = Norm("layernorm", weight=False)
_TIME_CHANNELS = 256


def read(config: Config, _task: str | None) -> ModelSpec:
    """A PixArt or Wan transformer."""
    stack = _pixart(config) if config.model_type.startswith("PixArt") else _wan(config)
    return ModelSpec(config.model_type, config.model_type, "diffusion", (stack,), None)


def _looks(heads: int, head_dim: int, context: int | None, bias: bool = True, norm: Norm | None = None) -> Attention:
    return Attention(
        heads,
        heads,
        head_dim,
        qkv_bias=bias,
        output_bias=True,
        qk_norm=norm,
        qk_norm_scope="all",
        causal=False,
        kv_inputs=context,
        rotary_share=0.0,
        names=_NAMES,
    )


def _network(size: int) -> DenseFeedForward:
    return DenseFeedForward(size, False, "gelu_tanh", bias=True, names=("", "proj", "net.2"))


def _pixart(config: Config) -> Stack:
    """One modulation for all layers, with a small table in each."""
    heads, head_dim = config.size("num_attention_heads", 16), config.size("attention_head_dim", 72)
    width, bias = heads * head_dim, config.flag("attention_bias", True)
    patch, channels = config.size("patch_size", 2), config.size("in_channels", 4)
    side = config.size("sample_size", 128)
    before: list[Part] = [
        conv("pos_embed.proj", channels, width, patch, patch),
        *embedding_layers("timestep_embedder", _TIME_CHANNELS, width),
        Linear("adaln_single.linear", width, 6 * width, bias=True),
    ]
    if config.flag("use_additional_conditions", side == 128):
        before += embedding_layers("resolution_embedder", _TIME_CHANNELS, width // 3)
        before += embedding_layers("aspect_ratio_embedder", _TIME_CHANNELS, width // 3)
    if config.states("caption_channels"):
        before.append(Linear("caption_projection.linear_1", config.size("caption_channels"), width, bias=True))
        before.append(Linear("caption_projection.linear_2", width, width, bias=True))
    outputs = config.size("out_channels", 2 * channels)
    after = (Tensor("scale_shift_table", (2, width)), Linear("proj_out", width, patch**2 * outputs, bias=True))
    group = LayerGroup(
        config.size("num_layers", 28, maximum=10_000),
        _looks(heads, head_dim, None, bias),
        _network(4 * width),
        _NO_WEIGHT,
        cross_attention=_looks(heads, head_dim, config.size("cross_attention_dim", 1152), bias),
        extra=(Tensor("scale_shift_table", (6, width)),),
    )
    return Stack("transformer", width, None, (group,), None, tuple(before), after, ImageInput(patch, side, channels))


def _wan(config: Config) -> Stack:
    """A video transformer: 3D patches, norms over whole queries and keys."""
    if config.states("image_dim") or config.states("added_kv_proj_dim"):
        raise ModelError(f"{config.where}: Wan models that start from an image cannot be read yet.")
    heads, head_dim = config.size("num_attention_heads", 40), config.size("attention_head_dim", 128)
    width, channels = heads * head_dim, config.size("in_channels", 16)
    patch = config.sizes("patch_size", 3) if config.raw("patch_size") else (1, 2, 2)
    before = (
        Convolution("patch_embedding", channels, width, patch, patch[1]),
        *embedding_layers("time_embedder", config.size("freq_dim", 256), width),
        Linear("time_proj", width, 6 * width, bias=True),
        *embedding_layers("text_embedder", config.size("text_dim", 4096), width),
    )
    outputs = config.size("out_channels", channels)
    volume = patch[0] * patch[1] * patch[2]
    after = (Tensor("scale_shift_table", (1, 2, width)), Linear("proj_out", width, volume * outputs, bias=True))
    crossed = config.flag("cross_attn_norm", True)
    group = LayerGroup(
        config.size("num_layers", 40, maximum=10_000),
        _looks(heads, head_dim, None, norm=RMS_NORM),
        _network(config.size("ffn_dim", 13824)),
        Norm("layernorm", bias=True, weight=True) if crossed else _NO_WEIGHT,
        norms=1,
        cross_attention=_looks(heads, head_dim, None, norm=RMS_NORM),
        extra=(Tensor("scale_shift_table", (1, 6, width)),),
    )
    image = ImageInput(max(1, patch[1]), channels=channels, temporal_patch_size=max(1, patch[0]))
    return Stack("transformer", width, None, (group,), None, before, after, image)
