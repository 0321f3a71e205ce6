"""Memory-efficient attention with a bias of its own that is trained: relative positions.

Source: torch 2.13, `aten/src/ATen/native/transformers/attention.cpp` (`preprocess_mask`, `pad_bias`): a bias whose rows
are no multiple of 16 elements is copied into one whose rows are.
"""

from collections.abc import Sequence

from planner.engine.activations import ops
from planner.engine.activations.attention import TORCH_SDPA
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops_shape import part
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor


def pad_rows(t: Tape, bias: Tensor, rounded: Dim) -> Tensor:
    """A copy whose rows have `rounded` elements, seen without the padding; backward cuts its gradient's out again."""
    own = bias.dims
    padded = t.new((*own[:-1], rounded), bias.dtype, "padded bias")
    t.tick("padded bias")

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        cut = t.new(own, gradient.dtype, "gradient of bias")
        t.tick("gradient of bias")
        return [cut]

    record(t, "pad", [bias], [padded], backward)
    return part(t, padded, *own)


def biased_attention(
    t: Tape, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, *, rows: Dims, gradient: Dims
) -> Tensor:
    """Query, key and value, (..., tokens, heads, head dim) in memory, to the same.

    `rows`: of the kernel's logarithms; `gradient`: the shape in which the kernel makes the gradient of the bias.
    """
    if t.autocast:
        query, key, value, bias = (ops.to(t, x, t.autocast, "cast by autocast") for x in (query, key, value, bias))
    with t.module("sdpa (efficient)", f"{TORCH_SDPA}: _scaled_dot_product_efficient_attention"):
        output = t.new(query.dims, query.dtype, "output")
        kept = [t.new(rows, "fp32", "log-sum-exp")] if t.grad_enabled else []
        t.tick("sdpa (efficient)")

        def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
            shapes = [source.dims for source in saved[:3]]
            made: Gradients = [
                t.new(shape, source.dtype, "gradient") if need else None
                for shape, source, need in zip([*shapes, gradient], saved, needs, strict=False)
            ]
            t.tick("attention backward")
            return made

        record(t, "attention", [query, key, value, bias], [output], backward, [query, key, value, bias, output, *kept])
        return output
