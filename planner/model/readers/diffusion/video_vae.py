"""The autoencoders of Wan, CogVideoX and HunyuanVideo: frames to latents and back, after diffusers 0.42."""

from collections.abc import Iterator
from itertools import pairwise

from planner.model.readers.config import Config
from planner.model.readers.diffusion.blocks import conv
from planner.model.readers.diffusion.unet import MOST_BLOCKS
from planner.model.spec import (
    GROUP_NORM,
    RMS_NORM,
    Block,
    Convolution,
    LayerGroup,
    Linear,
    ModelSpec,
    Norm,
    NormPart,
    Part,
    Stack,
)

MODEL_TYPES = ("AutoencoderKLWan", "AutoencoderKLCogVideoX", "AutoencoderKLHunyuanVideo")
_PROJECTIONS = ("to_q", "to_k", "to_v", "to_out")


def read(config: Config, _task: str | None) -> ModelSpec:
    """Decoder first, for it is what generation runs, then the encoder."""
    kinds = {"AutoencoderKLWan": _wan, "AutoencoderKLCogVideoX": _cog_video, "AutoencoderKLHunyuanVideo": _hunyuan}
    decoder, encoder = kinds[config.model_type](config)
    return ModelSpec(config.model_type, config.model_type, "diffusion", (decoder, encoder), None)


def cube(name: str, inputs: int, outputs: int, kernel: int = 3) -> Convolution:
    """A convolution over time, height and width."""
    return Convolution(name, inputs, outputs, (kernel, kernel, kernel))


def _layer(kind: str, width: int, parts: tuple[Part, ...]) -> LayerGroup:
    return LayerGroup(1, Block(kind, parts), None, norms=0, width=width)


def _residual(inputs: int, outputs: int, norms: tuple[tuple[Part, ...], tuple[Part, ...]]) -> LayerGroup:
    """Two convolutions, each behind a norm, and a third where the number of channels changes."""
    shortcut = () if inputs == outputs else (cube("conv_shortcut", inputs, outputs, 1),)
    first, second = cube("conv1", inputs, outputs), cube("conv2", outputs, outputs)
    return _layer("video-resnet", outputs, (*norms[0], first, *norms[1], second, *shortcut))


def _plain(inputs: int, outputs: int, norm: Norm) -> LayerGroup:
    return _residual(inputs, outputs, ((NormPart("norm1", inputs, norm),), (NormPart("norm2", outputs, norm),)))


def _stacks(
    ends: tuple[int, int], groups: tuple[tuple[LayerGroup, ...], tuple[LayerGroup, ...]],
    before: tuple[tuple[Part, ...], tuple[Part, ...]], after: tuple[tuple[Part, ...], tuple[Part, ...]],
) -> tuple[Stack, Stack]:  # fmt: skip
    decoder, encoder = (
        Stack(name, ends[side], None, groups[side], None, before[side], after[side])
        for side, name in enumerate(("video-decoder", "video-encoder"))
    )
    return decoder, encoder


def _wan(config: Config) -> tuple[Stack, Stack]:
    """`AutoencoderKLWan`; with `is_residual` (Wan 2.2, 5B) upsampling keeps the channels instead of halving them."""
    latent, layers = config.size("z_dim", 16), config.size("num_res_blocks", 2)
    steps = config.sizes("dim_mult") if config.states("dim_mult") else (1, 2, 4, 4)
    over_time = _flags(config, "temperal_downsample", (False, True, True))
    base = config.size("base_dim", 96)
    wide = config.size("decoder_base_dim", base) if config.raw("decoder_base_dim") is not None else base
    keeps = config.flag("is_residual", False)
    if config.raw("attn_scales"):
        raise config.error("attn_scales", config.raw("attn_scales"), "empty: attention between blocks is not read yet")
    down = [base * step for step in (1, *steps)]
    up = [wide * step for step in (steps[-1], *steps[::-1])]
    last = len(steps) - 1

    def encoder() -> Iterator[LayerGroup]:
        for index, (inputs, outputs) in enumerate(pairwise(down)):
            yield from _run(inputs, outputs, layers, RMS_NORM)
            if index < last:
                yield _wan_resample("downsampler", outputs, outputs, outputs if over_time[index] else 0)
        yield from _wan_middle(down[-1])

    def decoder() -> Iterator[LayerGroup]:
        yield from _wan_middle(up[0])
        for index, (inputs, outputs) in enumerate(pairwise(up)):
            halved = inputs // 2 if index and not keeps else inputs
            yield from _run(halved, outputs, layers + 1, RMS_NORM)
            if index < last:
                timed = 2 * outputs if over_time[::-1][index] else 0
                yield _wan_resample("upsampler", outputs, outputs if keeps else outputs // 2, timed)

    return _stacks(
        (up[-1], down[-1]),
        (tuple(decoder()), tuple(encoder())),
        (
            (cube("post_quant_conv", latent, latent, 1), cube("conv_in", latent, up[0])),
            (cube("conv_in", config.size("in_channels", 3), down[0]),),
        ),
        (
            (NormPart("norm_out", up[-1], RMS_NORM), cube("conv_out", up[-1], config.size("out_channels", 3))),
            (NormPart("norm_out", down[-1], RMS_NORM), cube("conv_out", down[-1], 2 * latent),
             cube("quant_conv", 2 * latent, 2 * latent, 1)),
        ),
    )  # fmt: skip


def _wan_resample(name: str, channels: int, outputs: int, timed: int) -> LayerGroup:
    """A convolution of each frame, and of three frames where their number changes."""
    over_time = (Convolution("time_conv", channels, timed, (3, 1, 1)),) if timed else ()
    return _layer("video-resample", channels, (conv(name, channels, outputs), *over_time))


def _wan_middle(channels: int) -> Iterator[LayerGroup]:
    yield _plain(channels, channels, RMS_NORM)
    parts = (NormPart("norm", channels, RMS_NORM), conv("to_qkv", channels, 3 * channels, 1),
             conv("proj", channels, channels, 1))  # fmt: skip
    yield _layer("video-attention", channels, parts)
    yield _plain(channels, channels, RMS_NORM)


def _run(inputs: int, outputs: int, layers: int, norm: Norm) -> Iterator[LayerGroup]:
    for index in range(layers):
        yield _plain(outputs if index else inputs, outputs, norm)


def _cog_video(config: Config) -> tuple[Stack, Stack]:
    """`AutoencoderKLCogVideoX`: the decoder's norms are scaled and shifted by the latents."""
    channels = _channels(config, (128, 256, 256, 512))
    latent, layers = config.size("latent_channels", 16), config.size("layers_per_block", 3, maximum=MOST_BLOCKS)
    last, colours = len(channels) - 1, config.size("out_channels", 3)

    def spatial(name: str, size: int) -> tuple[Part, ...]:
        return (
            NormPart(f"{name}.norm_layer", size, GROUP_NORM),
            cube(f"{name}.conv_y", latent, size, 1),
            cube(f"{name}.conv_b", latent, size, 1),
        )

    def scaled(inputs: int, outputs: int) -> LayerGroup:
        return _residual(inputs, outputs, (spatial("norm1", inputs), spatial("norm2", outputs)))

    def encoder() -> Iterator[LayerGroup]:
        inputs = channels[0]
        for index, outputs in enumerate(channels):
            yield from _run(inputs, outputs, layers, GROUP_NORM)
            inputs = outputs
            if index < last:
                yield _layer("video-resample", outputs, (conv("downsampler", outputs, outputs),))
        yield from _run(inputs, inputs, 2, GROUP_NORM)

    def decoder() -> Iterator[LayerGroup]:
        inputs = channels[-1]
        for _ in range(2):
            yield scaled(inputs, inputs)
        for index, outputs in enumerate(channels[::-1]):
            for _ in range(layers + 1):
                yield scaled(inputs, outputs)
                inputs = outputs
            if index < last:
                yield _layer("video-resample", outputs, (conv("upsampler", outputs, outputs),))

    quant = (cube("quant_conv", 2 * colours, 2 * colours, 1),) if config.flag("use_quant_conv", False) else ()
    post = (cube("post_quant_conv", colours, colours, 1),) if config.flag("use_post_quant_conv", False) else ()
    return _stacks(
        (channels[0], channels[-1]),
        (tuple(decoder()), tuple(encoder())),
        (
            (*post, cube("conv_in", latent, channels[-1])),
            (cube("conv_in", config.size("in_channels", 3), channels[0]),),
        ),
        (
            (*spatial("norm_out", channels[0]), cube("conv_out", channels[0], colours)),
            (NormPart("norm_out", channels[-1], GROUP_NORM), cube("conv_out", channels[-1], 2 * latent), *quant),
        ),
    )


def _hunyuan(config: Config) -> tuple[Stack, Stack]:
    """`AutoencoderKLHunyuanVideo`: like `AutoencoderKL`, with convolutions over time, too, also where it resamples."""
    channels = _channels(config, (128, 256, 512, 512))
    latent, layers = config.size("latent_channels", 16), config.size("layers_per_block", 2, maximum=MOST_BLOCKS)
    last = len(channels) - 1
    spatial = config.size("spatial_compression_ratio", 8).bit_length() - 1
    timed = config.size("temporal_compression_ratio", 4).bit_length() - 1
    changes = [index < spatial or last - timed <= index < last for index in range(len(channels))]

    def middle() -> Iterator[LayerGroup]:
        size = channels[-1]
        yield _plain(size, size, GROUP_NORM)
        if config.flag("mid_block_add_attention", True):
            projections = tuple(Linear(name, size, size, bias=True) for name in _PROJECTIONS)
            yield _layer("video-attention", size, (NormPart("group_norm", size, GROUP_NORM), *projections))
        yield _plain(size, size, GROUP_NORM)

    def through(sizes: tuple[int, ...], each_level: int, name: str) -> Iterator[LayerGroup]:
        inputs = sizes[0]
        for outputs, resamples in zip(sizes, changes, strict=True):
            yield from _run(inputs, outputs, each_level, GROUP_NORM)
            inputs = outputs
            if resamples:
                yield _layer("video-resample", outputs, (cube(name, outputs, outputs),))

    return _stacks(
        (channels[0], channels[-1]),
        (
            (*middle(), *through(channels[::-1], layers + 1, "upsampler")),
            (*through(channels, layers, "downsampler"), *middle()),
        ),
        (
            (cube("post_quant_conv", latent, latent, 1), cube("conv_in", latent, channels[-1])),
            (cube("conv_in", config.size("in_channels", 3), channels[0]),),
        ),
        (
            (NormPart("conv_norm_out", channels[0], GROUP_NORM),
             cube("conv_out", channels[0], config.size("out_channels", 3))),
            (NormPart("conv_norm_out", channels[-1], GROUP_NORM), cube("conv_out", channels[-1], 2 * latent),
             cube("quant_conv", 2 * latent, 2 * latent, 1)),
        ),
    )  # fmt: skip


def _channels(config: Config, usual: tuple[int, ...]) -> tuple[int, ...]:
    return config.sizes("block_out_channels") if config.states("block_out_channels") else usual


def _flags(config: Config, key: str, usual: tuple[bool, ...]) -> tuple[bool, ...]:
    value = config.raw(key)
    if value is None:
        return usual
    if not isinstance(value, list) or not all(isinstance(item, bool) for item in value):
        raise config.error(key, value, "a list of true and false")
    return tuple(value)
