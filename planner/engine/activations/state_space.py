"""The mixer of Mamba 2: one projection in, a short convolution, the scan, a gated norm, one projection out.

Source: transformers 5.24, `models/mamba2/modeling_mamba2.py: Mamba2Mixer.forward`, `MambaRMSNormGated.forward`.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import Linear, linear, make_linear
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.ops_scan import causal_convolution, group_mean, softplus
from planner.engine.activations.ops_shape import part, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.scan import ScanDims, chunk_scan
from planner.engine.activations.tape import Dims, Tape, Tensor

MAMBA2 = "transformers 5.24, models/mamba2/modeling_mamba2.py"


@dataclass(frozen=True, slots=True)
class Mamba2Shape:
    """The mixer of one kind of layer, without sizes."""

    name: str
    """Prefix of its dimensions, as in `LayerShape`."""
    bias: bool
    output_bias: bool
    conv_bias: bool
    gated_norm: bool
    cuts_padding: bool
    """The sequence is no whole number of chunks, so the scan pads it and cuts it again."""

    def dim(self, name: str) -> str:
        return f"{self.name}{name}"


@dataclass(slots=True)
class StateWeights:
    """The weights of one mixer."""

    linears: dict[str, Linear]
    others: dict[str, Tensor]


@dataclass(slots=True)
class StateCache:
    """What a layer keeps of the past: the last inputs of the convolution, and the recurrent state."""

    convolution: Tensor | None = None
    recurrent: Tensor | None = None


def make_mamba2(t: Tape, recipe: Recipe, mixer: Mamba2Shape) -> StateWeights:
    def dims(*names: str) -> Dims:
        return tuple(mixer.dim(name) for name in names)

    inner = dims("state heads", "state head dim")
    linears = {
        "in_proj": make_linear(t, recipe, "in_proj", ("hidden",), dims("projection"), mixer.bias),
        "out_proj": make_linear(t, recipe, "out_proj", inner, ("hidden",), mixer.output_bias),
    }
    plan = {"conv1d": dims("conv channels", "conv kernel")}
    if mixer.conv_bias:
        plan["conv1d bias"] = dims("conv channels")
    plan |= {name: dims("state heads") for name in ("dt_bias", "A_log", "D")}
    if mixer.gated_norm:
        plan["norm"] = inner
    full = recipe.lora is None
    others = {name: t.parameter(shape_of, recipe.weight_dtype, trainable=full) for name, shape_of in plan.items()}
    return StateWeights(linears, others)


def mamba2_mixer(
    t: Tape,
    mixer: Mamba2Shape,
    weights: StateWeights,
    hidden_states: Tensor,
    cache: StateCache | None,
) -> Tensor:
    """`Mamba2Mixer.forward`."""
    with t.module("mixer", f"{MAMBA2}: Mamba2Mixer.forward"):
        dtype = hidden_states.dtype
        dims = ScanDims(*(mixer.dim(n) for n in ("state heads", "state head dim", "state", "chunk")))
        projected_states = linear(t, weights.linears["in_proj"], hidden_states)
        a_log = ops.to(t, weights.others["A_log"], "fp32", "A_log in fp32")
        a = ops.elementwise(t, saves_output(t, a_log, "exp of A_log"), "A")
        del a_log
        tokens = hidden_states.dims[:2]
        channels = mixer.dim("conv channels")
        inner: Dims = (*tokens, dims.heads, dims.head)
        gate, hidden_b_c, dt = split(t, projected_states, inner, (*tokens, channels), (*tokens, dims.heads))
        hidden_b_c = _convolved(t, mixer, weights.others, hidden_b_c, cache)
        group: Dims = (*tokens, mixer.dim("state groups"), dims.state)
        hidden, b, c = split(t, hidden_b_c, inner, group, group)
        others = weights.others
        if cache is not None and cache.recurrent is not None:
            output = _step(t, dims, hidden, dt, a, b, c, others["D"], others["dt_bias"], cache.recurrent)
        else:
            cuts = mixer.cuts_padding
            output, states = chunk_scan(t, dims, hidden, dt, a, b, c, others["D"], others["dt_bias"], cuts_padding=cuts)
            if cache is not None:
                kept = ("batch", dims.heads, dims.head, dims.state)
                cache.recurrent = t.new(kept, states.dtype, "recurrent state", "kv cache")
                t.tick("recurrent state")
            del states
        if mixer.gated_norm:
            output = _gated_norm(t, mixer, others["norm"], output, gate)
        result = linear(t, weights.linears["out_proj"], ops.to(t, output, dtype, "scan output in the model's dtype"))
        del projected_states, hidden_b_c
        return result


def _convolved(t: Tape, mixer: Mamba2Shape, weights: dict[str, Tensor], x: Tensor, cache: StateCache | None) -> Tensor:
    """`causal_conv1d_fn` and its activation, or `causal_conv1d_update` for one new token."""
    batch, sequence, channels = x.dims
    x = ops.view(t, x)
    if cache is not None:
        kept = ("batch", channels, mixer.dim("conv kernel"))
        decodes = cache.convolution is not None
        if decodes:
            joined = t.new(("batch", channels, mixer.dim("conv kernel"), 2), x.dtype, "state and new token")
            t.tick("state and new token")
            x = ops.view(t, joined, "batch", mixer.dim("conv kernel"), channels)
        else:
            cache.convolution = t.new(kept, x.dtype, "convolution state", "kv cache")
            t.tick("convolution state")
    longer: Dims = (batch, channels, "length with convolution padding")
    out = causal_convolution(t, x, weights["conv1d"], weights.get("conv1d bias"), longer)
    return activate(t, part(t, out, batch, sequence, channels), "silu")


def _step(
    t: Tape,
    dims: ScanDims,
    hidden: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    dt_bias: Tensor,
    state: Tensor,
) -> Tensor:
    """`mamba2_selective_state_update`: the recurrence for one new token."""
    with t.module("state update", f"{MAMBA2}: mamba2_selective_state_update"):
        per_head = (*hidden.dims[:2], dims.heads, dims.state)
        dt = softplus(t, ops.add(t, dt, ops.to(t, dt_bias, dt.dtype), "dt with bias"))
        decay = saves_output(t, ops.repeat(t, ops.to(t, dt, "fp32"), state.dims, "dt A"), "decay")
        b = ops.repeat(t, b, per_head, "B of all heads")
        added = ops.repeat(t, b, (*per_head[:3], dims.head, dims.state), "dt B x")
        kept = ops.elementwise(t, state, "state, decayed")
        states = ops.add(t, kept, added, "new state")
        del kept, decay, added
        t.tick("state copied in place")
        c = ops.repeat(t, c, per_head, "C of all heads")
        states = ops.to(t, states, c.dtype, "new state in the model's dtype")
        out = ops.matmul(t, states, c, hidden.dims, "state times C")
        skip = ops.mul(t, hidden, d, "D residual")
        return ops.add(t, out, skip, "output")


def _gated_norm(t: Tape, mixer: Mamba2Shape, weight: Tensor, hidden_states: Tensor, gate: Tensor) -> Tensor:
    """`MambaRMSNormGated.forward`: the gate first, then an RMS norm over each group."""
    with t.module("norm", f"{MAMBA2}: MambaRMSNormGated.forward"):
        dtype = hidden_states.dtype
        rows = (*hidden_states.dims[:2], mixer.dim("state groups"), 1)
        hidden_states = ops.to(t, hidden_states, "fp32", "input in fp32")
        gate = ops.activation(t, ops.to(t, gate, "fp32", "gate in fp32"), "silu")
        hidden_states = ops.mul(t, hidden_states, gate, "gated input")
        del gate
        variance = group_mean(t, ops.square(t, hidden_states), rows)
        root = ops.rsqrt(t, ops.shift(t, variance, "plus epsilon"))
        hidden_states = ops.mul(t, hidden_states, root, "normalised")
        del root
        return ops.mul(t, weight, ops.to(t, hidden_states, dtype, "normalised, cast back"), "output")
