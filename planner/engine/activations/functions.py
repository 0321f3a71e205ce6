"""Activation functions: those that are one operator, and those that transformers writes in Python.

Source: transformers 5.24, `activations.py`.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Tape, Tensor

ACTIVATIONS = "transformers 5.24, activations.py"


def activate(t: Tape, x: Tensor, name: str, *, trained: bool = True) -> Tensor:
    """`ACT2FN[name](x)`; `trained`: whether the function's own parameters, where it has any, are trained."""
    with t.module("act", ACTIVATIONS):
        if name == "gelu_new":
            return _gelu_new(t, x)
        if name == "quick_gelu":
            return ops.mul(t, x, saves_output(t, ops.elementwise(t, x, "1.702 x"), "sigmoid"), "x * sigmoid")
        if name == "xielu":
            return _xielu(t, x, trained)
        if name == "relu2":
            return _wide_square(t, ops.activation(t, x, "relu"))
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


def _xielu(t: Tape, x: Tensor, trained: bool) -> Tensor:
    """`XIELUActivation._xielu_python` (arXiv:2411.13010): two curves and a mask, each with a factor of its own.

    A factor that adapters leave frozen needs no gradient, so the curve it multiplies is not kept.
    """
    rising, falling = (t.parameter((1,), "fp32" if t.autocast else x.dtype, trainable=trained) for _ in range(2))
    with t.no_grad():
        mask = t.new(x.dims, "bool", "x > 0")
        t.tick("x > 0")
    linear = ops.elementwise(t, x, "beta x")
    above = ops.add(t, ops.mul(t, ops.mul(t, rising, x, "alpha x"), x, "alpha x ** 2"), linear, "curve above zero")
    del linear
    bent = ops.add(t, _expm1(t, ops.activation(t, x, "min")), x, "expm1 less x")
    curve = ops.mul(t, bent, falling, "bent curve")
    del bent
    below = ops.add(t, curve, ops.elementwise(t, x, "beta x"), "curve below zero")
    del curve
    return _where(t, mask, above, below)


def _expm1(t: Tape, smallest: Tensor) -> Tensor:
    """Autocast runs it in fp32, beside what it is given."""
    wide = ops.to(t, smallest, "fp32", "input cast by autocast") if t.autocast else smallest
    return saves_output(t, wide, "expm1")


def _where(t: Tape, mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    out = t.new(one.dims, one.dtype, "xielu")
    t.tick("xielu")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        made: Gradients = []
        for _ in range(2):
            made.append(t.new(saved[0].dims, one_dtype, "gradient of one curve"))
            t.tick("gradient of one curve")
        return made

    one_dtype = one.dtype
    record(t, "where", [one, other], [out], backward, [mask])
    return out


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
    return _wide_square(t, x)


def _wide_square(t: Tape, x: Tensor) -> Tensor:
    """A power, which autocast computes in fp32, beside what it is given."""
    return ops.square(t, ops.to(t, x, "fp32", "input cast by autocast") if t.autocast else x)


def drop_path(t: Tape, x: Tensor) -> Tensor:
    """`Dinov2DropPath.forward` in training: what is left of a batch, scaled up; a number per sample is kept."""
    with t.module("drop_path"):
        random = t.new((x.dims[0],), x.dtype, "samples kept")
        t.tick("samples kept")
        return ops.mul(t, ops.elementwise(t, x, "scaled up"), random, "samples kept of a batch")
