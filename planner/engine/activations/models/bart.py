"""BART, mBART, Pegasus, Blenderbot: an encoder and a decoder of text with a shared table of tokens."""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import token_ids
from planner.engine.activations.encoder_decoder import (
    HalfShape,
    Pair,
    decoder_symbols,
    make_half,
    make_tied_head,
    run_half,
)
from planner.engine.activations.encoders import (
    MASKS,
    EncoderLayer,
    EncoderShape,
    bidirectional_mask,
    encoder_shape,
    encoder_symbols,
    is_plain,
)
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.engine.term import Factor
from planner.model.spec import LAYER_NORM, DenseFeedForward, LayerGroup, ModelSpec, NormPart, Stack, Table

BART = "transformers 5.24, models/bart/modeling_bart.py"


@dataclass(frozen=True, slots=True)
class BartBody:
    """Both halves over one table of tokens."""

    encoder: HalfShape
    decoder: HalfShape
    first_norm: bool
    """The embeddings are normalised."""
    last_norm: bool
    dropout: bool
    tied: bool
    predicts: bool

    def build(self, t: Tape, recipe: Recipe) -> Pair:
        book = WeightBook(t, recipe)
        table = book.tensor("embed_tokens", ("table rows", "hidden"))
        decoder = _make_half(book, self, 0, self.decoder)
        encoder = _make_half(book, self, 1, self.encoder)
        head = make_tied_head(book, table, tied=self.tied) if self.predicts else None

        def encode(t: Tape, ids: Tensor) -> Tensor:
            with t.module("encoder", f"{BART}: BartEncoder.forward"):
                hidden_states = _embed(t, self, encoder, table, ids)
                mask = bidirectional_mask(t, self.encoder.attention, hidden_states)
                hidden_states = run_half(t, recipe, self.encoder, encoder.layers, hidden_states, mask)
                return _last(t, encoder, hidden_states)

        def decode(t: Tape, ids: Tensor, encoded: Tensor) -> Tensor:
            with t.module("decoder", f"{BART}: BartDecoder.forward"):
                hidden_states = _embed(t, self, decoder, table, ids)
                mask = bidirectional_mask(t, self.decoder.attention, hidden_states)
                assert self.decoder.cross is not None
                across = _cross_mask(t, self.decoder.cross, hidden_states, encoded)
                hidden_states = run_half(t, recipe, self.decoder, decoder.layers, hidden_states, mask, encoded, across)
                return _last(t, decoder, hidden_states)

        return Pair(recipe, book, encode, decode, head, _source, adds_bias=True)


@dataclass(slots=True)
class Half:
    """The weights of one half."""

    positions: Tensor
    first_norm: NormWeights | None
    layers: list[EncoderLayer]
    last_norm: NormWeights | None


def _make_half(book: WeightBook, body: BartBody, kind: int, shape: HalfShape) -> Half:
    width = ("hidden",)
    return Half(
        book.tensor("embed_positions", ("position rows", "hidden")),
        book.norm("layernorm_embedding", width) if body.first_norm else None,
        make_half(book, kind, shape),
        book.norm("layer_norm", width) if body.last_norm else None,
    )


def _source(t: Tape, recipe: Recipe) -> Tensor:
    return token_ids(t, "input ids")


def _embed(t: Tape, body: BartBody, half: Half, table: Tensor, ids: Tensor) -> Tensor:
    """Scaled embeddings of tokens, positions, a norm and dropout."""
    found = ops.elementwise(t, ops.embedding(t, table, (*ids.dims, "hidden"), ids), "scaled embeddings")
    indices = t.new((ids.dims[1],), "int64", "position ids")
    t.tick("position ids")
    places = ops.embedding(t, half.positions, (ids.dims[1], "hidden"), indices)
    hidden_states = ops.add(t, found, places, "sum of embeddings")
    del found, places
    if half.first_norm is not None:
        hidden_states = normalise(t, half.first_norm, hidden_states, "layernorm_embedding")
    return ops.dropout(t, hidden_states) if body.dropout else hidden_states


def _last(t: Tape, half: Half, hidden_states: Tensor) -> Tensor:
    return hidden_states if half.last_norm is None else normalise(t, half.last_norm, hidden_states, "layer_norm")


def _cross_mask(t: Tape, shape: EncoderShape, hidden_states: Tensor, encoded: Tensor) -> Tensor | None:
    """Which of the encoder's tokens are padding, for every token of the decoder."""
    if not shape.layer.masked:
        return None
    eager = shape.layer.kernel == "eager"
    with t.module("mask", MASKS), t.no_grad():
        dtype = hidden_states.dtype if eager else "bool"
        mask = t.new(("batch", 1, hidden_states.dims[1], encoded.dims[1]), dtype, "mask of the encoder's tokens")
        t.tick("mask of the encoder's tokens")
        return mask


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """A decoder with attention to an encoder of text, positions in tables, a head shared with the tokens' table."""
    if [stack.name for stack in spec.stacks] != ["decoder", "encoder"] or not all(map(_is_half, spec.stacks)):
        return None
    head = spec.head
    if head is not None and head.kind != "vocabulary":
        return None
    decoder, encoder = spec.stacks
    above, below = decoder.groups[0], encoder.groups[0]
    tables = [part for stack in spec.stacks for part in stack.before if isinstance(part, Table)]
    if len(tables) != 2 or len({table.rows for table in tables}) > 1:
        return None
    shapes = _half("encoder ", below, setting), _half("decoder ", above, setting)
    body = BartBody(
        *shapes,
        any(isinstance(part, NormPart) for part in encoder.before),
        encoder.final_norm is not None,
        setting.training and above.dropout > 0,
        head is not None and head.tied,
        head is not None,
    )
    symbols = (
        *encoder_symbols(shapes[0].attention, below, setting),
        *encoder_symbols(shapes[1].attention, above, setting),
        Factor("position rows", tables[0].rows),
    )

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return decoder_symbols(loads)

    return Found(body, symbols, {"0": above.count, "1": below.count}, derived)


def _half(name: str, group: LayerGroup, setting: Setting) -> HalfShape:
    feed_forward = group.feed_forward
    assert isinstance(feed_forward, DenseFeedForward)
    looks = group.cross_attention is not None
    return HalfShape(
        encoder_shape(name, group, setting, causal=looks, masks=not looks),
        encoder_shape(name, group, setting) if looks else None,
        norms_first=group.arrangement == "pre",
        inner_dropout=setting.training and feed_forward.dropout > 0,
    )


def _is_half(stack: Stack) -> bool:
    group = stack.groups[0]
    return (
        len(stack.groups) == 1
        and is_plain(group)
        and group.norm == LAYER_NORM
        and stack.final_norm in (None, LAYER_NORM)
        and (group.cross_attention is None) == (stack.name == "encoder")
        and all(isinstance(part, Table | NormPart) for part in stack.before)
        and any(isinstance(part, Table) and not part.frozen for part in stack.before)
        and not group.extra
    )
