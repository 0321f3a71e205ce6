"""The encoder of an autoencoder as diffusers runs it before a training step: frozen, without gradients.

Source: diffusers 0.42, `models/autoencoders/vae.py: Encoder.forward`, `models/unets/unet_2d_blocks.py`.
"""

from dataclasses import dataclass, replace

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.norms import NormWeights
from planner.engine.activations.ops_conv import resized
from planner.engine.activations.ops_shape import split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Dim, Tape, Tensor
from planner.engine.activations.unet_blocks import (
    PROCESSOR,
    Convolved,
    Map,
    ResampleShape,
    ResidualShape,
    ResidualWeights,
    convolve,
    make_convolution,
    make_residual,
    norm_groups,
    residual,
)
from planner.engine.activations.weight_book import WeightBook
from planner.model.spec import GROUP_NORM

ENCODER = "diffusers 0.42, models/autoencoders/vae.py: Encoder.forward"
SAMPLE = "diffusers 0.42, models/autoencoders/vae.py: DiagonalGaussianDistribution"
IMAGE = "image pixels"
COLOURS = "colours"
LATENT = "latent channels"


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """The way down from the image to the latent."""

    first: Dim
    units: tuple[ResidualShape | ResampleShape, ...]
    """Of the way down."""
    middle: tuple[ResidualShape, ...]
    attends: bool
    deepest: Map
    quantizes: bool
    """A convolution follows the encoder (`quant_conv`)."""
    in_fp32: bool
    """It overflows in 16 bits and is kept in fp32."""


@dataclass(slots=True)
class EncoderWeights:
    shape: EncoderShape
    dtype: str
    conv_in: Convolved
    units: list[ResidualWeights | Convolved]
    middle: list[ResidualWeights]
    looks: tuple[NormWeights, dict[str, Linear]] | None
    norm: NormWeights
    conv_out: Convolved
    quant: Convolved | None


def make_image_encoder(t: Tape, recipe: Recipe, shape: EncoderShape) -> EncoderWeights:
    """Weights that nobody trains."""
    dtype = "fp32" if shape.in_fp32 else recipe.autocast or recipe.weight_dtype
    frozen = replace(recipe, weight_dtype=dtype, lora=None, quantized_base=False)
    book = WeightBook(t, frozen)
    channels = shape.deepest.channels
    conv_in = make_convolution(book, "conv_in", COLOURS, shape.first)
    units: list[ResidualWeights | Convolved] = []
    for unit in shape.units:
        if isinstance(unit, ResidualShape):
            units.append(make_residual(book, unit))
        else:
            units.append(make_convolution(book, "downsampler", unit.at.channels, unit.at.channels))
    middle = [make_residual(book, unit) for unit in shape.middle]
    looks = None
    if shape.attends:
        names = ("to_q", "to_k", "to_v", "to_out")
        norm = book.norm("group_norm", (channels,), GROUP_NORM)
        looks = norm, {name: book.linear(name, (channels,), (channels,)) for name in names}
    norm_out = book.norm("conv_norm_out", (channels,), GROUP_NORM)
    conv_out = make_convolution(book, "conv_out", channels, "latent moments")
    quant = make_convolution(book, "quant_conv", "latent moments", "latent moments", 1) if shape.quantizes else None
    for _, _, weight in book.places:
        weight.node = None
    return EncoderWeights(shape, dtype, conv_in, units, middle, looks, norm_out, conv_out, quant)


def encode(t: Tape, weights: EncoderWeights, pixels: Tensor) -> Tensor:
    """`vae.encode(pixels).latent_dist.sample()`, and the scaling of what it gives."""
    with t.module("vae", ENCODER), t.no_grad():
        moments = _moments(t, weights, ops.to(t, pixels, weights.dtype, "pixels in the encoder's type"))
        with t.module("latent_dist", SAMPLE):
            return ops.elementwise(t, _sample(t, moments), "scaled latents")


def _moments(t: Tape, weights: EncoderWeights, sample: Tensor) -> Tensor:
    hidden = _encoder(t, weights, sample)
    deepest = weights.shape.deepest.pixels
    return hidden if weights.quant is None else convolve(t, weights.quant, hidden, deepest)


def _encoder(t: Tape, weights: EncoderWeights, sample: Tensor) -> Tensor:
    shape = weights.shape
    sample = convolve(t, weights.conv_in, sample, IMAGE)
    level: list[tuple[ResidualShape | ResampleShape, ResidualWeights | Convolved]] = []
    for unit, one in zip(shape.units, weights.units, strict=True):
        level.append((unit, one))
        if isinstance(unit, ResampleShape):
            sample = _down_block(t, level, sample)
            level = []
    sample = _down_block(t, level, sample)
    sample = _middle(t, weights, sample)
    sample = norm_groups(t, weights.norm, sample, "conv_norm_out")
    sample = ops.activation(t, sample, "silu")
    return convolve(t, weights.conv_out, sample, shape.deepest.pixels)


def _down_block(
    t: Tape, level: list[tuple[ResidualShape | ResampleShape, ResidualWeights | Convolved]], hidden_states: Tensor
) -> Tensor:
    """`DownEncoderBlock2D.forward`; its padding adds a row and a column, which are not told apart."""
    for unit, one in level:
        if isinstance(one, ResidualWeights):
            hidden_states = residual(t, one, hidden_states, None)
        else:
            assert isinstance(unit, ResampleShape)
            hidden_states = _halved(t, unit, one, hidden_states)
    return hidden_states


def _halved(t: Tape, unit: ResampleShape, weights: Convolved, hidden_states: Tensor) -> Tensor:
    hidden_states = resized(t, hidden_states, hidden_states.dims, "padded")
    return convolve(t, weights, hidden_states, unit.at.pixels)


def _middle(t: Tape, weights: EncoderWeights, hidden_states: Tensor) -> Tensor:
    """`UNetMidBlock2D.forward`."""
    hidden_states = residual(t, weights.middle[0], hidden_states, None)
    for one in weights.middle[1:]:
        if weights.looks is not None:
            hidden_states = _attention(t, *weights.looks, hidden_states)
        hidden_states = residual(t, one, hidden_states, None)
    return hidden_states


def _attention(t: Tape, norm: NormWeights, looks: dict[str, Linear], hidden_states: Tensor) -> Tensor:
    """One head over all pixels, by memory-efficient attention, whatever the head's size."""
    with t.module("attention", PROCESSOR):
        residual = hidden_states
        batch, channels, pixels = hidden_states.dims
        hidden_states = norm_groups(t, norm, hidden_states, "group_norm")
        hidden_states = ops.view(t, hidden_states, batch, pixels, channels)
        query = linear(t, looks["to_q"], hidden_states)
        key = linear(t, looks["to_k"], hidden_states)
        value = linear(t, looks["to_v"], hidden_states)
        hidden_states = t.new(query.dims, query.dtype, "attention output")
        t.tick("sdpa (efficient)")
        del query, key, value
        hidden_states = linear(t, looks["to_out"], hidden_states)
        hidden_states = ops.view(t, hidden_states, *residual.dims)
        return ops.elementwise(t, ops.add(t, hidden_states, residual), "rescaled")


def _sample(t: Tape, moments: Tensor) -> Tensor:
    """Mean and deviation, and noise in their measure."""
    part = (moments.dims[0], LATENT, moments.dims[2])
    mean, logvar = split(t, moments, part, part)
    logvar = ops.elementwise(t, logvar, "clamped")
    deviation = ops.elementwise(t, ops.elementwise(t, logvar, "half"), "deviation")
    variance = ops.elementwise(t, logvar, "variance")
    noise = t.new(part, moments.dtype, "noise of the sample")
    t.tick("noise of the sample")
    drawn = ops.mul(t, deviation, noise)
    del noise
    sample = ops.add(t, mean, drawn, "latents")
    del variance
    return sample
