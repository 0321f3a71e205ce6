"""PyTorch's operators behind a state-space scan: convolution, padding, cumulative sums, contractions by einsum.

Source: torch 2.13, `tools/autograd/derivatives.yaml`, `aten/src/ATen/native/Linear.cpp: einsum`.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import cast_weight
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import reshape
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor


def _only(gradients: Gradients) -> Tensor:
    gradient = gradients[0]
    assert gradient is not None
    return gradient


def _make(t: Tape, dims: Dims, dtype: str, label: str) -> Tensor:
    out = t.new(dims, dtype, label)
    t.tick(label)
    return out


def convolution(
    t: Tape, x: Tensor, weight: Tensor, bias: Tensor | None, dims: Dims, label: str = "convolution"
) -> Tensor:
    """A convolution over the sequence; keeps its input, since the weight needs a gradient or the input does."""
    if t.autocast:
        x, weight = ops.to(t, x, t.autocast, "input cast by autocast"), cast_weight(t, weight)
        bias = cast_weight(t, bias) if bias is not None else None
    out = _make(t, dims, x.dtype, label)
    sources = [x, weight, *([bias] if bias is not None else [])]

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made: Gradients = [
            t.new(shape, dtype, "gradient of convolution") if need else None
            for shape, need in zip(shapes, needs, strict=True)
        ]
        t.tick("convolution backward")
        return made

    shapes, dtype = [source.dims for source in sources], x.dtype
    record(t, "convolution", sources, [out], backward, [x, weight])
    return out


def causal_convolution(t: Tape, x: Tensor, weight: Tensor, bias: Tensor | None, dims: Dims) -> Tensor:
    """`causal_conv1d_fn` in plain PyTorch (transformers 5.24): its input is brought to the weight's dtype first.

    Autocast then casts both down, so the convolution's own copy is what is kept.
    """
    wide = ops.to(t, x, weight.dtype, "input in the weight's dtype")
    out = convolution(t, wide, weight, bias, dims)
    del wide
    return out


def softplus(t: Tape, x: Tensor) -> Tensor:
    """`F.softplus`, which autocast runs in fp32 (torch 2.13, `aten/src/ATen/autocast_mode.h`)."""
    return ops.activation(t, ops.to(t, x, "fp32", "input cast by autocast") if t.autocast else x, "softplus")


def pad(t: Tape, x: Tensor, dims: Dims, label: str) -> Tensor:
    """`F.pad`: a copy, even where nothing is added; backward copies what lies inside."""
    return _resized(t, "pad", x, _make(t, dims, x.dtype, label))


def _resized(t: Tape, name: str, x: Tensor, out: Tensor) -> Tensor:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_make(t, dims, _only(gradients).dtype, f"gradient of {name}")]

    dims = x.dims
    record(t, name, [x], [out], backward)
    return out


def cumulative_sum(t: Tape, x: Tensor) -> Tensor:
    """`cumsum`; backward is `grad.flip().cumsum().flip()`."""
    out = _make(t, x.dims, x.dtype, "cumulative sum")
    record(t, "cumsum", [x], [out], _cumulative_backward)
    return out


def _cumulative_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = _only(gradients)
    flipped = _make(t, gradient.dims, gradient.dtype, "flipped gradient")
    summed = _make(t, gradient.dims, gradient.dtype, "cumulative sum of gradient")
    out = _make(t, gradient.dims, gradient.dtype, "gradient of cumulative sum")
    del flipped, summed
    return [out]


def lower_triangle(t: Tape, size: Dim) -> tuple[Tensor, Tensor]:
    """`tril(ones)` and its negation, which masks."""
    ones = _make(t, (size, size), "bool", "ones")
    triangle = _make(t, (size, size), "bool", "lower triangle")
    del ones
    return triangle, _make(t, (size, size), "bool", "upper triangle")


def masked_fill(t: Tape, x: Tensor, mask: Tensor, dims: Dims, label: str) -> Tensor:
    """`x.masked_fill(mask, value)` of an expanded `x`; the mask is kept."""
    out = _make(t, dims, x.dtype, label)

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_make(t, dims, _only(gradients).dtype, "gradient, masked")]

    record(t, "masked_fill", [x], [out], backward, [mask])
    return out


def subtract(t: Tape, a: Tensor, b: Tensor, label: str) -> Tensor:
    out = _make(t, b.dims, b.dtype, label)
    record(t, "sub", [a, b], [out], _subtract_backward)
    return out


def _subtract_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = _only(gradients)
    return [gradient.handle(), _make(t, gradient.dims, gradient.dtype, "negative gradient")]


def group_mean(t: Tape, x: Tensor, rows: Dims) -> Tensor:
    """The mean of each group of the last dimensions; backward spreads it out again."""
    return _resized(t, "mean", x, _make(t, rows, x.dtype, "mean"))


def clamp(t: Tape, x: Tensor, label: str) -> Tensor:
    """Keeps its input; backward asks where it lies within the bounds."""
    out = _make(t, x.dims, x.dtype, label)
    record(t, "clamp", [x], [out], _clamp_backward, [x])
    return out


def _clamp_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    x = saved[0]
    above = _make(t, x.dims, "bool", "above the minimum")
    below = _make(t, x.dims, "bool", "below the maximum")
    out = _make(t, x.dims, _only(gradients).dtype, "gradient of clamp")
    del above, below
    return [out]


def contract(
    t: Tape, a: Tensor, b: Tensor, dims: Dims, label: str, *, copies_first: bool = True, copies_gradient: bool = True
) -> Tensor:
    """`torch.einsum` of two operands: copies of what is not laid out for `bmm`, and the product.

    `copies_gradient`: the product is a permuted view, whose gradient has to be brought back to its own order.
    """
    if t.autocast:
        # Autocast brings both operands down before either is laid out, and holds these copies through the call.
        a, b = ops.to(t, a, t.autocast), ops.to(t, b, t.autocast)
    left = ops.contiguous(t, a, label=f"{label}, first operand") if copies_first else a
    right = ops.contiguous(t, b, label=f"{label}, second operand")
    out = ops.matmul(t, ops.view(t, left), ops.view(t, right), dims, label)
    return reshape(t, out) if copies_gradient else ops.view(t, out)
