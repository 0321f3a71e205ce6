"""The levels of a UNet, read off the groups of its stack: the way down, the middle, and the way up."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.engine.activations.decoders import attention_shape, attention_symbols
from planner.engine.activations.kernels import kernel
from planner.engine.activations.latent_images import Widths, kind_of, pixels_at, residual_shape
from planner.engine.activations.setting import RECORDED, Setting
from planner.engine.activations.unet_blocks import Map, ResampleShape, ResidualShape, TransformerShape
from planner.engine.term import Factor
from planner.model.spec import DOWNSAMPLE, Attention, Block, DenseFeedForward, LayerGroup, Stack
from planner.model.spec import Linear as LinearPart

TIME = "time embedding"
CONTEXT = "context width"
RESIDUAL = "unet-resnet"
PROJECTIONS = "unet-projections"


@dataclass(frozen=True, slots=True)
class Layer:
    """A residual block, with its transformer where there is one."""

    residual: ResidualShape
    transformer: TransformerShape | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The layers at one resolution, and what leads to the next."""

    layers: tuple[Layer, ...]
    change: ResampleShape | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """All of a UNet between its first and its last convolution."""

    down: tuple[Level, ...]
    middle: tuple[Layer, ...]
    up: tuple[Level, ...]


@dataclass(slots=True)
class Reading:
    """What is gathered on the way."""

    widths: Widths
    setting: Setting
    symbols: dict[str, Factor]
    layers: dict[str, int]


def read_levels(stack: Stack, reading: Reading) -> Levels | None:
    """None where the groups are not those of a conditional UNet."""
    units = list(_units(stack.groups, reading))
    residuals = sum(isinstance(unit, Layer) for unit in units)
    changes = sum(isinstance(unit, ResampleShape) for unit in units)
    if None in units or not residuals or changes % 2:
        return None
    levels = changes // 2 + 1
    # A level of the way up has one layer more than on the way down; the middle has two, or one without attention.
    middle = 1 if (residuals - 1 - levels) % 2 == 0 else 2
    left = (residuals - middle - levels) // 2
    known = [unit for unit in units if unit is not None]
    end = _place_after(known, left)
    return Levels(
        tuple(_levels(known[:end])),
        tuple(unit for unit in known[end : end + middle] if isinstance(unit, Layer)),
        tuple(_levels(known[end + middle :])),
    )


def _place_after(units: list[Layer | ResampleShape], layers: int) -> int:
    for index, unit in enumerate(units):
        if isinstance(unit, Layer):
            layers -= 1
        if not layers:
            return index + 1
    return len(units)


def _levels(units: list[Layer | ResampleShape]) -> Iterator[Level]:
    layers: list[Layer] = []
    for unit in units:
        if isinstance(unit, Layer):
            layers.append(unit)
        else:
            yield Level(tuple(layers), unit)
            layers = []
    yield Level(tuple(layers))


def _units(groups: tuple[LayerGroup, ...], reading: Reading) -> Iterator[Layer | ResampleShape | None]:
    index = 0
    while index < len(groups):
        group = groups[index]
        pixels = pixels_at(group.downsampling)
        index += 1
        if kind_of(group) == DOWNSAMPLE:
            assert isinstance(group.mixer, Block)
            grows = getattr(group.mixer.parts[0], "name", "") == "upsampler"
            yield ResampleShape(Map(reading.widths.of(group.width or 0), pixels), grows)
        elif kind_of(group) == RESIDUAL:
            residual = residual_shape(group, reading.widths, pixels, TIME)
            transformer = None
            if index + 1 < len(groups) and kind_of(groups[index]) == PROJECTIONS:
                transformer = _transformer(index + 1, groups[index], groups[index + 1], pixels, reading)
                index += 2
            yield Layer(residual, transformer)
        else:
            yield None


def _transformer(
    index: int, around: LayerGroup, group: LayerGroup, pixels: str, reading: Reading
) -> TransformerShape | None:
    mixer, other = group.mixer, group.cross_attention
    assert isinstance(around.mixer, Block)
    assert isinstance(mixer, Attention)
    assert isinstance(other, Attention)
    assert isinstance(group.feed_forward, DenseFeedForward)
    width = reading.widths.of(group.width or 0)
    setting = reading.setting
    chosen = kernel(
        setting.attention, setting.compute_dtype, masked=False, grouped_queries=False, single_kv_head=False,
        head_dim=mixer.head_dim,
    )  # fmt: skip
    name = f"{width}, {mixer.heads}: "
    shape = replace(attention_shape(0, group, setting), name=name, masked=False, kernel=chosen)
    symbols = attention_symbols(shape, group, setting)
    reading.symbols |= {symbol.name: symbol for symbol in (*symbols, Factor(CONTEXT, other.kv_inputs or 0))}
    reading.layers[str(index)] = group.count
    linear = any(isinstance(part, LinearPart) for part in around.mixer.parts)
    return TransformerShape(index, min(group.count, RECORDED), linear, Map(width, pixels), shape, CONTEXT)
