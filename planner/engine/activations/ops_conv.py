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
