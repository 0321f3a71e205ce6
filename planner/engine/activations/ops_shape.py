"""Operators that only move data: splitting, slicing, joining, and views whose gradient has to be copied."""

from collections.abc import Sequence

from planner.engine.activations.autograd import Backward, Gradients, record
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor


def reshape(t: Tape, x: Tensor, *dims: Dim) -> Tensor:
    """A view whose gradient comes in another memory order and is therefore copied (`ViewBackward` calls `reshape`)."""
    out = x.handle(dims or None, view=True)

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        copy = t.new(x_dims, gradient.dtype, "gradient, contiguous")
        t.tick("gradient, contiguous")
        return [copy]

    x_dims = x.dims
    record(t, "view", [x], [out], backward)
    return out


def split(t: Tape, x: Tensor, *parts: Dims) -> list[Tensor]:
    """`split` or `chunk`: views of one memory; backward joins the gradients of all parts in one new tensor."""
    outs = [x.handle(dims, view=True) for dims in parts]
    record(t, "split", [x], outs, _whole(x.dims, "gradient of all parts"))
    return outs


def part(t: Tape, x: Tensor, *dims: Dim) -> Tensor:
    """A slice: a view; backward writes its gradient into zeros of the whole."""
    out = x.handle(dims, view=True)
    record(t, "slice", [x], [out], _whole(x.dims, "gradient of slice"))
    return out


def gathered(t: Tape, x: Tensor, *dims: Dim, label: str) -> Tensor:
    """A slice by a list of indices, which copies; backward adds its gradient into zeros of the whole."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    record(t, "index", [x], [out], _whole(x.dims, "gradient of indexed part"))
    return out


def _whole(dims: Dims, label: str) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        given = next(gradient for gradient in gradients if gradient is not None)
        out = t.new(dims, given.dtype, label)
        t.tick(label)
        return [out]

    return backward


def cat(t: Tape, parts: Sequence[Tensor], dims: Dims, label: str) -> Tensor:
    """`torch.cat`: one new tensor; each part's gradient is a view of the whole one."""
    out = t.new(dims, parts[0].dtype, label)
    t.tick(label)
    shapes = [one.dims for one in parts]

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(shape, view=True) if need else None for shape, need in zip(shapes, needs, strict=True)]

    record(t, "cat", list(parts), [out], backward)
    return out


def add_in_place(t: Tape, a: Tensor, b: Tensor, label: str = "sum, in place") -> Tensor:
    """`a += b`: no new memory; the gradient goes to both."""
    out = a.handle()

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle() if need else None for need in needs]

    t.tick(label)
    record(t, "add in place", [a, b], [out], backward)
    return out


def sum_of(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """Sum over all dimensions but `dims`; its gradient is spread out again without a copy."""
    out = t.new(dims, x.dtype, "sum")
    t.tick("sum")
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(whole, view=True)]

    record(t, "sum", [x], [out], backward)
    return out


def spread(t: Tape, x: Tensor, dims: Dims, *, copies: bool, label: str) -> Tensor:
    """`expand` to all heads; copied where a view cannot become a batch of matrices. Backward sums the heads."""
    if not copies:
        return reshape_free(t, x, dims)
    out = t.new(dims, x.dtype, label)
    t.tick(label)

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle()]

    record(t, "expand", [x], [out], backward)
    return out


def reshape_free(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """A view whose gradient passes through."""
    out = x.handle(dims, view=True)

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(view=True)]

    record(t, "expand", [x], [out], backward)
    return out
