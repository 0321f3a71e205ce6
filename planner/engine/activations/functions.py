"""Activation functions: those that are one operator, and those that transformers writes in Python.

Source: transformers 5.24, `activations.py`.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Tape, Tensor

ACTIVATIONS = "transformers 5.24, activations.py"


def activate(t: Tape, x: Tensor, name: str) -> Tensor:
    """`ACT2FN[name](x)`."""
    with t.module("act", ACTIVATIONS):
        if name == "gelu_new":
            return _gelu_new(t, x)
        if name == "quick_gelu":
            return ops.mul(t, x, saves_output(t, ops.elementwise(t, x, "1.702 x"), "sigmoid"), "x * sigmoid")
        if name == "relu2":
            return ops.square(t, ops.activation(t, x, "relu"))
        return ops.activation(t, x, name)


def _gelu_new(t: Tape, x: Tensor) -> Tensor:
    """`0.5 * x * (1 + tanh(c * (x + 0.044715 * x ** 3)))`: four tensors besides the input are kept.

    Autocast runs the power in fp32, and what is computed with it stays in fp32.
    """
    return ops.mul(
        t,
        ops.elementwise(t, x, "0.5 x"),
        ops.shift(
            t,
            saves_output(
                t,
                ops.elementwise(
                    t, ops.add(t, x, ops.elementwise(t, cube(t, x), "0.044715 x ** 3"), "inner sum"), "scaled sum"
                ),
                "tanh",
            ),
            "1 + tanh",
        ),
        "gelu_new",
    )


def saves_output(t: Tape, x: Tensor, name: str) -> Tensor:
    """An operator whose gradient is computed from its output (tanh, sigmoid)."""
    out = t.new(x.dims, x.dtype, name)
    t.tick(name)
    record(t, name, [x], [out], _from_output, [out])
    return out


def _from_output(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    out = saved[0]
    gradient = t.new(out.dims, out.dtype, "gradient of activation")
    t.tick("gradient of activation")
    return [gradient]


def cube(t: Tape, x: Tensor) -> Tensor:
    """`torch.pow(x, 3.0)`; its backward is that of the square."""
    if t.autocast:
        x = ops.to(t, x, "fp32", "input cast by autocast")
    return ops.square(t, x)


def drop_path(t: Tape, x: Tensor) -> Tensor:
    """`Dinov2DropPath.forward` in training: what is left of a batch, scaled up; a number per sample is kept."""
    with t.module("drop_path"):
        random = t.new((x.dims[0],), x.dtype, "samples kept")
        t.tick("samples kept")
        return ops.mul(t, ops.elementwise(t, x, "scaled up"), random, "samples kept of a batch")
