"""`UNet2DConditionModel`: the denoiser of Stable Diffusion 1, 2 and XL."""

from collections.abc import Iterator
from dataclasses import dataclass

from planner.errors import ModelError
from planner.model.readers.config import LARGEST_SIZE, Config
from planner.model.readers.diffusion.blocks import (
    conv,
    embedding_layers,
    resample,
    residual,
    spatial_transformer,
)
from planner.model.spec import GROUP_NORM, ImageInput, LayerGroup, ModelSpec, NormPart, Part, Stack, Table

MODEL_TYPES = ("UNet2DConditionModel",)
MOST_BLOCKS = 1000
_PLAIN = {"DownBlock2D": False, "UpBlock2D": False, "CrossAttnDownBlock2D": True, "CrossAttnUpBlock2D": True}


@dataclass(frozen=True, slots=True)
class Level:
    """One resolution of the UNet."""

    channels: int
    layers: int
    depth: int
    heads: int
    context: int


def each(
    config: Config, key: str, count: int, default: int | None = None, maximum: int = LARGEST_SIZE
) -> tuple[int, ...]:
    """A number for every level: stated once for all, or as a list."""
    if not isinstance(config.raw(key), list | tuple):
        return (config.size(key, default, maximum=maximum),) * count
    values = config.sizes(key, count)
    if max(values) > maximum:
        raise config.error(key, list(values), f"numbers of at most {maximum}")
    return values


def _attends(config: Config, key: str, count: int) -> tuple[bool, ...]:
    kinds = config.texts(key, count)
    if kinds is None:
        raise config.missing(key, "a list of block types")
    unknown = sorted(set(kinds) - set(_PLAIN))
    if unknown:
        raise config.error(key, unknown, f"made of {', '.join(_PLAIN)}")
    return tuple(_PLAIN[kind] for kind in kinds)


def _levels(config: Config) -> tuple[Level, ...]:
    channels = config.sizes("block_out_channels")
    count = len(channels)
    # The key `attention_head_dim` of early files holds the number of heads; diffusers keeps reading it so.
    key = "num_attention_heads" if config.states("num_attention_heads") else "attention_head_dim"
    columns = zip(
        channels,
        each(config, "layers_per_block", count, 2, MOST_BLOCKS),
        each(config, "transformer_layers_per_block", count, 1),
        each(config, key, count, 8),
        each(config, "cross_attention_dim", count, 1280),
        strict=True,
    )
    levels = tuple(Level(*column) for column in columns)
    for level in levels:
        if level.channels < 1 or level.heads < 1 or level.channels % level.heads:
            raise config.error(key, level.heads, f"a divisor of the {level.channels} channels")
    return levels


def read(config: Config, _task: str | None) -> ModelSpec:
    """A conditional UNet."""
    levels = _levels(config)
    down = _attends(config, "down_block_types", len(levels))
    up = _attends(config, "up_block_types", len(levels))
    first = levels[0].channels
    time = config.size("time_embedding_dim", 4 * first)
    linear = config.flag("use_linear_projection")
    groups = (
        *_down(levels, down, time, linear),
        *_middle(config, levels[-1], time, linear, 2 ** (len(levels) - 1)),
        *_up(levels, up, time, linear),
    )
    before = (conv("conv_in", config.size("in_channels", 4), first), *_conditions(config, first, time))
    after = (NormPart("conv_norm_out", first, GROUP_NORM), conv("conv_out", first, config.size("out_channels", 4)))
    image = ImageInput(1, config.optional_size("sample_size"), config.size("in_channels", 4))
    stack = Stack("unet", first, None, groups, None, before, after, image)
    return ModelSpec(config.model_type, config.model_type, "diffusion", (stack,), None)


def _conditions(config: Config, first: int, time: int) -> Iterator[Part]:
    """Embeddings of the time step and, where there are any, of a class or of sizes and pooled text (SDXL)."""
    yield from embedding_layers("time_embedding", first, time)
    kind, added = config.raw("class_embed_type"), config.raw("addition_embed_type")
    if kind is None and config.states("num_class_embeds"):
        yield Table("class_embedding", config.size("num_class_embeds"), time)
    elif kind in ("timestep", "projection"):
        inputs = first if kind == "timestep" else config.size("projection_class_embeddings_input_dim")
        yield from embedding_layers("class_embedding", inputs, time)
    elif kind is not None:
        raise config.error("class_embed_type", kind, "absent, “timestep” or “projection”")
    if added == "text_time":
        yield from embedding_layers("add_embedding", config.size("projection_class_embeddings_input_dim"), time)
    elif added is not None:
        raise config.error("addition_embed_type", added, "absent or “text_time”")
    if config.states("encoder_hid_dim"):
        raise ModelError(f"{config.where}: UNets with an encoder projection (“encoder_hid_dim”) cannot be read yet.")


def _transformer(level: Level, linear: bool, shrunk: int) -> Iterator[LayerGroup]:
    yield from spatial_transformer(level.channels, level.depth, level.heads, level.context, linear, shrunk)


def _down(levels: tuple[Level, ...], attends: tuple[bool, ...], time: int, linear: bool) -> Iterator[LayerGroup]:
    inputs = levels[0].channels
    for index, level in enumerate(levels):
        shrunk = 2**index
        for _ in range(level.layers):
            yield residual(inputs, level.channels, time, shrunk)
            inputs = level.channels
            if attends[index]:
                yield from _transformer(level, linear, shrunk)
        if index < len(levels) - 1:
            yield resample("downsampler", level.channels, 2, 2 * shrunk)


def _middle(config: Config, level: Level, time: int, linear: bool, shrunk: int) -> Iterator[LayerGroup]:
    kind = config.raw("mid_block_type", "UNetMidBlock2DCrossAttn")
    if kind not in (None, "UNetMidBlock2DCrossAttn", "UNetMidBlock2D"):
        raise config.error("mid_block_type", kind, "“UNetMidBlock2DCrossAttn” or “UNetMidBlock2D”")
    yield residual(level.channels, level.channels, time, shrunk)
    if kind != "UNetMidBlock2D":
        yield from _transformer(level, linear, shrunk)
        yield residual(level.channels, level.channels, time, shrunk)


def _up(levels: tuple[Level, ...], attends: tuple[bool, ...], time: int, linear: bool) -> Iterator[LayerGroup]:
    """Each residual block reads the block before and the skip from the way down."""
    reverse = levels[::-1]
    before = reverse[0].channels
    for index, level in enumerate(reverse):
        below = reverse[min(index + 1, len(reverse) - 1)].channels
        shrunk = 2 ** (len(levels) - 1 - index)
        for layer in range(level.layers + 1):
            skip = below if layer == level.layers else level.channels
            yield residual((level.channels if layer else before) + skip, level.channels, time, shrunk)
            if attends[index]:
                yield from _transformer(level, linear, shrunk)
        before = level.channels
        if index < len(reverse) - 1:
            yield resample("upsampler", level.channels, 1, shrunk // 2)
