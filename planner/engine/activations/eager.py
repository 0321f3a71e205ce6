"""Attention computed step by step in Python, as `attn_implementation="eager"` runs it.

Sources: transformers 5.24 `eager_attention_forward` of the model classes; torch 2.13 `aten/src/ATen/native/
LinearAlgebra.cpp: _matmul_impl` (operands of four dimensions are reshaped to a batch of matrices, which copies those
that are no view of one).
"""

from collections.abc import Sequence

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import layer_dims
from planner.engine.activations.checkpoint import checkpoint
from planner.engine.activations.functions import saves_output
from planner.engine.activations.ops_shape import add_in_place, reshape, spread
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor

EAGER = "transformers 5.24, eager_attention_forward"


def eager_attention(
    t: Tape,
    shape: LayerShape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    joined: bool,
    upcast: bool = True,
    softcap: bool = False,
    scores_in_fp32: bool = False,
    names_fp32: bool = True,
    as_values: bool = False,
    adds_in_place: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The output (batch, sequence, heads, head dim) and the attention weights, which the caller's scope holds.

    `joined`: keys and values come from a cache in one piece. `upcast`: the softmax asks for fp32 itself,
    and its result is cast to the queries' dtype. `as_values`: it is cast to the values' dtype, whatever it is.
    `names_fp32`: operands cast to fp32 keep a name until the end, they are not just passed on.
    `adds_in_place`: the mask is a bias of positions that is added over the scores.
    Selective checkpointing runs just this again in backward.
    """

    def core(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return _eager(
            t,
            shape,
            query,
            key,
            value,
            mask,
            joined=joined,
            upcast=upcast,
            softcap=softcap,
            whole=scores_in_fp32,
            named=names_fp32,
            as_values=as_values or scores_in_fp32,
            in_place=adds_in_place,
        )

    if t.techniques.selective != "core-attention":
        return core(query, key, value)
    return checkpoint(t, lambda *inputs: core(*inputs)[0], query, key, value), None


def _eager(
    t: Tape,
    shape: LayerShape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    joined: bool,
    upcast: bool,
    softcap: bool,
    whole: bool,
    named: bool,
    as_values: bool,
    in_place: bool,
) -> tuple[Tensor, Tensor]:
    with t.module("eager", EAGER):
        dtype = query.dtype
        copied = not shape.single_sequence
        dims = (query.dims[0], layer_dims(shape, "heads"), query.dims[1], key.dims[1])
        key_states, value_states = key, value
        if shape.grouped_queries:
            key_states, value_states = repeat_heads(t, shape, key, "keys"), repeat_heads(t, shape, value, "values")
        output_dims = query.dims
        if whole:
            query, key_states = ops.to(t, query, "fp32", "q in fp32"), ops.to(t, key_states, "fp32", "k in fp32")
        in_one_piece = joined or shape.grouped_queries
        strided = copied and (shape.single_kv_head or not in_one_piece)
        turned = copied and not shape.heads_first
        weights = batched(t, query, key_states, dims, "scores", turned, strided and turned)
        if whole and not named:
            del query, key_states
        weights = ops.elementwise(t, weights, "scaled scores")
        if shape.masks_scores:
            weights = _overwritten(t, weights)
        if softcap:
            weights = ops.elementwise(t, weights, "scores over the cap")
            weights = saves_output(t, weights, "tanh")
            weights = ops.elementwise(t, weights, "capped scores")
        if mask is not None and in_place:
            weights = add_in_place(t, weights, mask, "bias added in place")
        elif mask is not None:
            weights = ops.add(t, weights, mask, "masked scores")
        weights = softmax_to(t, weights, value.dtype if as_values else dtype if upcast else None, upcast=upcast)
        if shape.attention_dropout:
            weights = ops.dropout(t, weights)
        output = batched(t, weights, value_states, output_dims, "attention output", False, strided)
        output = ops.contiguous(t, output, label="attention output, contiguous")
        return output, weights


def _overwritten(t: Tape, scores: Tensor) -> Tensor:
    """`torch.where(causal_mask, scores, lowest)` with a slice of a buffer as the mask; so is its gradient."""
    out = t.new(scores.dims, scores.dtype, "scores with a causal mask")
    t.tick("scores with a causal mask")

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = t.new(out_dims, out_dtype, "gradient of masked scores")
        t.tick("gradient of masked scores")
        return [gradient]

    out_dims, out_dtype = out.dims, out.dtype
    record(t, "where", [scores], [out], backward)
    return out


def softmax_to(t: Tape, scores: Tensor, dtype: str | None, *, upcast: bool) -> Tensor:
    """Softmax, in fp32 where asked for or under autocast, and its copy in another dtype where the class makes one."""
    if upcast or t.autocast:
        # The kernel reads fp16 itself (`half_to_float`); the copy of any other dtype dies with the call.
        whole = scores.dtype == "fp16"
        soft = ops.softmax(t, scores if whole else ops.to(t, scores, "fp32", "scores in fp32"), "fp32")
        return soft if dtype is None else ops.to(t, soft, dtype, "attention weights")
    return ops.softmax(t, scores, scores.dtype)


def batched(t: Tape, a: Tensor, b: Tensor, dims: Dims, label: str, copies_a: bool, copies_b: bool) -> Tensor:
    """`torch.matmul` of four dimensions; operands whose heads are not contiguous are copied first."""
    if t.autocast:
        a, b = ops.to(t, a, t.autocast), ops.to(t, b, t.autocast)
    left = ops.contiguous(t, a, label="left operand, contiguous") if copies_a else ops.view(t, a)
    right = ops.contiguous(t, b, label="right operand, contiguous") if copies_b else ops.view(t, b)
    return ops.view(t, ops.matmul(t, left, right, dims, label))


def repeat_heads(t: Tape, shape: LayerShape, x: Tensor, name: str) -> Tensor:
    """`repeat_kv`: keys or values copied once per query head of their group."""
    dims = (*x.dims[:2], layer_dims(shape, "heads"), x.dims[-1])
    if shape.single_kv_head:
        return spread(t, x, dims, copies=False, label=name)
    return ops.repeat(t, x, dims, f"{name} repeated to all heads")


def heads_of(t: Tape, x: Tensor, shape: LayerShape, *dims: str) -> Tensor:
    """A projection seen by heads; in eager mode its gradient comes head by head and is copied back."""
    return reshape(t, x, *dims) if shape.kernel == "eager" else ops.view(t, x, *dims)
