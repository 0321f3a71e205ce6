"""The tensors of state-space and linear-attention mixers, after the classes of transformers 5.23."""

from collections.abc import Iterator

from planner.model.spec import (
    Convolution,
    GatedDeltaNet,
    LightningAttention,
    Linear,
    Mamba,
    Mamba2,
    Norm,
    RealGatedRecurrence,
    RecurrentMixer,
    Rwkv,
    ShortConvolution,
)
from planner.model.weights.weight import Weight, convolution, linear, norm


def parameter(name: str, *shape: int) -> Weight:
    return Weight(name, shape, "parameter")


def depthwise(name: str, channels: int, kernel: int, bias: bool) -> Iterator[Weight]:
    yield from convolution(Convolution(name, channels, channels, (kernel,), groups=channels, bias=bias))


def mamba(mixer: Mamba, hidden: int) -> Iterator[Weight]:
    inner, state = mixer.inner_size, mixer.state_size
    yield from linear(Linear("in_proj", hidden, 2 * inner, mixer.bias, "column"))
    yield from depthwise("conv1d", inner, mixer.kernel, mixer.conv_bias)
    yield from linear(Linear("x_proj", inner, mixer.dt_rank + 2 * state, shard="row"))
    yield from linear(Linear("dt_proj", mixer.dt_rank, inner, True, "column"))
    yield parameter("A_log", inner, state)
    yield parameter("D", inner)
    if mixer.inner_norms:
        for name, size in (("dt_layernorm", mixer.dt_rank), ("b_layernorm", state), ("c_layernorm", state)):
            yield from norm(name, size, Norm())
    yield from linear(Linear("out_proj", inner, hidden, mixer.bias, "row"))


def mamba2(mixer: Mamba2, hidden: int) -> Iterator[Weight]:
    inner = mixer.inner_size
    rows = inner + mixer.conv_size + mixer.heads
    yield from linear(Linear("in_proj", hidden, rows, mixer.bias, "column"))
    yield from depthwise("conv1d", mixer.conv_size, mixer.kernel, mixer.conv_bias)
    for name in ("dt_bias", "A_log", "D"):
        yield parameter(name, mixer.heads)
    if mixer.gated_norm:
        yield from norm("norm", inner, Norm())
    output_bias = mixer.bias if mixer.output_bias is None else mixer.output_bias
    yield from linear(Linear("out_proj", inner, hidden, output_bias, "row"))


def gated_delta_net(mixer: GatedDeltaNet, hidden: int) -> Iterator[Weight]:
    key, value, heads = mixer.key_size, mixer.value_size, mixer.value_heads
    if mixer.fused:
        yield from linear(Linear("in_proj_qkvz", hidden, 2 * key + 2 * value, shard="column"))
        yield from linear(Linear("in_proj_ba", hidden, 2 * heads, shard="column"))
    else:
        rows = (("in_proj_qkv", 2 * key + value), ("in_proj_z", value), ("in_proj_b", heads), ("in_proj_a", heads))
        for name, outputs in rows:
            yield from linear(Linear(name, hidden, outputs, shard="column"))
    yield from depthwise("conv1d", mixer.conv_size, mixer.kernel, bias=False)
    yield parameter("dt_bias", heads)
    yield parameter("A_log", heads)
    yield from norm("norm", mixer.value_head_dim, Norm())
    yield from linear(Linear("out_proj", value, hidden, shard="row"))


def rwkv(mixer: Rwkv, hidden: int) -> Iterator[Weight]:
    size = mixer.size
    yield parameter("time_decay", size)
    yield parameter("time_first", size)
    for name in ("time_mix_key", "time_mix_value", "time_mix_receptance"):
        yield parameter(name, 1, 1, hidden)
    for name in ("key", "value", "receptance"):
        yield from linear(Linear(name, hidden, size, shard="column"))
    yield from linear(Linear("output", size, hidden, shard="row"))


def lightning(mixer: LightningAttention, hidden: int) -> Iterator[Weight]:
    inner = mixer.heads * mixer.head_dim
    yield from norm("norm", inner, Norm())
    yield from linear(Linear("qkv_proj", hidden, 3 * inner, shard="column"))
    yield from linear(Linear("out_proj", inner, hidden, shard="row"))
    yield from linear(Linear("output_gate", hidden, inner, shard="column"))


def short_convolution(mixer: ShortConvolution, hidden: int) -> Iterator[Weight]:
    yield from depthwise("conv", hidden, mixer.kernel, mixer.bias)
    yield from linear(Linear("in_proj", hidden, 3 * hidden, mixer.bias, "column"))
    yield from linear(Linear("out_proj", hidden, hidden, mixer.bias, "row"))


def real_gated_recurrence(mixer: RealGatedRecurrence, hidden: int) -> Iterator[Weight]:
    size, block = mixer.size, mixer.size // mixer.heads
    yield from linear(Linear("linear_y", hidden, size, True, "column"))
    yield from linear(Linear("linear_x", hidden, size, True, "column"))
    yield from linear(Linear("linear_out", size, hidden, True, "row"))
    yield from depthwise("conv_1d", size, mixer.kernel, bias=True)
    yield parameter("recurrent_param", size)
    for gate in ("input_gate", "recurrent_gate"):
        yield parameter(f"{gate}_weight", mixer.heads, block, block)
        yield parameter(f"{gate}_bias", mixer.heads, block)


def recurrent(mixer: RecurrentMixer, hidden: int) -> Iterator[Weight]:
    """The tensors of a mixer that keeps a state, in a layer of width `hidden`."""
    if isinstance(mixer, Mamba):
        yield from mamba(mixer, hidden)
    elif isinstance(mixer, Mamba2):
        yield from mamba2(mixer, hidden)
    elif isinstance(mixer, GatedDeltaNet):
        yield from gated_delta_net(mixer, hidden)
    elif isinstance(mixer, Rwkv):
        yield from rwkv(mixer, hidden)
    elif isinstance(mixer, LightningAttention):
        yield from lightning(mixer, hidden)
    elif isinstance(mixer, ShortConvolution):
        yield from short_convolution(mixer, hidden)
    else:
        yield from real_gated_recurrence(mixer, hidden)
