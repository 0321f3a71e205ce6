"""PyTorch's operators that route tokens to experts and multiply them with the experts' matrices.

Source: torch 2.13, `tools/autograd/derivatives.yaml` and `torch/csrc/autograd/FunctionsManual.cpp`.
"""

from planner.engine.activations.autograd import Backward, Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor


def _only(gradients: Gradients) -> Tensor:
    gradient = gradients[0]
    assert gradient is not None
    return gradient


def top_k(t: Tape, x: Tensor, chosen: Dim) -> tuple[Tensor, Tensor]:
    """The largest of the last dimension and where they stand, of which the places are kept."""
    dims = (*x.dims[:-1], chosen)
    values = t.new(dims, x.dtype, "chosen scores")
    places = t.new(dims, "int64", "chosen experts")
    t.tick("top-k")
    record(t, "topk", [x], [values], _scattered(x.dims), [places])
    return values, places


def gather(t: Tape, x: Tensor, places: Tensor, label: str) -> Tensor:
    """The entries of the last dimension at `places`."""
    out = t.new(places.dims, x.dtype, label)
    t.tick("gather")
    record(t, "gather", [x], [out], _scattered(x.dims), [places])
    return out


def rows(t: Tape, x: Tensor, places: Tensor, dims: Dims, label: str) -> Tensor:
    """`x[places]`: copies of rows; backward adds their gradients into zeros of the whole."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    record(t, "index", [x], [out], _scattered(x.dims), [places])
    return out


def _scattered(dims: Dims) -> Backward:
    """Zeros of the input's shape, filled in place."""

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        out = t.new(dims, _only(gradients).dtype, "gradient scattered into zeros")
        t.tick("gradient scattered into zeros")
        return [out]

    return backward


def normalise_in_place(t: Tape, x: Tensor) -> Tensor:
    """`x /= x.sum(dim=-1, keepdim=True)`: the divisor is kept, and a copy of what is overwritten."""
    total = _total(t, x)
    copy = t.new(x.dims, x.dtype, "scores before division")
    t.tick("copy of what is overwritten")
    out = x.handle()
    t.tick("division in place")
    record(t, "div_", [x, total], [out], _divide_backward, [copy, total])
    return out


def _total(t: Tape, x: Tensor) -> Tensor:
    out = t.new((*x.dims[:-1], 1), x.dtype, "sum of scores")
    t.tick("sum of scores")
    record(t, "sum", [x], [out], _expanded(x.dims))
    return out


def _expanded(dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_only(gradients).handle(dims, view=True)]

    return backward


def _divide_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    """`grad / other` for the dividend; `-grad * ((self / other) / other)` for the divisor."""
    gradient = _only(gradients)
    first = t.new(gradient.dims, gradient.dtype, "gradient of quotient")
    t.tick("gradient of quotient")
    negative = t.new(gradient.dims, gradient.dtype, "negative gradient")
    t.tick("negative gradient")
    quotient = t.new(gradient.dims, gradient.dtype, "quotient")
    t.tick("quotient")
    again = t.new(gradient.dims, gradient.dtype, "quotient, divided again")
    t.tick("quotient, divided again")
    del quotient
    second = t.new(gradient.dims, gradient.dtype, "gradient of divisor")
    t.tick("gradient of divisor")
    del negative, again
    return [first, second]


def sum_experts(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """Sum over the visited experts; backward copies the gradient to each of them."""
    out = t.new(dims, x.dtype, "sum over experts")
    t.tick("sum over experts")
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        spread = t.new(whole, _only(gradients).dtype, "gradient of each expert")
        t.tick("gradient of each expert")
        return [spread]

    record(t, "sum", [x], [out], backward)
    return out


def sum_all(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """Sum over the experts, which come first; its gradient is spread out again without a copy."""
    out = t.new(dims, x.dtype, "sum over experts")
    t.tick("sum over experts")
    record(t, "sum", [x], [out], _expanded(x.dims))
    return out


def scatter(t: Tape, x: Tensor, places: Tensor, dims: Dims, label: str) -> Tensor:
    """`x` written at `places` of a constant (`full_like(...).scatter_`); backward gathers what was written."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    shape = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gathered = t.new(shape, _only(gradients).dtype, "gradient, gathered")
        t.tick("gradient, gathered")
        return [gathered]

    record(t, "scatter", [x], [out], backward, [places])
    return out


def grouped_mm(t: Tape, x: Tensor, weight: Tensor, offsets: Tensor, dims: Dims, label: str) -> Tensor:
    """Rows sorted by expert times that expert's matrix; the gradient of all experts' matrices is dense."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    keep = ([x] if weight.requires_grad else []) + ([weight] if x.requires_grad else []) + [offsets]
    record(t, "grouped_mm", [x, weight], [out], _products(x.dims, weight.dims), keep)
    return out


def batched_mv(t: Tape, x: Tensor, matrices: Tensor, dims: Dims, label: str) -> Tensor:
    """Every row times a matrix of its own (`bmm`)."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    keep = ([x] if matrices.requires_grad else []) + ([matrices] if x.requires_grad else [])
    record(t, "bmm", [x, matrices], [out], _products(x.dims, matrices.dims), keep)
    return out


def _products(x_dims: Dims, weight_dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made: Gradients = []
        for dims, need, name in zip((x_dims, weight_dims), needs, ("rows", "experts"), strict=True):
            made.append(t.new(dims, _only(gradients).dtype, f"gradient of {name}") if need else None)
            if need:
                t.tick(f"gradient of {name}")
        return made

    return backward


def add_in_place(t: Tape, x: Tensor, bias: Tensor) -> Tensor:
    """`x.add_(bias)`: both gradients are the incoming one."""
    out = x.handle()
    t.tick("bias added in place")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_only(gradients).handle() if need else None for need in needs]

    record(t, "add_", [x, bias], [out], backward)
    return out
