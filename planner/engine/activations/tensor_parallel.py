"""Tensor and sequence parallelism of PyTorch's DTensor, on one rank.

Layers divide their heads and feed-forward columns, which the dimensions say. What is told here is the sequence:
with sequence parallelism norms and residual sums see a rank's part of it, and whole layers in between see all of it.
Source: torch 2.13 `torch/distributed/tensor/parallel/style.py` (`SequenceParallel`, `ColwiseParallel`,
`RowwiseParallel`), and the transformers plan: embedding by rows, head by columns with replicated logits.
"""

from collections.abc import Sequence

from planner.engine.activations.autograd import Backward, Gradients, record
from planner.engine.activations.tape import Dims, Tape, Tensor

SOURCE = "torch 2.13, distributed/tensor/parallel/style.py"
PART = "sequence shard"


def gather(t: Tape, x: Tensor, *, sequence_parallel: bool) -> Tensor:
    """The whole sequence before a layer that divides its columns; its gradient is scattered again."""
    return _moved(t, x, "sequence", "gathered sequence") if sequence_parallel else x


def scatter(t: Tape, x: Tensor, *, sequence_parallel: bool) -> Tensor:
    """This rank's part of the sum over ranks that follows a layer divided by rows."""
    return _moved(t, x, PART, "scattered sum") if sequence_parallel else x


def _moved(t: Tape, x: Tensor, sequence: str, label: str) -> Tensor:
    dims: Dims = (x.dims[0], sequence, *x.dims[2:])
    with t.module("tensor parallel", SOURCE):
        out = t.new(dims, x.dtype, label)
        t.tick(label)
        record(t, label, [x], [out], _back(x.dims))
        return out


def _back(dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        out = t.new(dims, gradient.dtype, "gradient of a gathered or scattered sequence")
        t.tick("gathered or scattered sequence, backward")
        return [out]

    return backward


def whole_table(weight: Tensor) -> Tensor:
    """The token table as its gradient sees it: DTensor leaves the gradient of a row-wise embedding whole."""
    return Tensor(weight.storage, ("whole table rows", *weight.dims[1:]), weight.dtype, weight.node)
