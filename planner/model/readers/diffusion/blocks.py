"""Residual and attention blocks that UNets and autoencoders share, after diffusers 0.42."""

from collections.abc import Iterator

from planner.model.spec import (
    DOWNSAMPLE,
    GROUP_NORM,
    LAYER_NORM,
    Attention,
    Block,
    Convolution,
    DenseFeedForward,
    LayerGroup,
    Linear,
    NormPart,
    Part,
)

_NAMES = ("to_q", "to_k", "to_v", "to_out")


def conv(name: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> Convolution:
    return Convolution(name, inputs, outputs, (kernel, kernel), stride)


def residual(inputs: int, outputs: int, time_size: int | None, shrunk: int) -> LayerGroup:
    """`ResnetBlock2D`: two convolutions, each behind a group norm, and the time embedding between them."""
    parts: list[Part] = [NormPart("norm1", inputs, GROUP_NORM), conv("conv1", inputs, outputs)]
    if time_size is not None:
        parts.append(Linear("time_emb_proj", time_size, outputs, bias=True))
    parts += [NormPart("norm2", outputs, GROUP_NORM), conv("conv2", outputs, outputs)]
    if inputs != outputs:
        parts.append(conv("conv_shortcut", inputs, outputs, 1))
    kind = "vae-resnet" if time_size is None else "unet-resnet"
    return LayerGroup(1, Block(kind, tuple(parts)), None, norms=0, width=outputs, downsampling=shrunk)


def resample(name: str, channels: int, stride: int, shrunk: int) -> LayerGroup:
    """The convolution that halves the image (stride 2), or follows its doubling."""
    block = Block(DOWNSAMPLE, (conv(name, channels, channels, stride=stride),))
    return LayerGroup(1, block, None, norms=0, width=channels, downsampling=shrunk)


def spatial_transformer(
    channels: int, depth: int, heads: int, context: int, linear_projection: bool, shrunk: int
) -> Iterator[LayerGroup]:
    """`Transformer2DModel`: projections in and out, and `depth` blocks of self attention, cross attention and GEGLU."""
    first: tuple[Part, Part]
    if linear_projection:
        first = (Linear("proj_in", channels, channels, bias=True), Linear("proj_out", channels, channels, bias=True))
    else:
        first = (conv("proj_in", channels, channels, 1), conv("proj_out", channels, channels, 1))
    around = Block("unet-projections", (NormPart("norm", channels, GROUP_NORM), *first))
    yield LayerGroup(1, around, None, norms=0, width=channels, downsampling=shrunk)
    looks = _looks(channels, heads, None)
    yield LayerGroup(
        depth,
        looks,
        DenseFeedForward(4 * channels, True, "geglu", True, True, names=("", "proj", "net.2")),
        LAYER_NORM,
        norms=3,
        cross_attention=_looks(channels, heads, context),
        width=channels,
        downsampling=shrunk,
    )


def _looks(channels: int, heads: int, context: int | None) -> Attention:
    return Attention(
        heads,
        heads,
        channels // heads,
        output_bias=True,
        causal=False,
        kv_inputs=context,
        rotary_share=0.0,
        names=_NAMES,
    )


def plain_attention(channels: int, shrunk: int) -> LayerGroup:
    """The single-head attention in the middle of an autoencoder."""
    projections: tuple[Part, ...] = tuple(Linear(name, channels, channels, bias=True) for name in _NAMES)
    parts = (NormPart("group_norm", channels, GROUP_NORM), *projections)
    return LayerGroup(1, Block("vae-attention", parts), None, norms=0, width=channels, downsampling=shrunk)


def embedding_layers(name: str, inputs: int, width: int) -> tuple[Part, ...]:
    """`TimestepEmbedding`: two linear layers."""
    return Linear(f"{name}.linear_1", inputs, width, bias=True), Linear(f"{name}.linear_2", width, width, bias=True)
