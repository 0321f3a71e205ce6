"""DoRA: an adapter whose sum with the frozen weight has a trained length per output.

Source: peft 0.21, `tuners/lora/dora.py: DoraLinearLayer.forward` and `variants.py: DoraLinearVariant.forward`.
"""

from typing import Protocol

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

PEFT_DORA = "peft 0.21, tuners/lora/dora.py: DoraLinearLayer.forward"


class Product(Protocol):
    """`F.linear`, with the casts of autocast."""

    def __call__(
        self, t: Tape, weight: Tensor, bias: Tensor | None, x: Tensor, inputs: Dims, outputs: Dims, label: str = ...
    ) -> Tensor: ...


def decomposed(
    t: Tape,
    product: Product,
    weight: Tensor,
    adapter: tuple[Tensor, Tensor],
    magnitude: Tensor,
    x: Tensor,
    result: Tensor,
    inputs: Dims,
    outputs: Dims,
    *,
    dropout: bool,
    biased: bool,
) -> Tensor:
    """`result` plus what DoRA adds. `x` is the input in the adapter's dtype.

    The adapter's whole product is made from an identity matrix to take its norms, and stays beside the weight's copy in
    the input's dtype until the layer is done. With dropout the frozen product is run again on the dropped input, which
    keeps that copy for backward.
    """
    with t.module("dora", PEFT_DORA):
        x = ops.dropout(t, x) if dropout else x
        base = None if dropout else result
        added = _added(t, product, weight, adapter, magnitude, x, base, inputs, outputs, biased=biased)
        return ops.add(t, result, added, "base plus DoRA")


def _added(
    t: Tape, product: Product, weight: Tensor, adapter: tuple[Tensor, Tensor], magnitude: Tensor, x: Tensor,
    base: Tensor | None, inputs: Dims, outputs: Dims, *, biased: bool,
) -> Tensor:  # fmt: skip
    a, b = adapter
    whole, graph = _whole_product(t, product, a, b, inputs, outputs)
    whole = ops.to(t, whole, x.dtype, "adapter's whole product in the input's dtype")
    frozen = weight
    if weight.dtype != x.dtype:
        frozen = t.new(weight.dims, x.dtype, "frozen weight in the input's dtype")
        t.tick("frozen weight in the input's dtype")
    scale = _over_norms(t, magnitude, _norms(t, (*outputs, *inputs), outputs, x.dtype))
    low = product(t, a, None, x, inputs, ("rank",), "lora_A output")
    high = product(t, b, None, low, ("rank",), outputs, "lora_B output")
    del low
    if base is None:
        base = product(t, frozen, None, x, inputs, outputs, "base output of the dropped input")
    elif biased:
        base = ops.shift(t, base, "base output without its bias")
    first = ops.mul(t, base, ops.shift(t, scale, "length over norm, less one"), "scaled base")
    second = ops.mul(t, high, scale, "scaled adapter")
    second = ops.elementwise(t, second, "adapter output times its factor")
    added = ops.add(t, first, second, "DoRA output")
    del whole, graph
    return added


def _whole_product(
    t: Tape, product: Product, a: Tensor, b: Tensor, inputs: Dims, outputs: Dims
) -> tuple[Tensor, list[Tensor]]:
    """The adapter's product with an identity matrix, and what its graph holds.

    Only a detached product is used, so nothing of it is needed in backward. A checkpointed forward saves nothing.
    """
    with t.no_grad():
        identity = t.new((*inputs, *inputs), a.dtype, "identity matrix")
        t.tick("identity matrix")
        operand = ops.to(t, identity, t.autocast, "identity cast by autocast") if t.autocast else identity
        low = product(t, a, None, operand, inputs, ("rank",), "lora_A of the identity")
        whole = product(t, b, None, low, ("rank",), outputs, "adapter's whole product")
    saves = t.grad_enabled and (t.frame is None or t.frame.is_recomputing)
    return whole, [operand, low] if saves else []


def _norms(t: Tape, weight: Dims, outputs: Dims, dtype: str) -> Tensor:
    """Norms of the frozen weight plus the adapter's product, outside the graph."""
    with t.no_grad():
        scaled = t.new(weight, dtype, "scaled product")
        t.tick("scaled product")
        total = t.new(weight, dtype, "adapted weight")
        t.tick("adapted weight")
        del scaled
        norms = t.new(outputs, dtype, "norms of the adapted weight")
        t.tick("norms of the adapted weight")
        del total
        return norms


def _over_norms(t: Tape, magnitude: Tensor, norms: Tensor) -> Tensor:
    dtype = magnitude.dtype
    out = t.new(magnitude.dims, dtype, "length over norm")
    t.tick("length over norm")
    record(t, "div", [magnitude], [out], _over_norms_backward, [norms])
    return out


def _over_norms_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    made = t.new(saved[0].dims, saved[0].dtype, "gradient of the length")
    t.tick("gradient of the length")
    return [made]
