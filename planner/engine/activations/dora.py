"""DoRA: an adapter whose sum with the frozen weight has a trained length per output.

Source: peft 0.21, `tuners/lora/dora.py: DoraLinearLayer.forward` and `variants.py: DoraLinearVariant.forward`.
"""

from planner.engine.activations import ops
from planner.engine.activations.tape import Dims, Tape, Tensor

PEFT_DORA = "peft 0.21, tuners/lora/dora.py: DoraLinearLayer.forward"


def decomposed(
    t: Tape, adapter: tuple[Tensor, Tensor], magnitude: Tensor, x: Tensor, result: Tensor, inputs: Dims, outputs: Dims,
    *, dropout: bool,
) -> Tensor:  # fmt: skip
    """`result` plus what DoRA adds. `x` is the input in the adapter's dtype.

    The adapter's whole product is made from an identity matrix to take its norms, and stays beside the weight's copy in
    the adapter's dtype until the layer is done. With dropout the frozen product is run again on the dropped input.
    """
    a, b = adapter
    tokens = x.dims[: len(x.dims) - len(inputs)]
    with t.module("dora", PEFT_DORA):
        with t.no_grad():
            held = [
                t.new((*inputs, *inputs), a.dtype, "identity matrix"),
                t.new((*inputs, "rank"), a.dtype, "lora_A of the identity"),
                t.new((*inputs, *outputs), a.dtype, "adapter's whole product"),
                t.new((*outputs, *inputs), a.dtype, "frozen weight in the adapter's dtype"),
            ]
            sums = [t.new((*outputs, *inputs), a.dtype, f"{name} weight") for name in ("scaled", "adapted")]
            t.tick("norms of the adapted weight")
            del sums
        scale = ops.elementwise(t, magnitude, "length over norm")
        dropped = ops.dropout(t, x) if dropout else x
        low = ops.matmul(t, ops.view(t, dropped), ops.view(t, a), (*tokens, "rank"), "lora_A output")
        high = ops.matmul(t, low, ops.view(t, b), (*tokens, *outputs), "lora_B output")
        base = _again(t, dropped, a.dtype, (*tokens, *outputs)) if dropout else result
        first = ops.mul(t, base, ops.shift(t, scale, "length over norm, less one"), "scaled base")
        second = ops.elementwise(t, ops.mul(t, high, scale, "scaled adapter"), "adapter output times its factor")
        added = ops.add(t, first, second, "DoRA output")
        del first, second, held
        return ops.add(t, result, added, "base plus DoRA")


def _again(t: Tape, x: Tensor, dtype: str, dims: Dims) -> Tensor:
    """The frozen product on the dropped input; the weight needs no gradient, so its input is not kept."""
    out = t.new(dims, dtype, "base output of the dropped input")
    t.tick("base output of the dropped input")
    ops.linked(t, x, out)
    return out
