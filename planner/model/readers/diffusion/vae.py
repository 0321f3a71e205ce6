"""`AutoencoderKL`: images to latents and back."""

from collections.abc import Iterator

from planner.model.readers.config import Config
from planner.model.readers.diffusion.blocks import conv, plain_attention, resample, residual
from planner.model.readers.diffusion.unet import MOST_BLOCKS, each
from planner.model.spec import GROUP_NORM, ImageInput, LayerGroup, ModelSpec, NormPart, Part, Stack

MODEL_TYPES = ("AutoencoderKL",)


def read(config: Config, _task: str | None) -> ModelSpec:
    """Decoder first, for it is what generation runs, then the encoder."""
    channels, latent = config.sizes("block_out_channels"), config.size("latent_channels", 4)
    layers = each(config, "layers_per_block", 1, 1, MOST_BLOCKS)[0]
    attends = config.flag("mid_block_add_attention", True)
    colours = config.size("in_channels", 3)
    quant: tuple[Part, ...] = ()
    post: tuple[Part, ...] = ()
    if config.flag("use_quant_conv", True):
        quant = (conv("quant_conv", 2 * latent, 2 * latent, 1),)
    if config.flag("use_post_quant_conv", True):
        post = (conv("post_quant_conv", latent, latent, 1),)
    image = ImageInput(1, config.optional_size("sample_size"), colours)
    decoder = Stack(
        "vae-decoder",
        channels[0],
        None,
        tuple(_decoder(channels, layers, attends)),
        None,
        (*post, conv("conv_in", latent, channels[-1])),
        _ending(channels[0], config.size("out_channels", 3)),
        image,
        upcasts=config.flag("force_upcast", True),
    )
    encoder = Stack(
        "vae-encoder",
        channels[-1],
        None,
        tuple(_encoder(channels, layers, attends)),
        None,
        (conv("conv_in", colours, channels[0]),),
        (*_ending(channels[-1], 2 * latent), *quant),
        image,
    )
    return ModelSpec(config.model_type, config.model_type, "diffusion", (decoder, encoder), None)


def _ending(channels: int, outputs: int) -> tuple[Part, ...]:
    return NormPart("conv_norm_out", channels, GROUP_NORM), conv("conv_out", channels, outputs)


def _middle(channels: int, attends: bool, shrunk: int) -> Iterator[LayerGroup]:
    yield residual(channels, channels, None, shrunk)
    if attends:
        yield plain_attention(channels, shrunk)
    yield residual(channels, channels, None, shrunk)


def _encoder(channels: tuple[int, ...], layers: int, attends: bool) -> Iterator[LayerGroup]:
    inputs = channels[0]
    for index, outputs in enumerate(channels):
        for _ in range(layers):
            yield residual(inputs, outputs, None, 2**index)
            inputs = outputs
        if index < len(channels) - 1:
            yield resample("downsampler", outputs, 2, 2 ** (index + 1))
    yield from _middle(channels[-1], attends, 2 ** (len(channels) - 1))


def _decoder(channels: tuple[int, ...], layers: int, attends: bool) -> Iterator[LayerGroup]:
    inputs, steps = channels[-1], len(channels) - 1
    yield from _middle(inputs, attends, 2**steps)
    for index, outputs in enumerate(channels[::-1]):
        for _ in range(layers + 1):
            yield residual(inputs, outputs, None, 2 ** (steps - index))
            inputs = outputs
        if index < steps:
            yield resample("upsampler", outputs, 1, 2 ** (steps - index - 1))
