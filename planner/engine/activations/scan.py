"""The Mamba 2 scan in plain PyTorch, as transformers runs it where the `mamba_ssm` kernels are not installed.

Source: transformers 5.24, `models/mamba2/modeling_mamba2.py: mamba2_chunk_scan`, `segment_sum`; checked operator by
operator against a run of it.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.functions import saves_output
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_scan import (
    clamp,
    contract,
    cumulative_sum,
    lower_triangle,
    masked_fill,
    pad,
    softplus,
    subtract,
)
from planner.engine.activations.ops_shape import cat, part, reshape
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor

SCAN = "transformers 5.24, models/mamba2/modeling_mamba2.py: mamba2_chunk_scan"


@dataclass(frozen=True, slots=True)
class ScanDims:
    """Names of the dimensions of one scan."""

    heads: str
    head: str
    state: str
    chunk: str
    chunks: str = "chunks"
    further_chunks: str = "chunks and the start"

    @property
    def padded(self) -> Dims:
        return ("batch", self.chunks, self.chunk)


def discretised_step(t: Tape, dt: Tensor, bias: Tensor) -> Tensor:
    """`clamp(softplus(dt + bias))`."""
    dt = ops.add(t, dt, ops.to(t, bias, dt.dtype), "dt with bias")
    dt = softplus(t, dt)
    return clamp(t, dt, "dt")


def chunk_scan(
    t: Tape,
    dims: ScanDims,
    hidden_states: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    dt_bias: Tensor,
    *,
    cuts_padding: bool,
) -> tuple[Tensor, Tensor]:
    """Outputs (batch, sequence, heads, head dim) and the last states; the names live as long as in the original."""
    with t.module("scan", SCAN):
        heads, head, state = dims.heads, dims.head, dims.state
        dt = discretised_step(t, dt, dt_bias)
        hidden_states = ops.to(t, hidden_states, "fp32", "hidden states in fp32")
        per_head: Dims = (*b.dims[:2], heads, state)
        b = ops.repeat(t, ops.to(t, b, "fp32", "B in fp32"), per_head, "B repeated to all heads")
        c = ops.repeat(t, ops.to(t, c, "fp32", "C in fp32"), per_head, "C repeated to all heads")
        blocks: Dims = (*dims.padded, heads, head)
        padded = pad(t, hidden_states, blocks, "padded hidden states")
        residual = ops.mul(t, ops.view(t, d), padded, "D residual")
        del padded
        # Each use of dt casts it anew.
        wide_dt = ops.view(t, ops.to(t, dt, "fp32", "dt in fp32"), *dt.dims, 1)
        hidden_states = ops.mul(t, hidden_states, wide_dt, "discretised hidden states")
        del wide_dt
        a = ops.mul(t, a, ops.to(t, dt, "fp32", "dt in fp32"), "discretised A")
        hidden_chunks = reshape(t, pad(t, hidden_states, blocks, "chunks of hidden states"))
        a_chunks = pad(t, a, (*dims.padded, heads), "chunks of A")
        b_chunks = reshape(t, pad(t, b, (*dims.padded, heads, state), "chunks of B"))
        c_chunks = reshape(t, pad(t, c, (*dims.padded, heads, state), "chunks of C"))
        del hidden_states, a, b, c
        a_chunks = ops.view(t, a_chunks, "batch", heads, dims.chunks, dims.chunk)
        a_sum = cumulative_sum(t, a_chunks)
        decays = _exponential(t, _segment_sum(t, a_chunks, dims.chunk), "decays within chunks")
        scores: Dims = ("batch", dims.chunks, heads, dims.chunk, dims.chunk)
        g = contract(t, c_chunks, b_chunks, scores, "C B", copies_gradient=False)
        m = ops.mul(t, g, ops.view(t, decays), "C B, decayed")
        within = contract(t, m, hidden_chunks, blocks, "outputs within chunks", copies_first=False)
        one: Dims = ("batch", heads, dims.chunks, 1)
        differences = subtract(t, part(t, a_sum, *one), a_sum, "decay to the end of the chunk")
        to_end = _exponential(t, differences, "decay of states")
        del differences
        b_decay = ops.mul(t, b_chunks, ops.view(t, to_end, *to_end.dims, 1), "B, decayed")
        shape: Dims = (heads, head, state)
        states = contract(t, hidden_chunks, b_decay, ("batch", dims.chunks, *shape), "states of chunks")
        with t.no_grad():
            start = t.new(("batch", 1, *shape), states.dtype, "state before the first chunk")
            t.tick("state before the first chunk")
        states = cat(t, [start, states], ("batch", dims.further_chunks, *shape), "states with the start")
        last = pad(t, part(t, a_sum, *one[:3]), ("batch", heads, dims.further_chunks), "decay of whole chunks")
        between = _segment_sum(t, last, dims.further_chunks)
        del last
        decay_chunk = _exponential(t, between, "decay between chunks")
        del between
        states = contract(t, decay_chunk, states, states.dims, "states at chunk starts", copies_first=False)
        all_states = states
        states = part(t, all_states, "batch", dims.chunks, *shape)
        out_decay = _exponential(t, a_sum, "decay of outputs")
        between_chunks = contract(t, c_chunks, states, blocks, "C times states")
        across = ops.mul(t, between_chunks, ops.view(t, out_decay, *out_decay.dims, 1), "outputs across chunks")
        output = ops.contiguous(t, ops.add(t, within, across, "outputs of chunks"), label="outputs, contiguous")
        output = ops.add(t, output, residual, "outputs with D residual")
        whole: Dims = ("batch", "sequence", heads, head)
        output = part(t, output, *whole) if cuts_padding else _renamed(t, output, whole)
        del start, residual
        return output, all_states


def _renamed(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """A view of as many elements under other names, as its gradient is of `x`'s."""
    out = x.handle(dims, view=True)

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.handle(own, view=True)]

    own = x.dims
    record(t, "view", [x], [out], backward)
    return out


def _segment_sum(t: Tape, x: Tensor, size: Dim) -> Tensor:
    """`segment_sum`: cumulative sums of every start, masked above the diagonal."""
    dims = (*x.dims, size)
    mask, negative = lower_triangle(t, size)
    expanded = masked_fill(t, ops.view(t, x, *x.dims, 1), negative, dims, "A, expanded and masked")
    del negative
    sums = cumulative_sum(t, expanded)
    mask, negative = lower_triangle(t, size)
    sums = masked_fill(t, sums, negative, dims, "segment sums")
    del mask, expanded
    return sums


def _exponential(t: Tape, x: Tensor, label: str) -> Tensor:
    return saves_output(t, x, label)
