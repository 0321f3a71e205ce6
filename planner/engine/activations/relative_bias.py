"""T5's layers: RMS norms without a mean, attention biased by relative positions, dropout everywhere.

Sources: transformers 5.24 `models/t5/modeling_t5.py`, `integrations/sdpa_attention.py: create_position_bias_mask`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.biased import biased_attention
from planner.engine.activations.blocks import Linear, layer_dims, linear, slots_of
from planner.engine.activations.checkpoint import checkpointed
from planner.engine.activations.eager import eager_attention
from planner.engine.activations.encoders import EncoderShape, make_attention
from planner.engine.activations.functions import activate
from planner.engine.activations.ops_shape import reshape
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook

T5 = "transformers 5.24, models/t5/modeling_t5.py"


@dataclass(frozen=True, slots=True)
class T5Shape:
    """The layers of an encoder, or of a decoder that looks at one."""

    attention: EncoderShape
    looks: bool
    own_tables: bool
    """Every layer has a table of its own (UMT5)."""
    dropout: bool

    @property
    def heads(self) -> str:
        return layer_dims(self.attention.layer, "heads")

    def table_dims(self) -> Dims:
        return "relative positions", self.heads


@dataclass(slots=True)
class T5Layer:
    """The weights of one recorded layer."""

    slot: str
    linears: dict[str, Linear]
    norms: dict[str, Tensor]
    table: Tensor | None


@dataclass(slots=True)
class BiasTable:
    """The table that all layers of a half share, and the biases made in its first layer."""

    table: Tensor | None
    own: Tensor | None = None
    across: Tensor | None = None


def make_t5_layers(book: WeightBook, kind: int, shape: T5Shape) -> list[T5Layer]:
    width, inner = ("hidden",), (layer_dims(shape.attention.layer, "ffn"),)
    gated = shape.attention.layer.gated
    made: list[T5Layer] = []
    for slot in slots_of(kind, shape.attention.layer.copies):
        with book.layer(slot):
            linears = make_attention(book, shape.attention)
            if shape.looks:
                linears |= make_attention(book, shape.attention, "cross ")
            for role in ("gate_proj", "up_proj") if gated else ("up_proj",):
                linears[role] = book.linear(role, width, inner, bias=False)
            linears["down_proj"] = book.linear("down_proj", inner, width, bias=False)
            names = ("self", "cross", "final") if shape.looks else ("self", "final")
            norms = {name: book.tensor(f"{name} norm", width) for name in names}
            table = book.tensor("relative_attention_bias", shape.table_dims()) if shape.own_tables else None
            made.append(T5Layer(slot, linears, norms, table))
    return made


def t5_norm(t: Tape, weight: Tensor, hidden_states: Tensor, name: str) -> Tensor:
    """`T5LayerNorm.forward`: only the variance is computed in fp32 of a copy."""
    with t.module(name, f"{T5}: T5LayerNorm.forward"):
        variance = ops.mean(t, ops.square(t, ops.to(t, hidden_states, "fp32", "input in fp32")))
        scale = ops.rsqrt(t, ops.shift(t, variance, "plus epsilon"))
        del variance
        normalised = ops.mul(t, hidden_states, scale, "normalised")
        del scale
        normalised = normalised if weight.dtype == "fp32" else ops.to(t, normalised, weight.dtype)
        return ops.mul(t, weight, normalised, "output")


def run_t5_layers(
    t: Tape,
    recipe: Recipe,
    shape: T5Shape,
    layers: list[T5Layer],
    hidden_states: Tensor,
    bias: BiasTable,
    encoded: Tensor | None,
) -> Tensor:
    """All layers of a half; the biases of the first go to all others."""
    for layer in layers:
        with t.layer(layer.slot), t.module("layer", f"{T5}: T5Block.forward"):
            hidden_states = _checkpointed(t, recipe, shape, layer, hidden_states, bias, encoded)
    return hidden_states


def _checkpointed(
    t: Tape,
    recipe: Recipe,
    shape: T5Shape,
    layer: T5Layer,
    hidden_states: Tensor,
    bias: BiasTable,
    encoded: Tensor | None,
) -> Tensor:
    if recipe.checkpointing == "none":
        return _run(t, shape, layer, hidden_states, bias, encoded)
    _prepare(t, shape, layer, hidden_states, bias, encoded, trains_zeros=recipe.training)

    def forward(x: Tensor) -> Tensor:
        return _run(t, shape, layer, x, bias, encoded)

    # A reentrant region has one input only; with biases beside it, it is told without reentrance.
    return checkpointed(t, "non-reentrant", forward, hidden_states)


def _prepare(
    t: Tape,
    shape: T5Shape,
    layer: T5Layer,
    hidden_states: Tensor,
    bias: BiasTable,
    encoded: Tensor | None,
    *,
    trains_zeros: bool,
) -> None:
    """The biases of the first layer, made before its region; checkpointing asks for a gradient of the zeros too."""
    if bias.own is None and layer.table is None:
        bias.own = compute_bias(t, shape, bias.table, hidden_states)
    if encoded is not None and bias.across is None:
        zeros = _zeros(t, shape, hidden_states, encoded)
        if trains_zeros:
            record(t, "bias of zeros", [], [zeros], _ends, always=True)
        bias.across = zeros


def _run(
    t: Tape, shape: T5Shape, layer: T5Layer, hidden_states: Tensor, bias: BiasTable, encoded: Tensor | None
) -> Tensor:
    """`T5Block.forward`."""
    hidden_states, _weights = _self_attention(t, shape, layer, hidden_states, bias)
    if encoded is not None:
        hidden_states, _weights = _cross_attention(t, shape, layer, hidden_states, bias, encoded)
    return _feed_forward(t, shape, layer, hidden_states)


def _self_attention(
    t: Tape, shape: T5Shape, layer: T5Layer, hidden_states: Tensor, bias: BiasTable
) -> tuple[Tensor, Tensor | None]:
    normed = t5_norm(t, layer.norms["self"], hidden_states, "self norm")
    with t.module("attention", f"{T5}: T5Attention.forward"):
        heads = [_heads(t, shape, layer.linears[f"{name}_proj"], normed) for name in ("q", "k", "v")]
        own = compute_bias(t, shape, layer.table, normed) if layer.table is not None else bias.own
        if own is None:
            own = bias.own = compute_bias(t, shape, bias.table, normed)
        output, weights = _attend(t, shape, heads, own, causal=shape.looks)
        del heads
        output = linear(t, layer.linears["o_proj"], output)
    return ops.add(t, hidden_states, _dropped(t, shape, output), "residual sum"), weights


def _cross_attention(
    t: Tape, shape: T5Shape, layer: T5Layer, hidden_states: Tensor, bias: BiasTable, encoded: Tensor
) -> tuple[Tensor, Tensor | None]:
    normed = t5_norm(t, layer.norms["cross"], hidden_states, "cross norm")
    with t.module("cross attention", f"{T5}: T5Attention.forward"):
        heads = [
            _heads(t, shape, layer.linears[f"cross {name}_proj"], states)
            for name, states in (("q", normed), ("k", encoded), ("v", encoded))
        ]
        if bias.across is None:
            bias.across = _zeros(t, shape, heads[0], encoded)
        output, weights = _attend(t, shape, heads, bias.across, causal=False)
        del heads
        output = linear(t, layer.linears["cross o_proj"], output)
    return ops.add(t, hidden_states, _dropped(t, shape, output), "residual sum"), weights


def _feed_forward(t: Tape, shape: T5Shape, layer: T5Layer, hidden_states: Tensor) -> Tensor:
    forwarded = t5_norm(t, layer.norms["final"], hidden_states, "final norm")
    with t.module("mlp", f"{T5}: T5LayerFF.forward"):
        activation = shape.attention.layer.activation
        if shape.attention.layer.gated:
            inner = activate(t, linear(t, layer.linears["gate_proj"], forwarded), activation)
            inner = ops.mul(t, inner, linear(t, layer.linears["up_proj"], forwarded), "gated product")
        else:
            inner = activate(t, linear(t, layer.linears["up_proj"], forwarded), activation)
        inner = _dropped(t, shape, inner)
        forwarded = linear(t, layer.linears["down_proj"], inner)
        del inner
    return ops.add(t, hidden_states, _dropped(t, shape, forwarded), "residual sum")


def _dropped(t: Tape, shape: T5Shape, x: Tensor) -> Tensor:
    return ops.dropout(t, x) if shape.dropout else x


def _heads(t: Tape, shape: T5Shape, projection: Linear, x: Tensor) -> Tensor:
    dims = (*x.dims[:2], shape.heads, layer_dims(shape.attention.layer, "head dim"))
    projected = linear(t, projection, x)
    return reshape(t, projected, *dims) if shape.attention.layer.kernel == "eager" else ops.view(t, projected, *dims)


def compute_bias(t: Tape, shape: T5Shape, table: Tensor | None, hidden_states: Tensor) -> Tensor:
    """`T5Attention.compute_bias`: a row of the table for the distance of every pair of tokens."""
    assert table is not None
    length = hidden_states.dims[1]
    buckets = t.new((length, length), "int64", "buckets of distances")
    working = [t.new((length, length), "int64", "working copy of distances") for _ in range(2)]
    t.tick("buckets of distances")
    del working
    return ops.embedding(t, table, (length, length, shape.heads), buckets)


def _zeros(t: Tape, shape: T5Shape, hidden_states: Tensor, encoded: Tensor) -> Tensor:
    dtype = t.autocast or hidden_states.dtype
    zeros = t.new((1, shape.heads, hidden_states.dims[1], encoded.dims[1]), dtype, "bias of zeros")
    t.tick("bias of zeros")
    return zeros


def _attend(
    t: Tape, shape: T5Shape, heads: Sequence[Tensor], bias: Tensor, *, causal: bool
) -> tuple[Tensor, Tensor | None]:
    """Attention with the bias, from which later tokens and padding are masked out in every layer anew."""
    layer = shape.attention.layer
    query, key, value = heads
    across = (shape.heads, query.dims[1], key.dims[1])
    if layer.kernel == "eager":
        seen = ops.view(t, bias, *across)
        return eager_attention(t, layer, query, key, value, seen, joined=False, upcast=False)
    if layer.masked or causal:
        bias = _where(t, bias, ("batch", *across) if layer.masked else across)
    if causal or bias.dims != (1, *across):
        bias = ops.contiguous(t, bias, *(bias.dims if layer.masked else across), label="bias by heads")
    if t.autocast:
        bias = ops.to(t, bias, t.autocast, "bias cast by autocast")
    output = biased_attention(
        t,
        query,
        key,
        value,
        bias,
        rows=("batch", shape.heads, f"{query.dims[1]} rounded up to 32"),
        gradient=("batch", *across),
    )
    return output, None


def _ends(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
    return []


def _where(t: Tape, bias: Tensor, dims: Dims) -> Tensor:
    """`torch.where(mask, bias, lowest)`: keeps the mask."""
    with t.no_grad():
        mask = t.new(dims[-2:], "bool", "mask of the bias")
        t.tick("mask of the bias")
    out = t.new(dims, bias.dtype, "masked bias")
    t.tick("masked bias")

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        given = gradients[0]
        assert given is not None
        gradient = t.new(dims, given.dtype, "gradient of masked bias")
        t.tick("gradient of masked bias")
        return [gradient]

    record(t, "where", [bias], [out], backward, [mask])
    return out
