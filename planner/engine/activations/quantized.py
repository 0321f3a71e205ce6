"""Products with a frozen weight that is held in 4 or 8 bits, as bitsandbytes runs them.

Source: bitsandbytes 0.44 to 0.49, `autograd/_functions.py: MatMul4Bit` (whose input is not kept since 0.43.2) and
`MatMul8bitLt`.
"""

from collections.abc import Sequence

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.tape import Dims, Tape, Tensor


def quantized_product(t: Tape, weight: Tensor, x: Tensor, inputs: Dims, outputs: Dims) -> Tensor:
    """The product, and in backward the gradient of its input alone: the weight is frozen."""
    tokens = x.dims[: len(x.dims) - len(inputs)]
    dtype = t.autocast or x.dtype
    x = ops.to(t, x, dtype, "input cast by autocast")
    make = _int8 if t.techniques.int8_base else _dequantized
    out = make(t, weight, x, (*tokens, *outputs), dtype)
    # The 8-bit product keeps its input as an attribute of the graph, though no gradient needs it.
    kept = [x] if t.techniques.int8_base else []

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        whole = t.new(weight.dims, dtype, "dequantized weight")
        t.tick("dequantized weight")
        gradient = t.new((*tokens, *inputs), dtype, "gradient of input")
        t.tick("gradient of input")
        del whole
        return [gradient]

    record(t, "product with a quantized weight", [x], [out], backward, kept)
    return out


def _dequantized(t: Tape, weight: Tensor, x: Tensor, dims: Dims, dtype: str) -> Tensor:
    """4 bits: the whole weight in 16 bits while the product runs."""
    whole = t.new(weight.dims, dtype, "dequantized weight")
    t.tick("dequantized weight")
    out = t.new(dims, dtype, "output")
    t.tick("output")
    del whole
    return out


def _int8(t: Tape, weight: Tensor, x: Tensor, dims: Dims, dtype: str) -> Tensor:
    """8 bits: the input in int8 (from an fp16 copy where it is bf16), and a result of whole numbers before its cast."""
    half = ops.to(t, x.handle(), "fp16", "input in fp16")
    rounded = t.new(x.dims, "int8", "input in int8")
    t.tick("input in int8")
    del half
    sums = t.new(dims, "int32", "sums in int32")
    t.tick("sums in int32")
    out = t.new(dims, dtype, "output")
    t.tick("output")
    del rounded, sums
    return out
