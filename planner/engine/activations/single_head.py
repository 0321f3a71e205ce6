"""Attention of many query heads to one key head without a fused kernel: SDPA's own steps, or Falcon's eager ones.

Sources: torch 2.13, `native/transformers/attention.cpp: _scaled_dot_product_attention_math`; transformers 5.24,
`FalconAttention.forward`.
"""

from planner.engine.activations import ops
from planner.engine.activations.blocks import layer_dims
from planner.engine.activations.ops_shape import spread
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor

MATH = "torch 2.13, native/transformers/attention.cpp: _scaled_dot_product_attention_math"


def math_attention(
    t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Queries and keys scaled, scores, bias, softmax and output, all in fp32, with keys and values spread to all heads.

    The attention weights come back too, in the input's dtype, although nobody takes them.
    """
    with t.module("sdpa (math)", MATH):
        if t.autocast:
            query, key, value = (ops.to(t, x, t.autocast) for x in (query, key, value))
        dtype = query.dtype
        bias: Tensor | None = None
        if mask is not None:
            with t.no_grad():
                bias = t.new(mask.dims, dtype, "mask as a bias")
                t.tick("mask as a bias")
        query, key, value = (ops.to(t, x, "fp32", "in fp32") for x in (query, key, value))
        scaled = ops.elementwise(t, query, "scaled q")
        weights = _product(t, shape, scaled, ops.elementwise(t, key, "scaled k"), "scores")
        if bias is not None:
            t.tick("bias added in place")
        weights = ops.softmax(t, weights)
        output = ops.to(t, _output(t, shape, weights, value, query.dims), dtype, "output in the input's dtype")
        returned = ops.to(t, weights, dtype, "weights in the input's dtype")
        del returned, bias
        return output


def eager_scores(
    t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dtype: str
) -> tuple[Tensor, Tensor]:
    """`FalconAttention`: scores scaled in place, a softmax in the layer's own dtype."""
    with t.module("eager"):
        scores = ops.elementwise_in_place(
            t, _product(t, shape, _cast(t, query), _cast(t, key), "scores"), "scaled scores"
        )
        masked = scores if mask is None else ops.add(t, scores, mask, "masked scores")
        weights = ops.softmax(t, ops.to(t, masked, dtype), dtype)
        del scores, masked
        left = weights
        if t.autocast:
            left, value = ops.to(t, weights, t.autocast), ops.to(t, value, t.autocast)
        return _output(t, shape, left, value, query.dims), weights


def _cast(t: Tape, x: Tensor) -> Tensor:
    """What autocast makes of an operand, which dies with the product."""
    return ops.to(t, x, t.autocast) if t.autocast else x


def _product(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, label: str) -> Tensor:
    copied = not shape.single_sequence
    dims = (query.dims[0], layer_dims(shape, "heads"), query.dims[1], key.dims[1])
    left = ops.contiguous(t, query, label="q, contiguous") if copied else ops.view(t, query)
    right = spread(t, key, _spread_dims(shape, key), copies=copied, label="k of all heads")
    return ops.view(t, ops.matmul(t, left, right, dims, label))


def _output(t: Tape, shape: LayerShape, weights: Tensor, value: Tensor, dims: Dims) -> Tensor:
    right = spread(t, value, _spread_dims(shape, value), copies=not shape.single_sequence, label="v of all heads")
    return ops.view(t, ops.matmul(t, ops.view(t, weights), right, dims, "attention output"))


def _spread_dims(shape: LayerShape, x: Tensor) -> Dims:
    return (x.dims[0], x.dims[1], layer_dims(shape, "heads"), x.dims[3])
