"""Operators on pairs of numbers and on slices that are copied: what rotary embedding in diffusers is made of."""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor


def unbind_pairs(t: Tape, x: Tensor, half: Dims) -> list[Tensor]:
    """`x.unbind(-1)` of pairs: two views; backward stacks both gradients in a new tensor."""
    outs = [x.handle(half, view=True) for _ in range(2)]
    whole = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        given = next(gradient for gradient in gradients if gradient is not None)
        stacked = t.new(whole, given.dtype, "gradient of both halves")
        t.tick("gradient of both halves")
        return [stacked]

    record(t, "unbind", [x], outs, backward)
    return outs


def stack_pairs(t: Tape, first: Tensor, second: Tensor, whole: Dims) -> Tensor:
    """`torch.stack`: one new tensor, whose gradient is handed on in views."""
    out = t.new(whole, first.dtype, "turned by a right angle")
    t.tick("turned by a right angle")
    shapes = (first.dims, second.dims)

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(dims, view=True) for dims in shapes]

    record(t, "stack", [first, second], [out], backward)
    return out


def apply_rotary(t: Tape, x: Tensor, cos: Tensor, sin: Tensor, half: Dims) -> Tensor:
    """`apply_rotary_emb` (diffusers 0.42, `models/embeddings.py`): pairs are turned in fp32."""
    with t.module("rotary", "diffusers 0.42, models/embeddings.py: apply_rotary_emb"):
        x_real, x_imag = unbind_pairs(t, x, half)
        x_rotated = stack_pairs(t, ops.elementwise(t, x_imag, "negative half"), x_real, x.dims)
        out = ops.add(
            t,
            ops.mul(t, ops.to(t, x, "fp32", "x in fp32"), cos, "x cos"),
            ops.mul(t, ops.to(t, x_rotated, "fp32", "turned x in fp32"), sin, "turned x sin"),
            "rotated",
        )
        return ops.to(t, out, x.dtype, "rotated, cast back")
