"""Pieces of transformers in which image and text attend jointly: modulated norms, feed-forwards, joint attention.

Source: diffusers 0.42, `models/normalization.py`, `models/attention.py`, `models/transformers/transformer_flux.py`.
"""

from collections.abc import Sequence

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, kernel_rms_norm, linear
from planner.engine.activations.norms import layer_norm
from planner.engine.activations.ops_shape import split
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook

MODULATION = "diffusers 0.42, models/normalization.py: AdaLayerNormZero.forward"
WIDTH = "hidden"
IMAGE_TOKENS, TEXT_TOKENS, JOINT_TOKENS = "image tokens", "prompt tokens", "joint tokens"
HEADS, HEAD_DIM = "heads", "head dim"


def make_modulation(book: WeightBook, name: str, parts: int) -> Linear:
    return book.linear(name, (WIDTH,), (parts, WIDTH))


def modulation(t: Tape, layer: Linear, temb: Tensor, parts: int) -> list[Tensor]:
    """`linear(silu(emb)).chunk(parts)`."""
    emb = linear(t, layer, ops.activation(t, temb, "silu"))
    return split(t, emb, *[("batch", 1, WIDTH)] * parts)


def scaled(t: Tape, x: Tensor, scale: Tensor) -> Tensor:
    """`x * (1 + scale)`."""
    return ops.mul(t, x, ops.shift(t, ops.view(t, scale), "1 + scale"), "scaled")


def modulated(t: Tape, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """`x * (1 + scale) + shift`."""
    return ops.add(t, scaled(t, x, scale), ops.view(t, shift), "scaled and shifted")


def norm_without_weight(t: Tape, x: Tensor, name: str) -> Tensor:
    with t.module(name):
        return layer_norm(t, x, None, None)


def gated(t: Tape, gate: Tensor, x: Tensor) -> Tensor:
    """`gate.unsqueeze(1) * x`."""
    return ops.mul(t, x, ops.view(t, gate), "gated")


def make_feed_forward(book: WeightBook, name: str) -> tuple[Linear, Linear]:
    inner = (4, WIDTH)
    return book.linear(f"{name}.proj", (WIDTH,), inner), book.linear(f"{name}.out", inner, (WIDTH,))


def feed_forward(t: Tape, layers: tuple[Linear, Linear], hidden_states: Tensor, name: str) -> Tensor:
    """`FeedForward.forward` with GELU."""
    with t.module(name, "diffusers 0.42, models/attention.py: FeedForward.forward"):
        return linear(t, layers[1], _gelu(t, layers[0], hidden_states))


def _gelu(t: Tape, layer: Linear, hidden_states: Tensor) -> Tensor:
    hidden_states = linear(t, layer, hidden_states)
    return ops.activation(t, hidden_states, "gelu")


def make_projections(book: WeightBook, names: Sequence[str]) -> dict[str, Linear]:
    heads: Dims = (HEADS, HEAD_DIM)
    return {
        name: book.linear(name, heads, (WIDTH,)) if "out" in name else book.linear(name, (WIDTH,), heads)
        for name in names
    }


def head_norm(t: Tape, weight: Tensor | None, x: Tensor, name: str) -> Tensor:
    """A norm over each head, where there is one; autocast runs it in fp32."""
    if weight is None:
        return x
    if t.autocast:
        x = ops.to(t, x, "fp32", f"{name} input cast by autocast")
        weight = ops.to(t, weight, "fp32", f"{name} weight cast by autocast")
    return kernel_rms_norm(t, weight, x, name)


def look(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return ops.to(t, ops.view(t, attend(t, shape, query, key, value, None)), query.dtype)


def without_overflow(t: Tape, x: Tensor) -> Tensor:
    """`clip(-65504, 65504)` in fp16."""
    return ops.activation(t, x, "clipped") if x.dtype == "fp16" else x


def contiguous_part(t: Tape, x: Tensor, *, single: bool) -> Tensor:
    """`x.contiguous()` of a run of tokens, which lies in one piece where the batch is one sequence."""
    return ops.view(t, x) if single else ops.contiguous(t, x, label="part, contiguous")
