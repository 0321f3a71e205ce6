"""Linear layers whose matrix products run in float8, with the casts they make and what they keep.

Sources: torchao 0.18 `float8/float8_linear.py: matmul_with_hp_or_float8_args` keeps input and weight as they were and
casts all operands again for each of the three products, through two fp32 copies unless it is compiled
(`float8_training_tensor.py`). Transformer Engine 2 `pytorch/module/linear.py` makes each operand in float8
with its transpose, which Hopper's kernels want, and keeps the input's transpose and both of the weight; told which
micro-batch it is, as by Megatron Core, it keeps those of the weight from then on (`_fp8_workspaces`).
"""

from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

TORCHAO = "torchao, float8/float8_linear.py: dynamic scaling, operands cast for each product"
TRANSFORMER_ENGINE = "TransformerEngine 2, pytorch/module/linear.py: cast input and weight are kept"


def _cast(t: Tape, dims: Dims, label: str) -> Tensor:
    """A float8 copy: eager torchao scales a copy in fp32, and clamps that into another one."""
    if t.techniques.fp8 != "torchao":
        return t.new(dims, "fp8", label)
    copies = [t.new(dims, "fp32", f"{name} operand") for name in ("scaled", "clamped")]
    out = t.new(dims, "fp8", label)
    t.tick(label)
    del copies
    return out


def float8_product(t: Tape, x: Tensor, weight: Tensor, bias: Tensor | None, dims: Dims, label: str) -> Tensor:
    """`x @ weight.T + bias` with float8 operands and a 16-bit result; the bias's gradient is the incoming one."""
    kept = t.techniques.fp8.startswith("transformer-engine")
    with t.module("float8", TRANSFORMER_ENGINE if kept else TORCHAO):
        operands = [_cast(t, x.dims, "input in float8")]
        copies = [t.new(x.dims, "fp8", "input in float8, transposed")] if kept else []
        if t.techniques.fp8 == "transformer-engine":
            copies += [t.new(weight.dims, "fp8", f"weight in float8{how}") for how in ("", ", transposed")]
        elif not kept:
            operands.append(_cast(t, weight.dims, "weight in float8"))
        dtype = x.dtype
        if t.frame is None:
            out = t.new(dims, dtype, label)
        else:
            # The policy of a checkpoint sees `mm` of a tensor subclass, before it becomes `_scaled_mm`.
            out = t.frame.once(t, "mm", lambda: (t.new(dims, dtype, label),))[0]
        t.tick(label)
        saved = copies if kept else [x, weight]
        del operands, copies
        x_dims, weight_dims = x.dims, weight.dims

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            gradient = gradients[0]
            assert gradient is not None
            found: Gradients = [None, None, *([gradient.handle()] if len(needs) > 2 else [])]
            # Eager code holds the operands of the first product while it makes the second.
            held = []
            for index, (needed, made, other) in enumerate(
                zip(needs[:2], (x_dims, weight_dims), (weight_dims, x_dims), strict=True)
            ):
                if needed:
                    operands = [_cast(t, gradient.dims, "gradient in float8")]
                    if kept:
                        operands.append(t.new(gradient.dims, "fp8", "gradient in float8, transposed"))
                    else:
                        operands.append(_cast(t, other, "operand in float8"))
                    found[index] = t.new(made, dtype, "gradient of weight" if index else "gradient of input")
                    t.tick("float8 product backward")
                    held += operands if t.techniques.fp8 == "torchao" else []
                    del operands
            return found

        sources = [x, weight, *([bias] if bias is not None else [])]
        record(t, "float8 product", sources, [out], backward, saved)
        return out
