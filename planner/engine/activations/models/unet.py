"""`UNet2DConditionModel` of diffusers: the denoiser of Stable Diffusion 1, 2 and XL.

Source: diffusers 0.42, `models/unets/unet_2d_condition.py` and `unet_2d_blocks.py`. Checkpointing runs residual blocks
and the blocks of transformers again, one by one and without reentrance; the first residual block of the middle never.
"""

from dataclasses import dataclass
from itertools import pairwise

from planner.engine.activations import ops
from planner.engine.activations.autoencoder import LATENT, EncoderShape, make_image_encoder
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.denoising import PROMPT, Conditions, Denoiser
from planner.engine.activations.latent_images import Widths, encoder_shape, latent_symbols, pixels_at, prompt_tokens
from planner.engine.activations.norms import NormWeights
from planner.engine.activations.ops_shape import cat
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.unet_blocks import (
    Convolved,
    ResampleShape,
    ResidualWeights,
    TransformerWeights,
    convolve,
    make_convolution,
    make_resample,
    make_residual,
    make_transformer,
    norm_groups,
    resample,
    run_residual,
    run_transformer,
)
from planner.engine.activations.unet_levels import CONTEXT, TIME, Layer, Level, Levels, Reading, read_levels
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import GROUP_NORM, Convolution, ModelSpec
from planner.model.spec import Linear as LinearPart

UNET = "diffusers 0.42, models/unets/unet_2d_condition.py: UNet2DConditionModel.forward"
ADDED = "added inputs"
PARTS = ("conv_in", "time_embedding.linear_1", "time_embedding.linear_2")
ADDED_PARTS = ("add_embedding.linear_1", "add_embedding.linear_2")


@dataclass(frozen=True, slots=True)
class UnetBody:
    """Down, through the middle, and up again."""

    levels: Levels
    first: str
    added: bool
    """Sizes and pooled text are embedded beside the time (SDXL)."""
    encoder: EncoderShape | None

    def build(self, t: Tape, recipe: Recipe) -> Denoiser:
        book = WeightBook(t, recipe)
        weights = _make(book, self)
        encoder = None
        if self.encoder is not None and recipe.techniques.encoded_ahead not in ("latents", "everything"):
            encoder = make_image_encoder(t, recipe, self.encoder)
        at = pixels_at(1)
        others = (("pooled text and sizes", ("batch", ADDED)),) if self.added else ()
        conditions = Conditions(("batch", "latent channels", at), ("batch", PROMPT, CONTEXT), others)

        def predict(t: Tape, sample: Tensor, context: Tensor, others: dict[str, Tensor]) -> Tensor:
            with t.module("unet", UNET):
                return _run(t, recipe, weights, sample, context, others)

        return Denoiser(recipe, book, conditions, encoder, predict)


@dataclass(slots=True)
class LayerWeights:
    residual: ResidualWeights
    transformer: TransformerWeights | None


@dataclass(slots=True)
class LevelWeights:
    layers: list[LayerWeights]
    change: tuple[ResampleShape, Convolved] | None


@dataclass(slots=True)
class UnetWeights:
    conv_in: Convolved
    time: tuple[Linear, Linear]
    added: tuple[Linear, Linear] | None
    down: list[LevelWeights]
    middle: list[LayerWeights]
    up: list[LevelWeights]
    norm: NormWeights
    conv_out: Convolved


def _make(book: WeightBook, body: UnetBody) -> UnetWeights:
    first, levels = body.first, body.levels
    conv_in = make_convolution(book, "conv_in", LATENT, first)
    time = _make_embedding(book, "time_embedding", first)
    return UnetWeights(
        conv_in,
        time,
        _make_embedding(book, "add_embedding", ADDED) if body.added else None,
        [_make_level(book, level) for level in levels.down],
        [_make_layer(book, layer) for layer in levels.middle],
        [_make_level(book, level) for level in levels.up],
        book.norm("conv_norm_out", (first,), GROUP_NORM),
        make_convolution(book, "conv_out", first, LATENT),
    )


def _make_embedding(book: WeightBook, name: str, inputs: str) -> tuple[Linear, Linear]:
    return book.linear(f"{name}.linear_1", (inputs,), (TIME,)), book.linear(f"{name}.linear_2", (TIME,), (TIME,))


def _make_layer(book: WeightBook, layer: Layer) -> LayerWeights:
    residual = make_residual(book, layer.residual)
    return LayerWeights(residual, make_transformer(book, layer.transformer) if layer.transformer else None)


def _make_level(book: WeightBook, level: Level) -> LevelWeights:
    layers = [_make_layer(book, layer) for layer in level.layers]
    return LevelWeights(layers, (level.change, make_resample(book, level.change)) if level.change else None)


def _run(
    t: Tape, recipe: Recipe, weights: UnetWeights, sample: Tensor, context: Tensor, others: dict[str, Tensor]
) -> Tensor:
    """`UNet2DConditionModel.forward`."""
    again = recipe.checkpointing != "none"
    t_emb = _time(t, weights, sample)
    emb = _embed(t, weights.time, t_emb)
    aug_emb = None
    if weights.added is not None:
        joined = _added(t, others, emb.dtype)
        aug_emb = _embed(t, weights.added, joined)
    emb = ops.add(t, emb, aug_emb, "time and sizes") if aug_emb is not None else emb
    sample = convolve(t, weights.conv_in, sample, pixels_at(1))
    skips: tuple[Tensor, ...] = (sample,)
    for level in weights.down:
        sample, states = _down(t, level, sample, emb, context, again=again)
        skips += states
    sample = _middle(t, weights.middle, sample, emb, context, again=again)
    for level in weights.up:
        count = len(level.layers)
        states, skips = skips[-count:], skips[:-count]
        sample = _up(t, level, sample, states, emb, context, again=again)
    sample = norm_groups(t, weights.norm, sample, "conv_norm_out")
    sample = ops.activation(t, sample, "silu")
    return convolve(t, weights.conv_out, sample, pixels_at(1))


def _time(t: Tape, weights: UnetWeights, sample: Tensor) -> Tensor:
    """`get_timestep_embedding`: sines and cosines in fp32, then the sample's type."""
    (width,) = weights.time[0].inputs
    waves = t.new(("batch", width), "fp32", "sines and cosines of the time")
    t.tick("time_proj")
    return ops.to(t, waves, sample.dtype, "time in the sample's type")


def _added(t: Tape, others: dict[str, Tensor], dtype: str) -> Tensor:
    """Pooled text beside the sines of the sizes, in one tensor."""
    (pooled,) = others.values()
    joined = t.new(pooled.dims, "fp32", "pooled text and sizes, joined")
    t.tick("pooled text and sizes, joined")
    return ops.to(t, joined, dtype)


def _embed(t: Tape, layers: tuple[Linear, Linear], sample: Tensor) -> Tensor:
    """`TimestepEmbedding.forward`."""
    with t.module("time_embedding"):
        sample = linear(t, layers[0], sample)
        sample = ops.activation(t, sample, "silu")
        return linear(t, layers[1], sample)


def _down(
    t: Tape, level: LevelWeights, hidden_states: Tensor, emb: Tensor, context: Tensor, *, again: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """`CrossAttnDownBlock2D.forward`, `DownBlock2D.forward`."""
    states: tuple[Tensor, ...] = ()
    with t.module("down"):
        for layer in level.layers:
            hidden_states = run_residual(t, layer.residual, hidden_states, emb, again=again)
            if layer.transformer is not None:
                hidden_states = run_transformer(t, layer.transformer, hidden_states, context, again=again)
            states += (hidden_states,)
        if level.change is not None:
            hidden_states = resample(t, *level.change, hidden_states)
            states += (hidden_states,)
    return hidden_states, states


def _middle(
    t: Tape, layers: list[LayerWeights], hidden_states: Tensor, emb: Tensor, context: Tensor, *, again: bool
) -> Tensor:
    """`UNetMidBlock2DCrossAttn.forward`, `UNetMidBlock2D.forward`."""
    with t.module("mid"):
        hidden_states = run_residual(t, layers[0].residual, hidden_states, emb, again=False)
        for before, layer in pairwise(layers):
            if before.transformer is not None:
                hidden_states = run_transformer(t, before.transformer, hidden_states, context, again=again)
            hidden_states = run_residual(t, layer.residual, hidden_states, emb, again=again)
        return hidden_states


def _up(
    t: Tape, level: LevelWeights, hidden_states: Tensor, skips: tuple[Tensor, ...], emb: Tensor, context: Tensor,
    *, again: bool,
) -> Tensor:  # fmt: skip
    """`CrossAttnUpBlock2D.forward`, `UpBlock2D.forward`: each layer reads the state joined with a skip."""
    with t.module("up"):
        for layer in level.layers:
            skip, skips = skips[-1], skips[:-1]
            shape = layer.residual.shape
            dims = (skip.dims[0], shape.inputs, shape.outputs.pixels)
            hidden_states = cat(t, [hidden_states, skip], dims, "joined with a skip")
            hidden_states = run_residual(t, layer.residual, hidden_states, emb, again=again)
            if layer.transformer is not None:
                hidden_states = run_transformer(t, layer.transformer, hidden_states, context, again=again)
        if level.change is not None:
            hidden_states = resample(t, *level.change, hidden_states)
        return hidden_states


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A denoiser of residual blocks of convolutions and spatial transformers that goes down in resolution and up."""
    stack = spec.stack
    image = stack.image
    names = tuple(getattr(part, "name", "") for part in stack.before)
    if spec.task != "diffusion" or stack.embedding is not None or names not in (PARTS, (*PARTS, *ADDED_PARTS)):
        return None
    reading = Reading(Widths(), setting, {}, {})
    levels = read_levels(stack, reading)
    predicts = stack.after[-1] if stack.after else None
    if levels is None or image is None or not isinstance(predicts, Convolution) or predicts.outputs != image.channels:
        return None
    inside = Widths("autoencoder's ")
    body = UnetBody(levels, reading.widths.of(stack.hidden_size), len(names) > len(PARTS), encoder_shape(spec, inside))
    sizes = {part.name: part for part in stack.before if isinstance(part, LinearPart)}
    symbols = [
        *(*reading.widths.symbols, *inside.symbols, *reading.symbols.values()),
        Factor(TIME, sizes[PARTS[1]].outputs),
        Factor(ADDED, sizes[ADDED_PARTS[0]].inputs if body.added else 0),
        Factor(PROMPT, prompt_tokens(spec)),
    ]
    shrunk = tuple(sorted({group.downsampling for group in stack.groups}))

    channels = image.channels

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return tuple(latent_symbols(spec, loads, shrunk, channels))

    return Found(body, tuple(symbols), reading.layers, derived)
