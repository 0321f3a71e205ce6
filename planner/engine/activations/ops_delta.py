"""PyTorch's operators behind a chunked delta rule: sums, triangular systems, and the walk from chunk to chunk.

Source: torch 2.13, `tools/autograd/derivatives.yaml` and `torch/csrc/autograd/FunctionsManual.cpp:
linalg_solve_triangular_backward`; `CopySlices::apply` in `torch/csrc/autograd/functions/tensor.cpp`.
"""

from dataclasses import dataclass

from planner.engine.activations.autograd import Gradients, keeps_now, record
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.tape import Dims, Tape, Tensor

READ = ("new values", "keys that read", "queries", "scores", "keys that write", "decays")
"""What a walk over chunks reads."""


def _make(t: Tape, dims: Dims, dtype: str, label: str) -> Tensor:
    out = t.new(dims, dtype, label)
    t.tick(label)
    return out


def total(t: Tape, x: Tensor, label: str) -> Tensor:
    """Sum over the last dimension, kept as 1; its gradient is spread out again without a copy."""
    out = _make(t, (*x.dims[:-1], 1), x.dtype, label)
    dims = x.dims

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(dims, view=True)]

    record(t, "sum", [x], [out], backward)
    return out


def solve_triangular(t: Tape, system: Tensor, right: Tensor, label: str) -> Tensor:
    """`linalg.solve_triangular`: keeps the system and the solution.

    Backward solves the transposed system, and cuts minus the product with the solution to its triangle.
    """
    out = _make(t, right.dims, right.dtype, label)

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        of_right = _make(t, dims, gradient.dtype, "gradient of right side")
        of_system: Tensor | None = None
        if needs[0]:
            product = _make(t, system_dims, gradient.dtype, "gradient times solution")
            negative = _make(t, system_dims, gradient.dtype, "negative product")
            del product
            of_system = _make(t, system_dims, gradient.dtype, "gradient of system")
            del negative
        return [of_system, of_right]

    system_dims, dims = system.dims, right.dims
    record(t, "solve_triangular", [system, right], [out], backward, [system, out])
    return out


def differences(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """Every entry of the last dimension less every other one."""
    out = _make(t, dims, x.dtype, "differences of all pairs")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(), _make(t, dims, gradient.dtype, "negative gradient")]

    record(t, "sub", [x, x], [out], backward)
    return out


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk over the chunks of a sequence reads, and the shapes that it makes."""

    values: Tensor
    keys_read: Tensor
    queries: Tensor
    scores: Tensor
    keys: Tensor
    decays: Tensor
    state: Dims
    """Of one chunk."""
    chunks: str
    output: Dims

    def inputs(self) -> list[Tensor]:
        return [self.values, self.keys_read, self.queries, self.scores, self.keys, self.decays]


def _kept(t: Tape, over: Walk) -> list[Tensor]:
    """What the products and sums of all chunks keep; autocast makes 16-bit copies of each product's operands."""
    states: Dims = (*over.state, f"further {over.chunks}")
    before = t.new(states, "fp32", "states at chunk starts")
    if not t.autocast:
        return [*over.inputs()[1:], before, t.new(over.output, "fp32", "corrected values")]
    # Nothing is learned of the first state, which is zeros, nor of the last one, which nobody reads.
    copies = [
        *((_but_one(over, each.dims), name) for each, name in zip(over.inputs(), READ, strict=True) if "keys" in name),
        (_but_one(over, over.queries.dims), "queries"),
        (over.scores.dims, "scores"),
        ((*over.state, over.chunks), "states that keys read"),
        ((*over.state, over.chunks), "states that queries read"),
        (over.output, "corrected values"),
        (_but_one(over, over.output), "corrected values that are written"),
    ]
    return [over.decays, before, *(t.new(dims, t.autocast, f"{name} in 16 bits") for dims, name in copies)]


def _but_one(over: Walk, dims: Dims) -> Dims:
    return tuple(f"further {over.chunks}" if dim == over.chunks else dim for dim in dims)


def walk(t: Tape, over: Walk, out: Tensor, start: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The state from chunk to chunk, told as one operator: writes the outputs of all chunks into `out`.

    Every chunk keeps its state and its corrected values. Backward cuts the gradient of each chunk out of a copy of the
    whole, and adds what each chunk reads into zeros of the whole. Returns the outputs, the last
    state, and what the last chunk leaves in names.
    """
    chunk: Dims = (*over.state[:2], over.output[-2], over.state[-1])
    sources = over.inputs()
    kept = [start, *(_kept(t, over) if keeps_now(t, *sources) else ())]
    corrected = t.new(chunk, "fp32", "corrected values of one chunk")
    across = t.new(chunk, "fp32", "output across chunks")
    within = t.new(chunk, "fp32", "output within a chunk")
    both = t.new(chunk, "fp32", "output of a chunk")
    t.tick("output of a chunk")
    del within, both
    last = _make(t, over.state, "fp32", "last state")
    written = out.handle()

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        whole = _make(t, output, "fp32", "gradient of outputs, one chunk cut out")
        made = [t.new(dims, "fp32", f"gradient of {name}") for dims, name in read]
        t.tick("gradients of what chunks read")
        again = _make(t, scores, "fp32", "gradient of a chunk's scores, in zeros of the whole")
        del whole, again
        return [gradient if need else None for gradient, need in zip(made, needs, strict=True)]

    read = [(source.dims, name) for source, name in zip(sources, READ, strict=True)]
    output, scores = over.output, over.scores.dims
    record(t, "walk", sources, [written], backward, kept)
    return written, last, [across, corrected]
