"""Swin's blocks: attention inside windows of the image, every second time shifted by half a window."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autograd import Backward, Gradients, record
from planner.engine.activations.biased import biased_attention, pad_rows
from planner.engine.activations.blocks import Linear, linear
from planner.engine.activations.eager import softmax_to
from planner.engine.activations.functions import activate, drop_path
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_shape import gathered, reshape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook

SWIN = "transformers 5.24, models/swin/modeling_swin.py"


@dataclass(frozen=True, slots=True)
class WindowShape:
    """The blocks of one stage; its dimensions are named after it."""

    name: str
    pixels: str
    eager: bool
    single: bool
    """The map is one window: nothing is cut, nothing is shifted."""
    pooled: bool
    """The mean over all pixels follows."""
    aligned: bool
    """Rows of the bias need no padding for the kernel."""
    qkv_bias: bool
    attention_dropout: bool
    dropout: bool
    drops_paths: bool
    activation: str

    def dim(self, what: str) -> str:
        return f"{self.name} {what}"

    @property
    def width(self) -> str:
        return self.dim("channels")

    @property
    def windows(self) -> tuple[str, ...]:
        """The map cut into windows, without the channels."""
        return "batch", self.dim("windows"), self.dim("window area")


@dataclass(slots=True)
class WindowBlock:
    """The weights of one block."""

    shape: WindowShape
    shifted: bool
    drops_paths: bool
    linears: dict[str, Linear]
    norms: dict[str, NormWeights]
    table: Tensor


def make_window_block(book: WeightBook, shape: WindowShape, *, shifted: bool, drops_paths: bool) -> WindowBlock:
    width, ffn = (shape.width,), (shape.dim("ffn"),)
    inner = (shape.dim("heads"), shape.dim("head dim"))
    linears = {role: book.linear(role, width, inner, shape.qkv_bias) for role in ("q_proj", "k_proj", "v_proj")}
    linears |= {
        "o_proj": book.linear("o_proj", inner, width),
        "up_proj": book.linear("up_proj", width, ffn),
        "down_proj": book.linear("down_proj", ffn, width),
    }
    norms = {name: book.norm(name, width) for name in ("layernorm_before", "layernorm_after")}
    table = book.tensor("relative_position_bias_table", (shape.dim("relative positions"), shape.dim("heads")))
    return WindowBlock(shape, shifted and not shape.single, drops_paths, linears, norms, table)


def run_window_block(t: Tape, block: WindowBlock, hidden_states: Tensor) -> tuple[Tensor, Tensor | None]:
    """`SwinLayer.forward`: its output and the weights of its attention. What it names stays alive until its end."""
    shape = block.shape
    shortcut = hidden_states
    hidden_states = normalise(t, block.norms["layernorm_before"], hidden_states, "layernorm_before")
    hidden_states = _moved(t, hidden_states, (*shape.windows, shape.width), "padded map")
    windows = _cut(t, block, _shifted(t, block, hidden_states))
    mask = _shift_mask(t, block, hidden_states.dtype)
    attention_output, weights = _attention(t, block, windows, mask)
    if shape.dropout:
        attention_output = ops.dropout(t, attention_output)
    joined = reshape(t, attention_output) if shape.single else _rearranged(t, attention_output, "windows joined")
    joined = _shifted(t, block, joined)
    joined = _as(t, joined, shortcut.dims)
    hidden_states = ops.add(t, shortcut, _left(t, block, joined), "residual sum")
    residual = hidden_states
    hidden_states = normalise(t, block.norms["layernorm_after"], hidden_states, "layernorm_after")
    with t.module("mlp"):
        inner = activate(t, linear(t, block.linears["up_proj"], hidden_states), shape.activation)
        hidden_states = linear(t, block.linears["down_proj"], inner)
        del inner
        if shape.pooled and (t.autocast or residual.dtype == "fp32"):
            # The gradient of the pooled map comes in another order down to the last reduction. A norm's gradient keeps
            # that order in fp32 and leaves it with the cast to 16 bits (torch 2.13, `_decomp/decompositions.py:
            # native_layer_norm_backward`, by which the traces ran; the CUDA kernel may save this copy).
            hidden_states = reshape(t, hidden_states)
    if shape.dropout:
        hidden_states = ops.dropout(t, hidden_states)
    return ops.add(t, hidden_states, residual, "residual sum"), weights


def _left(t: Tape, block: WindowBlock, x: Tensor) -> Tensor:
    return drop_path(t, x) if block.drops_paths else x


def _moved(t: Tape, x: Tensor, dims: Dims, label: str) -> Tensor:
    """A copy in another order or with padding, whose gradient is moved back by another copy."""
    out = t.new(dims, x.dtype, label)
    t.tick(label)
    record(t, label, [x], [out], _back_to(x.dims, copies=True))
    return out


def _as(t: Tape, x: Tensor, dims: Dims) -> Tensor:
    """The same memory under other names of dimensions."""
    out = x.handle(dims, view=True)
    record(t, "view", [x], [out], _back_to(x.dims, copies=False))
    return out


def _back_to(dims: Dims, *, copies: bool) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        if not copies:
            return [gradient.handle(dims, view=True)]
        moved = t.new(dims, gradient.dtype, "gradient, moved back")
        t.tick("gradient, moved back")
        return [moved]

    return backward


def _shifted(t: Tape, block: WindowBlock, x: Tensor) -> Tensor:
    """`cyclic_shift`: `torch.roll` there and back."""
    return _moved(t, x, x.dims, "shifted map") if block.shifted else x


def _cut(t: Tape, block: WindowBlock, x: Tensor) -> Tensor:
    """`window_partition`: a copy, unless the map is one window."""
    return x if block.shape.single else _rearranged(t, x, "windows")


def _rearranged(t: Tape, x: Tensor, label: str) -> Tensor:
    return reshape(t, ops.contiguous(t, x, label=label))


def _shift_mask(t: Tape, block: WindowBlock, dtype: str) -> Tensor | None:
    """`get_attn_mask`: which pairs of a window's pixels were neighbours before the shift."""
    if not block.shifted:
        return None
    shape = block.shape
    area = shape.dim("window area")
    dims = (shape.dim("windows"), area, area)
    with t.module("mask", SWIN), t.no_grad():
        differences = t.new(dims, dtype, "differences of regions")
        t.tick("differences of regions")
        filled = t.new(dims, dtype, "mask filled once")
        t.tick("mask filled once")
        del differences
        mask = t.new(dims, dtype, "mask of the shift")
        t.tick("mask of the shift")
        del filled
        return mask


def _attention(t: Tape, block: WindowBlock, hidden_states: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """`SwinAttention.forward`."""
    with t.module("attention", f"{SWIN}: SwinAttention.forward"):
        shape = block.shape
        inner = (shape.dim("heads"), shape.dim("head dim"))
        dims = (*shape.windows, *inner)
        query, key, value = (
            ops.view(t, linear(t, block.linears[f"{name}_proj"], hidden_states), *dims) for name in ("q", "k", "v")
        )
        _positions, combined, _mask = _bias(t, block, mask)
        weights: Tensor | None = None
        if shape.eager:
            output, weights = _eager(t, shape, query, key, value, combined)
        else:
            bias = ops.to(t, combined, t.autocast, "bias cast by autocast") if t.autocast else combined
            padded = bias if shape.aligned else pad_rows(t, bias, shape.dim("window area rounded up to 16"))
            area, rows = shape.windows[-1], shape.dim("window area rounded up to 32")
            columns = area if shape.aligned else shape.dim("window area rounded up to 16")
            spread = (*shape.windows[:-1], inner[0])
            output = biased_attention(
                t, query, key, value, padded, rows=(*spread, rows), gradient=(*spread, area, columns)
            )
            del padded, bias
        return linear(t, block.linears["o_proj"], ops.view(t, output)), weights


def _bias(t: Tape, block: WindowBlock, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Relative positions, the same with a shifted block's mask added, and that mask spread over the batch."""
    shape = block.shape
    area, heads = shape.dim("window area"), shape.dim("heads")
    with t.module("relative_position_bias"):
        found = gathered(t, block.table, area, area, heads, label="bias of every pair")
        bias = ops.contiguous(t, found, heads, area, area, label="bias by heads")
        del found
    if mask is None:
        return bias, bias, None
    with t.no_grad():
        spread = t.new((*shape.windows, area), mask.dtype, "mask of every image")
        t.tick("mask of every image")
    combined = t.new((*shape.windows[:-1], heads, area, area), bias.dtype, "bias and mask")
    t.tick("bias and mask")
    record(t, "add", [bias], [combined], ops.pass_on)
    return bias, combined, spread


def _eager(
    t: Tape, shape: WindowShape, query: Tensor, key: Tensor, value: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Scores of every window, their softmax in fp32, and the weighted sum."""
    area, heads = shape.windows[-1], shape.dim("heads")
    dims = (*shape.windows[:-1], heads, area, area)
    dtype = query.dtype
    if t.autocast:
        query, key, value = (ops.to(t, x, t.autocast) for x in (query, key, value))
    left = ops.contiguous(t, query, label="left operand, contiguous")
    right = ops.contiguous(t, key, label="right operand, contiguous")
    weights = ops.elementwise(t, ops.matmul(t, left, right, dims, "scores"), "scaled scores")
    del left, right
    weights = ops.add(t, weights, bias, "biased scores")
    weights = softmax_to(t, weights, dtype, upcast=True)
    if shape.attention_dropout:
        weights = ops.dropout(t, weights)
    copied = ops.contiguous(t, value, label="right operand, contiguous")
    output = ops.matmul(t, weights, copied, query.dims, "attention output")
    return ops.contiguous(t, output, label="attention output, contiguous"), weights
