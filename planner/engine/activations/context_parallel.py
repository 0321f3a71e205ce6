"""Attention of a rank that holds a part of each sequence: what it must see of the other parts.

Ring: keys and values of all ranks are together while one layer's attention runs (Transformer Engine
`attention/dot_product_attention/context_parallel.py: AttnFuncWithCPAndKVP2P` keeps each block that went round; torch
2.13 `distributed/tensor/experimental/_attention.py` gathers them). Ulysses: an all-to-all before and after attention
trades tokens for heads, each into a new tensor (DeepSpeed `sequence/layer.py: DistributedAttention`).
"""

from collections.abc import Callable

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Tape, Tensor

Run = Callable[[Tensor, Tensor, Tensor], Tensor]


def over_context(t: Tape, run: Run, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`run` with what the mode of context parallelism puts around it."""
    if t.techniques.context == "ring":
        return _ring(t, run, query, key, value)
    if t.techniques.context == "ulysses":
        query, key, value = (
            ops.elementwise(t, x, f"{name} of all tokens") for x, name in ((query, "q"), (key, "k"), (value, "v"))
        )
        return ops.elementwise(t, run(query, key, value), "output of all heads")
    return run(query, key, value)


def _ring(t: Tape, run: Run, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    dims, dtype = ("context ranks", 2, *key.dims), key.dtype
    held: list[Tensor] = []

    def gather(t: Tape) -> None:
        held.append(t.new(dims, dtype, "keys and values of all context ranks"))
        t.tick("keys and values of all context ranks")

    gather(t)
    output = run(query, _through(t, key, lambda _t: held.clear()), value)
    held.clear()
    return _through(t, output, gather)


def _through(t: Tape, x: Tensor, then: Callable[[Tape], None]) -> Tensor:
    """`x` itself; its gradient passes by and `then` happens."""

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        then(t)
        gradient = gradients[0]
        return [None if gradient is None else gradient.handle(view=gradient.is_view)]

    out = x.handle(view=x.is_view)
    record(t, "context parallel", [x], [out], backward)
    return out
