"""Convolutions and what stands between them: pooling, batch norm.

Source: torch 2.13, `tools/autograd/derivatives.yaml` (`convolution`, `cudnn_batch_norm`, `max_pool2d_with_indices`).
Workspaces of cuDNN's algorithms are not counted.
"""

from collections.abc import Sequence

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import cast_weight
from planner.engine.activations.tape import Dims, Tape, Tensor


def convolution(t: Tape, x: Tensor, weight: Tensor, bias: Tensor | None, dims: Dims, name: str) -> Tensor:
    """`F.conv1d`, `F.conv2d`: input and weight are kept, and backward makes all gradients in one call."""
    with t.module(name):
        if t.autocast:
            x = ops.to(t, x, t.autocast, "input cast by autocast")
            weight = cast_weight(t, weight)
            bias = cast_weight(t, bias) if bias is not None else None
        out = t.new(dims, x.dtype, "output")
        t.tick("convolution")
        sources = [x, weight] if bias is None else [x, weight, bias]
        shapes = [source.dims for source in sources]

        def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
            gradient = gradients[0]
            assert gradient is not None
            made: Gradients = [
                t.new(shape, gradient.dtype, "gradient of weight" if index else "gradient of input") if need else None
                for index, (shape, need) in enumerate(zip(shapes, needs, strict=True))
            ]
            t.tick("convolution backward")
            return made

        record(t, "convolution", sources, [out], backward, [x, weight])
        return out


def batch_norm(t: Tape, x: Tensor, weight: Tensor, bias: Tensor, *, training: bool) -> Tensor:
    """`F.batch_norm`: keeps its input and, in training, mean and deviation of every channel."""
    out = t.new(x.dims, x.dtype, "output")
    statistics = [t.new(weight.dims, "fp32", name) for name in ("mean", "deviation")] if training else []
    t.tick("batch norm")
    sources = (x, weight, bias)

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        kept = [saved[0], saved[1], saved[1]]
        made: Gradients = [
            t.new(source.dims, source.dtype, "gradient of weight" if index else "gradient of input") if need else None
            for index, (source, need) in enumerate(zip(kept, needs, strict=True))
        ]
        t.tick("batch norm backward")
        return made

    record(t, "batch norm", sources, [out], backward, [x, weight, *statistics])
    return out


def add_in_place(t: Tape, x: Tensor, other: Tensor) -> Tensor:
    """`x += other`, for an `x` that no operator keeps."""
    out = x.handle()
    t.tick("sum, in place")
    record(t, "add_", [x, other], [out], ops.pass_on)
    return out


def max_pool(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """`F.max_pool2d`: keeps its input and the place of every maximum."""
    out = t.new(dims, x.dtype, "output")
    places = t.new(dims, "int64", "places of the maxima")
    t.tick("max pool")
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = t.new(whole, saved[0].dtype, "gradient of input")
        t.tick("max pool backward")
        return [gradient]

    record(t, "max pool", [x], [out], backward, [x, places])
    return out


def group_norm(t: Tape, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`F.group_norm`, in fp32 under autocast: keeps its input and the mean and deviation of every group."""
    if t.autocast:
        x = ops.to(t, x, "fp32", "input cast by autocast")
    out = t.new(x.dims, x.dtype, "output")
    statistics = [t.new((x.dims[0], "norm groups"), x.dtype, name) for name in ("mean", "reciprocal deviation")]
    t.tick("group norm")
    sources = (x, weight, bias)

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        kept = [saved[0], saved[1], saved[1]]
        made: Gradients = [
            t.new(source.dims, source.dtype, "gradient of weight" if index else "gradient of input") if need else None
            for index, (source, need) in enumerate(zip(kept, needs, strict=True))
        ]
        t.tick("group norm backward")
        return made

    record(t, "group norm", sources, [out], backward, [x, weight, *statistics])
    return out


def resized(t: Tape, x: Tensor, dims: Dims, label: str) -> Tensor:
    """`F.interpolate` to the nearest pixel, or `F.pad`: nothing is kept, the gradient has the input's own size."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        given = gradients[0]
        assert given is not None
        gradient = t.new(whole, given.dtype, "gradient of input")
        t.tick(f"{label} backward")
        return [gradient]

    record(t, label, [x], [out], backward)
    return out
