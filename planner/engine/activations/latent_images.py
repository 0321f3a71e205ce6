"""Latents and the images they stand for: sizes of maps, names of widths, and the structure of an image encoder."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.engine.activations.autoencoder import COLOURS, IMAGE, LATENT, EncoderShape
from planner.engine.activations.setting import Loads
from planner.engine.activations.unet_blocks import Map, ResampleShape, ResidualShape
from planner.engine.components import runs_in_fp32
from planner.engine.term import Factor
from planner.model.spec import DOWNSAMPLE, Block, Convolution, LayerGroup, ModelSpec, Stack, Table
from planner.model.spec import Linear as LinearPart

DEFAULT_SIDE = 1024
"""Of images, where neither the denoiser nor the autoencoder was made for a size."""
USUAL_SHRINKING = 8
"""Of an autoencoder that is not part of the file."""
LATENT_PIXELS = "latent pixels"
CLIP_TOKENS = 77
"""Of a text encoder that is not part of the file."""
GROUPS = 32
"""`norm_num_groups`, whose default every published pipeline keeps."""


def pixels_at(shrunk: int) -> str:
    """Pixels of a map whose sides are the latent's divided by `shrunk`."""
    return LATENT_PIXELS if shrunk == 1 else f"{LATENT_PIXELS} at 1/{shrunk}"


def _image_at(shrunk: int) -> str:
    return IMAGE if shrunk == 1 else f"{IMAGE} at 1/{shrunk}"


@dataclass(slots=True)
class Widths:
    """Names for numbers of channels: equal numbers share one, so that maps of equal size are seen to be equal."""

    prefix: str = ""
    names: dict[int, str] = field(default_factory=dict)

    def of(self, channels: int) -> str:
        return self.names.setdefault(channels, f"{self.prefix}channels {len(self.names) + 1}")

    @property
    def symbols(self) -> tuple[Factor, ...]:
        return tuple(Factor(name, channels) for channels, name in self.names.items())


def kind_of(group: LayerGroup) -> str:
    return group.mixer.kind if isinstance(group.mixer, Block) else ""


def residual_shape(group: LayerGroup, widths: Widths, pixels: str, time: str | None) -> ResidualShape:
    """`ResnetBlock2D`, from its parts."""
    assert isinstance(group.mixer, Block)
    first = next(part for part in group.mixer.parts if isinstance(part, Convolution))
    reads_time = any(isinstance(part, LinearPart) for part in group.mixer.parts)
    outputs = Map(widths.of(first.outputs), pixels)
    return ResidualShape(widths.of(first.inputs), outputs, time if reads_time else None)


def image_encoder(spec: ModelSpec) -> Stack | None:
    """The stack that makes latents of images."""
    return next((stack for stack in spec.stacks if stack.name.endswith("vae-encoder")), None)


def shrinking(spec: ModelSpec) -> int:
    """By how much the latent's sides are shorter than the image's."""
    encoder = image_encoder(spec)
    return USUAL_SHRINKING if encoder is None else max(group.downsampling for group in encoder.groups)


def encoder_shape(spec: ModelSpec, widths: Widths) -> EncoderShape | None:
    """The encoder of the pipeline's autoencoder, where the file has one."""
    stack = image_encoder(spec)
    if stack is None:
        return None
    units: list[ResidualShape | ResampleShape] = []
    for group in stack.groups:
        pixels = _image_at(group.downsampling)
        if kind_of(group) == DOWNSAMPLE:
            units.append(ResampleShape(Map(widths.of(group.width or 0), pixels), grows=False))
        elif kind_of(group) == "vae-resnet":
            units.append(residual_shape(group, widths, pixels, None))
    middle = tuple(unit for unit in units[-2:] if isinstance(unit, ResidualShape))
    return EncoderShape(
        middle[0].inputs if len(units) == len(middle) else _first(stack, widths),
        tuple(units[:-2]),
        middle,
        any(kind_of(group) == "vae-attention" for group in stack.groups),
        middle[-1].outputs,
        any(getattr(part, "name", "") == "quant_conv" for part in stack.after),
        runs_in_fp32(spec),
    )


def _first(stack: Stack, widths: Widths) -> str:
    return widths.of(next(part.outputs for part in stack.before if isinstance(part, Convolution)))


def side_of(spec: ModelSpec, loads: Loads) -> Factor:
    """Side of an image: stated, or what the denoiser, else the autoencoder, was made for."""
    if loads.image_size is not None:
        return Factor("image side", loads.image_size)
    image, encoder = spec.stack.image, image_encoder(spec)
    if image is not None and image.image_size is not None:
        side = image.image_size * shrinking(spec)
    else:
        side = (encoder.image.image_size if encoder is not None and encoder.image is not None else None) or DEFAULT_SIDE
    return Factor("image side", side)


def prompt_tokens(spec: ModelSpec) -> int:
    """Tokens of a prompt: all positions of the first text encoder, to which the scripts pad (77 of CLIP)."""
    tables = (part for stack in spec.stacks[1:] for part in stack.before if isinstance(part, Table))
    return next((table.rows for table in tables if "position" in table.name), CLIP_TOKENS)


def latent_symbols(spec: ModelSpec, loads: Loads, levels: tuple[int, ...], channels: int) -> Iterator[Factor]:
    """Sizes of the image and of all maps made of it; `levels` are by how much sides shrink below the latent's."""
    side, by = side_of(spec, loads).value, shrinking(spec)
    latent = side // by
    yield Factor(LATENT, channels)
    yield Factor("latent moments", 2 * channels)
    yield Factor(COLOURS, 3)
    yield Factor("norm groups", GROUPS)
    for shrunk in (2**index for index in range(by.bit_length())):
        yield Factor(_image_at(shrunk), (side // shrunk) * (side // shrunk), f"({side} / {shrunk}) squared")
    for shrunk in levels:
        pixels = (-(-latent // shrunk)) * (-(-latent // shrunk))
        yield Factor(pixels_at(shrunk), pixels, f"({side} / {by * shrunk}) squared")
        yield Factor(f"{pixels_at(shrunk)} rounded up to 32", (pixels + 31) // 32 * 32, "rows of logarithms")
