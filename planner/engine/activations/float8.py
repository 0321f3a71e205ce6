"""Linear layers whose matrix products run in float8, with the casts they make and what they keep.

Sources: torchao `float8/float8_linear.py: matmul_with_hp_or_float8_args` keeps input and weight as they were and casts
all operands again for each of the three products; TransformerEngine 2 `pytorch/module/linear.py` keeps the input and
the weight already cast (one byte, and for the weight its transpose too, which Hopper's kernels want).
"""

from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

TORCHAO = "torchao, float8/float8_linear.py: dynamic scaling, operands cast for each product"
TRANSFORMER_ENGINE = "TransformerEngine 2, pytorch/module/linear.py: cast input and weight are kept"


def float8_product(t: Tape, x: Tensor, weight: Tensor, bias: Tensor | None, dims: Dims, label: str) -> Tensor:
    """`x @ weight.T + bias` with float8 operands and a 16-bit result; the bias's gradient is the incoming one."""
    kept = t.techniques.fp8 == "transformer-engine"
    with t.module("float8", TRANSFORMER_ENGINE if kept else TORCHAO):
        x8 = t.new(x.dims, "fp8", "input in float8")
        w8 = t.new(weight.dims, "fp8", "weight in float8")
        copies = [x8, w8]
        if kept:
            copies.append(t.new(weight.dims, "fp8", "weight in float8, transposed"))
        dtype = x.dtype
        if t.frame is None:
            out = t.new(dims, dtype, label)
        else:
            # The policy of a checkpoint sees `mm` of a tensor subclass, before it becomes `_scaled_mm`.
            out = t.frame.once(t, "mm", lambda: (t.new(dims, dtype, label),))[0]
        t.tick(label)
        saved = copies if kept else [x, weight]
        del x8, w8, copies
        x_dims, weight_dims = x.dims, weight.dims

        def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
            gradient = gradients[0]
            assert gradient is not None
            found: Gradients = [None, None, *([gradient.handle()] if len(needs) > 2 else [])]
            for index, (needed, made, other) in enumerate(
                zip(needs[:2], (x_dims, weight_dims), (weight_dims, x_dims), strict=True)
            ):
                if needed:
                    operands = [t.new(gradient.dims, "fp8", "gradient in float8")]
                    if not kept:
                        operands.append(t.new(other, "fp8", "operand in float8"))
                    found[index] = t.new(made, dtype, "gradient of weight" if index else "gradient of input")
                    t.tick("float8 product backward")
                    del operands
            return found

        sources = [x, weight, *([bias] if bias is not None else [])]
        record(t, "float8 product", sources, [out], backward, saved)
        return out
