"""Whisper: two convolutions over a spectrogram, an encoder of its frames, a decoder of text."""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.encoder_decoder import (
    HalfShape,
    Pair,
    decoder_symbols,
    make_half,
    make_tied_head,
    run_half,
)
from planner.engine.activations.encoders import bidirectional_mask, encoder_shape, encoder_symbols, is_plain
from planner.engine.activations.norms import normalise
from planner.engine.activations.ops_conv import convolution
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, Convolution, DenseFeedForward, LayerGroup, ModelSpec, Stack, Table

WHISPER = "transformers 5.24, models/whisper/modeling_whisper.py"
FRAMES = "frames"


@dataclass(frozen=True, slots=True)
class WhisperBody:
    """Both halves; the decoder's table is the head unless they are untied."""

    encoder: HalfShape
    decoder: HalfShape
    dropout: bool
    tied: bool
    predicts: bool

    def build(self, t: Tape, recipe: Recipe) -> Pair:
        book = WeightBook(t, recipe)
        width = ("hidden",)
        table = book.tensor("embed_tokens", ("table rows", "hidden"))
        positions = book.tensor("embed_positions", ("position rows", "hidden"))
        decoder, decoder_norm = make_half(book, 0, self.decoder), book.norm("decoder norm", width)
        convolutions = [
            (book.tensor(name, ("hidden", inputs, "convolution kernel")), book.tensor(name, width))
            for name, inputs in (("conv1", "mel bands"), ("conv2", "hidden"))
        ]
        places = book.tensor("encoder positions", (FRAMES, "hidden"), frozen=True)
        encoder, encoder_norm = make_half(book, 1, self.encoder), book.norm("encoder norm", width)
        head = make_tied_head(book, table, tied=self.tied) if self.predicts else None

        def encode(t: Tape, features: Tensor) -> Tensor:
            with t.module("encoder", f"{WHISPER}: WhisperEncoder.forward"):
                hidden_states = _frames(t, features, convolutions, places)
                if self.dropout:
                    hidden_states = ops.dropout(t, hidden_states)
                hidden_states = run_half(t, recipe, self.encoder, encoder, hidden_states, None)
                return normalise(t, encoder_norm, hidden_states, "layer_norm")

        def decode(t: Tape, ids: Tensor, encoded: Tensor) -> Tensor:
            with t.module("decoder", f"{WHISPER}: WhisperDecoder.forward"):
                inputs_embeds = ops.embedding(t, table, (*ids.dims, "hidden"), ids)
                indices = t.new(ids.dims, "int64", "position ids")
                t.tick("position ids")
                found = ops.embedding(t, positions, (*ids.dims, "hidden"), indices)
                del indices
                hidden_states = ops.add(t, inputs_embeds, found, "sum of embeddings")
                del inputs_embeds, found
                if self.dropout:
                    hidden_states = ops.dropout(t, hidden_states)
                mask = bidirectional_mask(t, self.decoder.attention, hidden_states)
                hidden_states = run_half(t, recipe, self.decoder, decoder, hidden_states, mask, encoded)
                return normalise(t, decoder_norm, hidden_states, "layer_norm")

        return Pair(recipe, book, encode, decode, head, _features)


def _features(t: Tape, recipe: Recipe) -> Tensor:
    return t.new(("batch", "mel bands", "audio frames"), recipe.weight_dtype, "input features")


def _frames(t: Tape, features: Tensor, convolutions: list[tuple[Tensor, Tensor]], places: Tensor) -> Tensor:
    """The spectrogram through two convolutions with GELU, the second of which halves it, and fixed positions."""
    first, second = convolutions
    made = convolution(t, features, *first, ("batch", "hidden", "audio frames"), "conv1")
    inputs_embeds = ops.activation(t, made, "gelu")
    del made
    made = convolution(t, inputs_embeds, *second, ("batch", "hidden", FRAMES), "conv2")
    inputs_embeds = ops.activation(t, made, "gelu")
    del made
    seen = ops.view(t, inputs_embeds, "batch", FRAMES, "hidden")
    with t.no_grad():
        rows = ops.embedding(t, places, (FRAMES, "hidden"), t.parameter((FRAMES,), "int64", trainable=False))
    return ops.add(t, seen, rows, "sum of embeddings")


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A decoder with attention to an encoder that convolutions feed."""
    if [stack.name for stack in spec.stacks] != ["decoder", "encoder"]:
        return None
    decoder, encoder = spec.stacks
    convolutions = [part for part in encoder.before if isinstance(part, Convolution)]
    if len(convolutions) != 2 or not all(map(_is_half, spec.stacks)):
        return None
    below, above = encoder.groups[0], decoder.groups[0]
    shapes = half_shape("encoder ", below, setting), half_shape("decoder ", above, setting)
    head = spec.head
    body = WhisperBody(
        *shapes, setting.training and above.dropout > 0, head is not None and head.tied, head is not None
    )
    rows = [next(part for part in stack.before if isinstance(part, Table)).rows for stack in spec.stacks]
    symbols = (
        *encoder_symbols(shapes[0].attention, below, setting),
        *encoder_symbols(shapes[1].attention, above, setting),
        Factor("position rows", rows[0]),
        Factor(FRAMES, rows[1]),
        Factor(f"{FRAMES} rounded up to 32", (rows[1] + 31) // 32 * 32, "rows of the kernel's logarithms"),
        Factor("audio frames", rows[1] * convolutions[1].stride),
        Factor("mel bands", convolutions[0].inputs),
        Factor("convolution kernel", convolutions[0].kernel[0]),
    )

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return decoder_symbols(loads)

    return Found(body, symbols, {"0": above.count, "1": below.count}, derived)


def half_shape(name: str, group: LayerGroup, setting: Setting) -> HalfShape:
    """One half of Whisper; the batch's mask does not reach its attention."""
    feed_forward = group.feed_forward
    assert isinstance(feed_forward, DenseFeedForward)
    looks = group.cross_attention is not None
    return HalfShape(
        encoder_shape(name, group, setting, causal=looks, masks=False),
        encoder_shape(name, group, setting, masks=False) if looks else None,
        norms_first=True,
        inner_dropout=setting.training and feed_forward.dropout > 0,
        scales_query=True,
    )


def _is_half(stack: Stack) -> bool:
    group = stack.groups[0]
    return (
        len(stack.groups) == 1
        and is_plain(group)
        and group.arrangement == "pre"
        and group.norm == LAYER_NORM == stack.final_norm
        and (group.cross_attention is None) == (stack.name == "encoder")
    )
