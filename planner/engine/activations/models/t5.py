"""T5, mT5 and UMT5: an encoder and a decoder whose attention is biased by relative positions, or the encoder alone."""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import token_ids
from planner.engine.activations.encoder_decoder import Pair, decoder_symbols, make_tied_head
from planner.engine.activations.encoders import EncoderShape, encoder_shape, encoder_symbols
from planner.engine.activations.heads import mean_loss
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.relative_bias import (
    BiasTable,
    T5Layer,
    T5Shape,
    make_t5_layers,
    run_t5_layers,
    t5_norm,
)
from planner.engine.activations.setting import Found, Loads, Setting
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook
from planner.engine.term import Factor
from planner.model.spec import RMS_NORM, Attention, DenseFeedForward, LayerGroup, ModelSpec, Stack, Table

CHECKPOINTED = (
    "Relative positions, which the first checkpointed layer makes for all, are counted as kept outside of it."
)
T5 = "transformers 5.24, models/t5/modeling_t5.py"


@dataclass(frozen=True, slots=True)
class T5Body:
    """One or two halves over one table of tokens."""

    encoder: T5Shape
    decoder: T5Shape | None
    tied: bool
    predicts: bool

    def build(self, t: Tape, recipe: Recipe) -> "Pair | EncoderAlone":
        book = WeightBook(t, recipe)
        table = book.tensor("shared", ("table rows", "hidden"))
        kind = 0 if self.decoder is None else 1
        encoder = _make_half(book, kind, self.encoder)
        if self.decoder is None:
            return EncoderAlone(recipe, book, self.encoder, encoder, table)
        decoder = _make_half(book, 0, self.decoder)
        head = make_tied_head(book, table, tied=self.tied) if self.predicts else None
        shapes = self.encoder, self.decoder

        def encode(t: Tape, ids: Tensor) -> Tensor:
            return _run_half(t, recipe, shapes[0], encoder, table, ids)

        def decode(t: Tape, ids: Tensor, encoded: Tensor) -> Tensor:
            return _run_half(t, recipe, shapes[1], decoder, table, ids, encoded)

        return Pair(recipe, book, encode, decode, head, _source, scales_states=self.tied)


@dataclass(slots=True)
class Half:
    """The weights of one half."""

    layers: list[T5Layer]
    table: Tensor | None
    """Of relative positions, where the layers share one."""
    norm: Tensor


def _make_half(book: WeightBook, kind: int, shape: T5Shape) -> Half:
    table = book.tensor("relative_attention_bias", shape.table_dims()) if not shape.own_tables else None
    return Half(make_t5_layers(book, kind, shape), table, book.tensor("final_layer_norm", ("hidden",)))


def _source(t: Tape, recipe: Recipe) -> Tensor:
    return token_ids(t, "input ids")


def _run_half(
    t: Tape,
    recipe: Recipe,
    shape: T5Shape,
    half: Half,
    table: Tensor,
    ids: Tensor,
    encoded: Tensor | None = None,
) -> Tensor:
    """`T5Stack.forward`."""
    with t.module("encoder" if encoded is None else "decoder", f"{T5}: T5Stack.forward"):
        hidden_states = ops.embedding(t, table, (*ids.dims, "hidden"), ids)
        if shape.dropout:
            hidden_states = ops.dropout(t, hidden_states)
        bias = BiasTable(half.table)
        hidden_states = run_t5_layers(t, recipe, shape, half.layers, hidden_states, bias, encoded)
        hidden_states = t5_norm(t, half.norm, hidden_states, "final_layer_norm")
        return ops.dropout(t, hidden_states) if shape.dropout else hidden_states


@dataclass(slots=True)
class EncoderAlone:
    """`T5EncoderModel`."""

    recipe: Recipe
    book: WeightBook
    shape: T5Shape
    encoder: Half
    table: Tensor

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"ids": token_ids(t, "input ids")}
        if self.recipe.passes_mask:
            held["mask"] = token_ids(t, "attention mask of the batch")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        states = _run_half(t, self.recipe, self.shape, self.encoder, self.table, inputs["ids"])
        return mean_loss(t, states), states if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        return _run_half(t, self.recipe, self.shape, self.encoder, self.table, inputs["ids"])

    def weights(self) -> list[Place]:
        return self.book.places


def find(spec: ModelSpec, setting: Setting) -> Found | None:
    """Stacks with RMS norms without a mean and a table of relative positions, one for all layers or one in each."""
    stacks = {stack.name: stack for stack in spec.stacks}
    if "encoder" not in stacks or not set(stacks) <= {"encoder", "decoder"} or not all(map(_is_half, spec.stacks)):
        return None
    encoder, decoder = stacks["encoder"].groups[0], stacks["decoder"].groups[0] if "decoder" in stacks else None
    below = _shape("encoder ", stacks["encoder"], setting)
    above = _shape("decoder ", stacks["decoder"], setting) if decoder is not None else None
    layers = {"0": encoder.count} if decoder is None else {"0": decoder.count, "1": encoder.count}
    symbols = [*encoder_symbols(below.attention, encoder, setting), Factor("relative positions", _rows(spec.stack))]
    if above is not None and decoder is not None:
        symbols += encoder_symbols(above.attention, decoder, setting)
    head = spec.head
    body = T5Body(below, above, head is not None and head.tied, head is not None)

    def derived(loads: Loads) -> tuple[Factor, ...]:
        return decoder_symbols(loads)

    return Found(body, tuple(symbols), layers, derived, _doubts)


def _doubts(recipe: Recipe) -> tuple[str, ...]:
    return () if recipe.checkpointing == "none" else (CHECKPOINTED,)


def _tables(stack: Stack) -> list[Table]:
    parts = (*stack.before, *stack.groups[0].extra)
    return [part for part in parts if isinstance(part, Table) and part.name == "relative_attention_bias"]


def _rows(stack: Stack) -> int:
    return _tables(stack)[0].rows


def _is_half(stack: Stack) -> bool:
    group = stack.groups[0]
    mixer, feed_forward = group.mixer, group.feed_forward
    return (
        len(stack.groups) == 1
        and isinstance(mixer, Attention)
        and isinstance(feed_forward, DenseFeedForward)
        and mixer.rotary_share == 0
        and not (mixer.qkv_bias or mixer.fused or feed_forward.bias or feed_forward.fused)
        and group.norm == RMS_NORM == stack.final_norm
        and len(_tables(stack)) == 1 == len(stack.before) + len(group.extra)
        and (group.cross_attention is None) == (stack.name == "encoder")
    )


def _shape(name: str, stack: Stack, setting: Setting) -> T5Shape:
    group: LayerGroup = stack.groups[0]
    attention: EncoderShape = encoder_shape(name, group, setting, masks=group.cross_attention is None)
    dropped = group.mixer.dropout if isinstance(group.mixer, Attention) else 0.0
    return T5Shape(
        attention,
        looks=group.cross_attention is not None,
        own_tables=bool(group.extra),
        dropout=setting.training and dropped > 0,
    )
