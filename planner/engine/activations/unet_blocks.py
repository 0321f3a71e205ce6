"""What UNets and autoencoders of diffusers are made of: residual blocks, spatial transformers, changes of resolution.

Source: diffusers 0.42, `models/resnet.py`, `models/attention.py`, `models/transformers/transformer_2d.py`,
`models/attention_processor.py: AttnProcessor2_0`.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.attention import attend
from planner.engine.activations.blocks import Linear, layer_dims, linear, slots_of
from planner.engine.activations.checkpoint import checkpoint
from planner.engine.activations.norms import NormWeights, normalise
from planner.engine.activations.ops_conv import convolution, group_norm, resized
from planner.engine.activations.ops_shape import reshape, split
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dim, Tape, Tensor
from planner.engine.activations.weight_book import WeightBook
from planner.model.spec import GROUP_NORM

RESNET = "diffusers 0.42, models/resnet.py: ResnetBlock2D.forward"
TRANSFORMER = "diffusers 0.42, models/transformers/transformer_2d.py: Transformer2DModel.forward"
BLOCK = "diffusers 0.42, models/attention.py: BasicTransformerBlock.forward"
PROCESSOR = "diffusers 0.42, models/attention_processor.py: AttnProcessor2_0"


@dataclass(frozen=True, slots=True)
class Map:
    """A map of features: how many channels, at which resolution."""

    channels: Dim
    pixels: str


@dataclass(frozen=True, slots=True)
class ResidualShape:
    """`ResnetBlock2D`: its input and its output; `time` is the width of the time embedding that it reads."""

    inputs: Dim
    outputs: Map
    time: Dim | None


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """`Transformer2DModel`: projections by linear layers or convolutions around blocks of one kind."""

    index: int
    copies: int
    linear: bool
    at: Map
    attention: LayerShape
    context: Dim


@dataclass(frozen=True, slots=True)
class ResampleShape:
    """A convolution that halves the image, or that follows its doubling to `at`."""

    at: Map
    grows: bool


@dataclass(slots=True)
class Convolved:
    """A convolution."""

    name: str
    weight: Tensor
    bias: Tensor
    outputs: Dim


@dataclass(slots=True)
class ResidualWeights:
    shape: ResidualShape
    norm1: NormWeights
    conv1: Convolved
    time: Linear | None
    norm2: NormWeights
    conv2: Convolved
    shortcut: Convolved | None


@dataclass(slots=True)
class BlockWeights:
    slot: str
    norms: list[NormWeights]
    looks: list[dict[str, Linear]]
    proj: Linear
    out: Linear


@dataclass(slots=True)
class TransformerWeights:
    shape: TransformerShape
    norm: NormWeights
    proj_in: Convolved | Linear
    blocks: list[BlockWeights]
    proj_out: Convolved | Linear


def make_convolution(book: WeightBook, name: str, inputs: Dim, outputs: Dim, kernel: int = 9) -> Convolved:
    weight = book.tensor(name, (outputs, inputs, kernel))
    return Convolved(name, weight, book.tensor(name, (outputs,)), outputs)


def convolve(t: Tape, layer: Convolved, x: Tensor, pixels: Dim) -> Tensor:
    return convolution(t, x, layer.weight, layer.bias, (x.dims[0], layer.outputs, pixels), layer.name)


def norm_groups(t: Tape, weights: NormWeights, x: Tensor, name: str) -> Tensor:
    assert weights.weight is not None
    assert weights.bias is not None
    with t.module(name):
        return group_norm(t, x, weights.weight, weights.bias)


def make_residual(book: WeightBook, shape: ResidualShape) -> ResidualWeights:
    outputs = shape.outputs.channels
    norm1 = book.norm("norm1", (shape.inputs,), GROUP_NORM)
    conv1 = make_convolution(book, "conv1", shape.inputs, outputs)
    time = book.linear("time_emb_proj", (shape.time,), (outputs,)) if shape.time is not None else None
    norm2 = book.norm("norm2", (outputs,), GROUP_NORM)
    conv2 = make_convolution(book, "conv2", outputs, outputs)
    shortcut = make_convolution(book, "conv_shortcut", shape.inputs, outputs, 1) if shape.inputs != outputs else None
    return ResidualWeights(shape, norm1, conv1, time, norm2, conv2, shortcut)


def residual(t: Tape, weights: ResidualWeights, input_tensor: Tensor, temb: Tensor | None) -> Tensor:
    """`ResnetBlock2D.forward`; what it adds is divided by a scale, which is one and costs a tensor all the same."""
    with t.module("resnet", RESNET):
        pixels = weights.shape.outputs.pixels
        hidden_states = norm_groups(t, weights.norm1, input_tensor, "norm1")
        hidden_states = ops.activation(t, hidden_states, "silu")
        hidden_states = convolve(t, weights.conv1, hidden_states, pixels)
        if weights.time is not None:
            assert temb is not None
            temb = ops.activation(t, temb, "silu")
            temb = ops.view(t, linear(t, weights.time, temb))
            hidden_states = ops.add(t, hidden_states, temb, "with the time embedding")
        hidden_states = norm_groups(t, weights.norm2, hidden_states, "norm2")
        hidden_states = ops.activation(t, hidden_states, "silu")
        hidden_states = convolve(t, weights.conv2, hidden_states, pixels)
        if weights.shortcut is not None:
            input_tensor = convolve(t, weights.shortcut, input_tensor, pixels)
        return ops.elementwise(t, ops.add(t, input_tensor, hidden_states), "scaled sum")


def run_residual(t: Tape, weights: ResidualWeights, x: Tensor, temb: Tensor, *, again: bool) -> Tensor:
    """`again`: the block is checkpointed."""
    if not again:
        return residual(t, weights, x, temb)
    return checkpoint(t, lambda x, temb: residual(t, weights, x, temb), x, temb)


def make_resample(book: WeightBook, shape: ResampleShape) -> Convolved:
    channels = shape.at.channels
    return make_convolution(book, "upsampler" if shape.grows else "downsampler", channels, channels)


def resample(t: Tape, shape: ResampleShape, weights: Convolved, hidden_states: Tensor) -> Tensor:
    """`Upsample2D.forward`, `Downsample2D.forward`."""
    if shape.grows:
        dims = (hidden_states.dims[0], shape.at.channels, shape.at.pixels)
        hidden_states = resized(t, hidden_states, dims, "doubled")
    return convolve(t, weights, hidden_states, shape.at.pixels)


def make_transformer(book: WeightBook, shape: TransformerShape) -> TransformerWeights:
    channels = shape.at.channels
    norm = book.norm("norm", (channels,), GROUP_NORM)

    def projection(name: str) -> Convolved | Linear:
        if shape.linear:
            return book.linear(name, (channels,), (channels,))
        return make_convolution(book, name, channels, channels, 1)

    proj_in = projection("proj_in")
    blocks: list[BlockWeights] = []
    for slot in slots_of(shape.index, shape.copies):
        with book.layer(slot):
            blocks.append(_make_block(book, slot, shape))
    return TransformerWeights(shape, norm, proj_in, blocks, projection("proj_out"))


def _make_block(book: WeightBook, slot: str, shape: TransformerShape) -> BlockWeights:
    channels = shape.at.channels
    norms = [book.norm(f"norm{index}", (channels,)) for index in (1, 2, 3)]
    looks = [make_looks(book, shape.attention, channels, other) for other in (channels, shape.context)]
    proj = book.linear("proj", (channels,), (8, channels))
    return BlockWeights(slot, norms, looks, proj, book.linear("net.2", (4, channels), (channels,)))


def make_looks(book: WeightBook, shape: LayerShape, width: Dim, other: Dim) -> dict[str, Linear]:
    """Queries of states of one width, keys and values of another."""
    inner = (layer_dims(shape, "heads"), layer_dims(shape, "head dim"))
    return {
        "q": book.linear("to_q", (width,), inner, shape.qkv_bias),
        "k": book.linear("to_k", (other,), inner, shape.qkv_bias),
        "v": book.linear("to_v", (other,), inner, shape.qkv_bias),
        "o": book.linear("to_out", inner, (width,)),
    }


def run_transformer(
    t: Tape, weights: TransformerWeights, hidden_states: Tensor, context: Tensor, *, again: bool
) -> Tensor:
    """`Transformer2DModel.forward`; `again`: its blocks are checkpointed, one by one."""
    with t.module("attentions", TRANSFORMER):
        shape = weights.shape
        sequence = (hidden_states.dims[0], shape.at.pixels, shape.at.channels)
        residual = hidden_states
        hidden_states = norm_groups(t, weights.norm, hidden_states, "norm")
        if isinstance(weights.proj_in, Convolved):
            hidden_states = convolve(t, weights.proj_in, hidden_states, shape.at.pixels)
            hidden_states = ops.view(t, hidden_states, *sequence)
        else:
            hidden_states = ops.view(t, hidden_states, *sequence)
            hidden_states = linear(t, weights.proj_in, hidden_states)
        for block in weights.blocks:
            with t.layer(block.slot):
                if again:
                    hidden_states = checkpoint(
                        t, lambda x, context, block=block: _block(t, shape, block, x, context), hidden_states, context
                    )
                else:
                    hidden_states = _block(t, shape, block, hidden_states, context)
        return _output(t, weights, hidden_states, residual)


def _output(t: Tape, weights: TransformerWeights, hidden_states: Tensor, residual: Tensor) -> Tensor:
    """`_get_output_for_continuous_inputs`, whose caller goes on holding the last block's output."""
    if isinstance(weights.proj_out, Convolved):
        hidden_states = _to_map(t, hidden_states, residual)
        hidden_states = convolve(t, weights.proj_out, hidden_states, weights.shape.at.pixels)
    else:
        hidden_states = reshape(t, linear(t, weights.proj_out, hidden_states))
        hidden_states = _to_map(t, hidden_states, residual)
    return ops.add(t, hidden_states, residual, "with the residual")


def _to_map(t: Tape, hidden_states: Tensor, like: Tensor) -> Tensor:
    """Channels first again, in a copy whose gradient is a view of what comes."""
    return ops.contiguous(t, ops.view(t, hidden_states, *like.dims), label="channels first")


def _block(t: Tape, shape: TransformerShape, weights: BlockWeights, hidden_states: Tensor, context: Tensor) -> Tensor:
    """`BasicTransformerBlock.forward`.

    Between projections by convolution the gradient of the residual lies channels first in memory, and is copied where
    a matrix product needs it.
    """
    with t.module("transformer_blocks", BLOCK):
        transposed = not shape.linear
        norm_hidden_states = normalise(t, weights.norms[0], hidden_states, "norm1")
        attn_output = _attention(t, shape, weights.looks[0], norm_hidden_states, None, transposed)
        hidden_states = ops.add(t, attn_output, hidden_states, "with self-attention")
        norm_hidden_states = normalise(t, weights.norms[1], hidden_states, "norm2")
        attn_output = _attention(t, shape, weights.looks[1], norm_hidden_states, context, transposed)
        hidden_states = ops.add(t, attn_output, hidden_states, "with cross-attention")
        norm_hidden_states = normalise(t, weights.norms[2], hidden_states, "norm3")
        ff_output = _feed_forward(t, weights, norm_hidden_states, transposed)
        return ops.add(t, ff_output, hidden_states, "with the feed-forward")


def _attention(
    t: Tape, shape: TransformerShape, looks: dict[str, Linear], hidden_states: Tensor, context: Tensor | None,
    transposed: bool,
) -> Tensor:  # fmt: skip
    """`AttnProcessor2_0.__call__`."""
    with t.module("attn1" if context is None else "attn2", PROCESSOR):
        query = linear(t, looks["q"], hidden_states)
        context = hidden_states if context is None else context
        key = linear(t, looks["k"], context)
        value = linear(t, looks["v"], context)
        query, key, value = ops.view(t, query), ops.view(t, key), ops.view(t, value)
        hidden_states = attend(t, shape.attention, query, key, value, None)
        hidden_states = ops.to(t, ops.view(t, hidden_states), query.dtype)
        hidden_states = linear(t, looks["o"], hidden_states)
        if transposed:
            hidden_states = reshape(t, hidden_states)
        return ops.elementwise(t, hidden_states, "rescaled")


def _feed_forward(t: Tape, weights: BlockWeights, hidden_states: Tensor, transposed: bool) -> Tensor:
    """`FeedForward.forward` with `GEGLU`."""
    with t.module("ff", "diffusers 0.42, models/activations.py: GEGLU.forward"):
        gated = _geglu(t, weights.proj, hidden_states)
        hidden_states = linear(t, weights.out, gated)
        return reshape(t, hidden_states) if transposed else hidden_states


def _geglu(t: Tape, proj: Linear, hidden_states: Tensor) -> Tensor:
    hidden_states = linear(t, proj, hidden_states)
    inner = (*hidden_states.dims[:2], 4, hidden_states.dims[-1])
    hidden_states, gate = split(t, hidden_states, inner, inner)
    return ops.mul(t, hidden_states, ops.activation(t, gate, "gelu"), "gated product")
