"""Decoders that look at an encoder, as BART and Whisper have them, and the batch and loss of the pair."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, slots_of
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.eager import eager_attention
from planner.engine.activations.encoders import EncoderLayer, EncoderShape, make_attention, make_feed_forward
from planner.engine.activations.functions import activate
from planner.engine.activations.heads import mean_loss
from planner.engine.activations.loss import cross_entropy, fused_cross_entropy, head_and_loss
from planner.engine.activations.norms import normalise
from planner.engine.activations.ops_shape import reshape
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.setting import Loads
from planner.engine.activations.tape import Dim, Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook
from planner.engine.term import Factor

DECODED = "decoder sequence"
BART = "transformers 5.24, models/bart/modeling_bart.py"


@dataclass(frozen=True, slots=True)
class HalfShape:
    """The layers of an encoder, or of a decoder with attention to one."""

    attention: EncoderShape
    cross: EncoderShape | None
    norms_first: bool
    inner_dropout: bool
    """Dropout between the two projections of the feed-forward."""
    scales_query: bool = False
    """Queries are scaled, and the heads of all three copied together, before attention (Whisper)."""


def make_half(book: WeightBook, kind: int, shape: HalfShape) -> list[EncoderLayer]:
    """The recorded layers of one half."""
    made: list[EncoderLayer] = []
    width = shape.attention.width
    names = ("self", "final") if shape.cross is None else ("self", "cross", "final")
    for slot in slots_of(kind, shape.attention.layer.copies):
        with book.layer(slot):
            linears = make_attention(book, shape.attention)
            if shape.cross is not None:
                linears |= make_attention(book, shape.cross, "cross ")
            linears |= make_feed_forward(book, shape.attention)
            norms = {name: book.norm(f"{name} norm", (width,), shape.attention.norm) for name in names}
            made.append(EncoderLayer(slot, shape.attention, linears, norms, {}))
    return made


def run_half(
    t: Tape,
    recipe: Recipe,
    shape: HalfShape,
    layers: list[EncoderLayer],
    hidden_states: Tensor,
    mask: Tensor | None,
    encoded: Tensor | None = None,
    cross_mask: Tensor | None = None,
) -> Tensor:
    """All layers of one half; `encoded` is what a decoder looks at."""
    for layer in layers:
        with t.layer(layer.slot), t.module("layer"):
            hidden_states = _checkpointed(t, recipe, shape, layer, hidden_states, mask, encoded, cross_mask)
    return hidden_states


def _checkpointed(
    t: Tape,
    recipe: Recipe,
    shape: HalfShape,
    layer: EncoderLayer,
    hidden_states: Tensor,
    mask: Tensor | None,
    encoded: Tensor | None,
    cross_mask: Tensor | None,
) -> Tensor:
    def forward(x: Tensor) -> Tensor:
        return run_layer(t, shape, layer, x, mask, encoded, cross_mask)

    # A reentrant region has one input only; with the encoder's states beside it, it is told without reentrance.
    how = recipe.checkpointing if encoded is None or recipe.checkpointing == "none" else "non-reentrant"
    return checkpointed(t, how, forward, hidden_states)


def run_layer(
    t: Tape,
    shape: HalfShape,
    layer: EncoderLayer,
    hidden_states: Tensor,
    mask: Tensor | None,
    encoded: Tensor | None = None,
    cross_mask: Tensor | None = None,
) -> Tensor:
    """`WhisperDecoderLayer.forward`, `BartEncoderLayer.forward` and their like: norms before or after each part."""
    first = shape.norms_first
    residual = hidden_states
    if first:
        hidden_states = normalise(t, layer.norms["self"], hidden_states, "self norm")
    hidden_states, _weights = _attention(t, shape, shape.attention, layer, hidden_states, mask)
    hidden_states = _sum(t, layer, residual, hidden_states)
    if not first:
        hidden_states = normalise(t, layer.norms["self"], hidden_states, "self norm")
    if encoded is not None and shape.cross is not None:
        residual = hidden_states
        if first:
            hidden_states = normalise(t, layer.norms["cross"], hidden_states, "cross norm")
        hidden_states, _weights = _attention(t, shape, shape.cross, layer, hidden_states, cross_mask, encoded)
        hidden_states = _sum(t, layer, residual, hidden_states)
        if not first:
            hidden_states = normalise(t, layer.norms["cross"], hidden_states, "cross norm")
    residual = hidden_states
    if first:
        hidden_states = normalise(t, layer.norms["final"], hidden_states, "final norm")
    hidden_states = activate(t, linear(t, layer.linears["up_proj"], hidden_states), shape.attention.layer.activation)
    if shape.inner_dropout:
        hidden_states = ops.dropout(t, hidden_states)
    hidden_states = linear(t, layer.linears["down_proj"], hidden_states)
    hidden_states = _sum(t, layer, residual, hidden_states)
    return hidden_states if first else normalise(t, layer.norms["final"], hidden_states, "final norm")


def _sum(t: Tape, layer: EncoderLayer, residual: Tensor, hidden_states: Tensor) -> Tensor:
    if layer.shape.dropout:
        hidden_states = ops.dropout(t, hidden_states)
    return ops.add(t, residual, hidden_states, "residual sum")


def _attention(
    t: Tape,
    shape: HalfShape,
    looks: EncoderShape,
    layer: EncoderLayer,
    hidden_states: Tensor,
    mask: Tensor | None,
    encoded: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Attention to the layer's own tokens or to the encoder's, with its output projection."""
    prefix = "" if encoded is None else "cross "
    with t.module(f"{prefix}attention", BART):
        states = hidden_states if encoded is None else encoded
        query = _heads(t, shape, looks, layer.linears[f"{prefix}q_proj"], hidden_states, scaled=shape.scales_query)
        key = _heads(t, shape, looks, layer.linears[f"{prefix}k_proj"], states)
        value = _heads(t, shape, looks, layer.linears[f"{prefix}v_proj"], states)
        weights: Tensor | None = None
        if looks.layer.kernel == "eager":
            output, weights = eager_attention(
                t, looks.layer, query, key, value, mask, joined=shape.scales_query, upcast=False
            )
        else:
            output = attend(t, looks.layer, query, key, value, mask)
            if shape.scales_query and looks.layer.kernel == "flash":
                # Flash gives its output in the order of its queries, which are copied head by head.
                output = ops.contiguous(t, output, label="attention output, contiguous")
        return linear(t, layer.linears[f"{prefix}o_proj"], output), weights


def _heads(
    t: Tape, shape: HalfShape, looks: EncoderShape, projection: Linear, x: Tensor, *, scaled: bool = False
) -> Tensor:
    """A projection seen by heads."""
    dims = (*x.dims[:2], layer_dims(looks.layer, "heads"), layer_dims(looks.layer, "head dim"))
    projected = linear(t, projection, x)
    if scaled:
        projected = ops.elementwise(t, projected, "scaled queries")
    seen = ops.view(t, projected, *dims)
    del projected
    if shape.scales_query:
        return ops.contiguous(t, seen, label="heads, contiguous")
    return reshape(t, seen) if looks.layer.kernel == "eager" else seen


@dataclass(slots=True)
class Pair:
    """A recorded encoder and decoder; `encode` and `decode` are their forward passes."""

    recipe: Recipe
    book: WeightBook
    encode: Callable[[Tape, Tensor], Tensor]
    decode: Callable[[Tape, Tensor, Tensor], Tensor]
    """Of the decoder's ids and what the encoder gave."""
    head: Linear | None
    batch: Callable[[Tape, Recipe], Tensor]
    """What the encoder reads."""
    adds_bias: bool = False
    """A constant bias is added to the logits (BART)."""
    scales_states: bool = False
    """What the head reads is scaled first (T5 with tied tables); the decoder's own output is held beside it."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        held = {"source": self.batch(t, self.recipe)}
        if self.recipe.passes_mask:
            held["mask"] = t.new(("batch", "sequence"), "int64", "attention mask of the batch")
        if self.recipe.loss != "none":
            held["labels"] = t.new(("batch", DECODED), "int64", "labels")
        else:
            held["ids"] = t.new(("batch", DECODED), "int64", "decoder input ids")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        ids = _decoder_ids(t, inputs)
        encoded = self.encode(t, inputs["source"])
        hidden_states = self.decode(t, ids, encoded)
        if self.head is None:
            return mean_loss(t, hidden_states), (hidden_states, encoded) if self.recipe.keeps_outputs else None
        states = self._scaled(t, hidden_states)
        fused = head_and_loss(t, self.recipe, self.head, states)
        if fused is not None:
            return fused, None
        logits = self._logits(t, self.head, states)
        if self.recipe.loss == "fused_cross_entropy":
            return fused_cross_entropy(t, logits), None
        loss = cross_entropy(t, ops.view(t, logits), inputs["labels"])
        return loss, (logits, encoded) if self.recipe.keeps_outputs else None

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        ids = _decoder_ids(t, inputs)
        encoded = self.encode(t, inputs["source"])
        hidden_states = self.decode(t, ids, encoded)
        if self.head is None:
            return hidden_states, encoded
        states = self._scaled(t, hidden_states)
        logits = self._logits(t, self.head, states)
        loss = cross_entropy(t, logits, inputs["labels"]) if "labels" in inputs else None
        return logits, encoded, loss

    def weights(self) -> list[Place]:
        return self.book.places

    def _logits(self, t: Tape, head: Linear, hidden_states: Tensor) -> Tensor:
        logits = linear(t, head, hidden_states)
        if not self.adds_bias:
            return logits
        # The bias is in the weights' dtype: under autocast its sum with the logits is in fp32.
        bias = t.parameter(("vocabulary",), self.recipe.weight_dtype, trainable=False)
        return ops.add(t, logits, bias, "logits and their bias")

    def _scaled(self, t: Tape, hidden_states: Tensor) -> Tensor:
        return ops.elementwise(t, hidden_states, "scaled states") if self.scales_states else hidden_states


def _decoder_ids(t: Tape, inputs: dict[str, Tensor]) -> Tensor:
    """The labels shifted by one, or the ids that the batch holds."""
    if "ids" in inputs:
        return inputs["ids"]
    ids = t.new(inputs["labels"].dims, "int64", "decoder input ids")
    t.tick("decoder input ids")
    return ids


def make_tied_head(book: WeightBook, table: Tensor, *, tied: bool, width: Dim = "hidden") -> Linear:
    """The output projection over the vocabulary, which may be the shared table."""
    return book.linear(
        "lm_head", (width,), ("vocabulary",), bias=False, rows=("table rows",), tied=table if tied else None
    )


def decoder_symbols(loads: Loads) -> tuple[Factor, ...]:
    length = loads.sequence if loads.decoder_sequence is None else loads.decoder_sequence
    rounded = (length + 31) // 32 * 32
    return (
        Factor(DECODED, length),
        Factor(f"{DECODED} rounded up to 32", rounded, "rows of the kernel's logarithms"),
    )
