"""Gated DeltaNet (arXiv:2412.06464) in plain PyTorch, as transformers runs it without the `fla` kernels.

Sources: transformers 5.24, `models/qwen3_next/modeling_qwen3_next.py: Qwen3NextGatedDeltaNet.forward`,
`torch_chunk_gated_delta_rule`, `torch_recurrent_gated_delta_rule`, and `models/qwen3_5/modeling_qwen3_5.py`, whose
projections are apart; checked operator by operator against a run of both.
"""

from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.blocks import linear, make_linear
from planner.engine.activations.functions import activate, saves_output
from planner.engine.activations.ops_delta import Walk, differences, solve_triangular, total, walk
from planner.engine.activations.ops_scan import (
    causal_convolution,
    cumulative_sum,
    masked_fill,
    pad,
    softplus,
    subtract,
)
from planner.engine.activations.ops_shape import cat, part, reshape, split
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.state_space import StateCache, StateWeights
from planner.engine.activations.tape import Dims, Tape, Tensor

DELTA = "transformers 5.24, models/qwen3_next/modeling_qwen3_next.py"
CHUNK = 64
"""Tokens that the rule works on at once (`torch_chunk_gated_delta_rule`)."""


@dataclass(frozen=True, slots=True)
class DeltaShape:
    """The mixer of one kind of layer, without sizes."""

    name: str
    """Prefix of its dimensions, as in `LayerShape`."""
    fused: bool
    """Queries, keys, values and gates come of one projection, the rates of another (Qwen3-Next)."""
    groups: bool
    """A key head serves several value heads."""

    def dim(self, name: str) -> str:
        return f"{self.name}{name}"


def make_delta(t: Tape, recipe: Recipe, mixer: DeltaShape) -> StateWeights:
    hidden: Dims = ("hidden",)
    value: Dims = (mixer.dim("value heads"), mixer.dim("value head dim"))
    heads: Dims = (mixer.dim("value heads"),)
    if mixer.fused:
        plan = {"in_proj_qkvz": (mixer.dim("q, k, v and z"),), "in_proj_ba": (2, *heads)}
    else:
        qkv: Dims = (mixer.dim("conv channels"),)
        plan = {"in_proj_qkv": qkv, "in_proj_z": value, "in_proj_b": heads, "in_proj_a": heads}
    linears = {role: make_linear(t, recipe, role, hidden, outputs, False) for role, outputs in plan.items()}
    linears["out_proj"] = make_linear(t, recipe, "out_proj", value, hidden, False)
    full = recipe.lora is None
    shapes: dict[str, Dims] = {
        "conv1d": (mixer.dim("conv channels"), mixer.dim("conv kernel")),
        "dt_bias": heads,
        "A_log": heads,
        "norm": (mixer.dim("value head dim"),),
    }
    others = {name: t.parameter(dims, recipe.weight_dtype, trainable=full) for name, dims in shapes.items()}
    return StateWeights(linears, others)


def delta_mixer(
    t: Tape, mixer: DeltaShape, weights: StateWeights, hidden_states: Tensor, cache: StateCache | None
) -> Tensor:
    """`Qwen3NextGatedDeltaNet.forward`."""
    with t.module("linear_attn", f"{DELTA}: Qwen3NextGatedDeltaNet.forward"):
        tokens = hidden_states.dims[:2]
        projected, mixed, z, b, a = _projections(t, mixer, weights, hidden_states)
        mixed = _convolved(t, mixer, weights.others["conv1d"], mixed, cache)
        key_dims: Dims = (*tokens, mixer.dim("key heads"), mixer.dim("key head dim"))
        value_dims: Dims = (*tokens, mixer.dim("value heads"), mixer.dim("value head dim"))
        query, key, value = split(t, mixed, key_dims, key_dims, value_dims)
        beta = saves_output(t, b, "sigmoid")
        rate = saves_output(t, ops.to(t, weights.others["A_log"], "fp32", "A_log in fp32"), "exp of A_log")
        step = ops.add(t, ops.to(t, a, "fp32", "a in fp32"), weights.others["dt_bias"], "a with bias")
        g = ops.mul(t, ops.elementwise(t, rate, "minus A"), softplus(t, step), "decay")
        del rate, step
        decodes = cache is not None and cache.recurrent is not None
        rule = _one_token if decodes else _chunks
        output, state = rule(t, mixer, query, key, value, g, beta, keeps_state=cache is not None)
        if cache is not None and state is not None and not decodes:
            cache.recurrent = t.new(state.dims, "fp32", "recurrent state", "kv cache")
            t.tick("recurrent state")
        normed = _gated_norm(t, weights.others["norm"], output, z)
        del output
        result = linear(t, weights.linears["out_proj"], normed)
        del projected, mixed, z, a, state
        return result


def _projections(
    t: Tape, mixer: DeltaShape, weights: StateWeights, x: Tensor
) -> tuple[list[Tensor], Tensor, Tensor, Tensor, Tensor]:
    """What stays in names of the layer, queries with keys and values, the gate z, and the rates b and a."""
    tokens, linears = x.dims[:2], weights.linears
    channels, heads = mixer.dim("conv channels"), mixer.dim("value heads")
    value: Dims = (*tokens, heads, mixer.dim("value head dim"))
    if not mixer.fused:
        mixed, z, b, a = (linear(t, linears[f"in_proj_{name}"], x) for name in ("qkv", "z", "b", "a"))
        return [], mixed, ops.view(t, z, *value), b, a
    key: Dims = (*tokens, mixer.dim("key heads"), mixer.dim("key head dim"))
    qkvz, ba = linear(t, linears["in_proj_qkvz"], x), linear(t, linears["in_proj_ba"], x)
    query, keys, values, z = split(t, qkvz, key, key, value, value)
    b, a = split(t, ba, (*tokens, heads), (*tokens, heads))
    values, z = ops.contiguous(t, values, label="values, contiguous"), ops.contiguous(t, z, label="z, contiguous")
    b, a = ops.contiguous(t, b, label="b, contiguous"), ops.contiguous(t, a, label="a, contiguous")
    query, keys = ops.contiguous(t, query, label="q, contiguous"), ops.contiguous(t, keys, label="k, contiguous")
    mixed = cat(t, [query, keys, values], (*tokens, channels), "q, k and v")
    return [qkvz, ba], mixed, z, b, a


def _convolved(t: Tape, mixer: DeltaShape, weight: Tensor, x: Tensor, cache: StateCache | None) -> Tensor:
    """`causal_conv1d_fn` and its activation, or `causal_conv1d_update` for one new token."""
    batch, sequence, channels = x.dims
    kernel = mixer.dim("conv kernel")
    longer: Dims = (batch, channels, "length with convolution padding")
    if cache is not None and cache.convolution is not None:
        x = t.new((batch, channels, longer[-1]), x.dtype, "state and new token")
        t.tick("state and new token")
        return activate(t, causal_convolution(t, x, weight, None, (batch, channels, sequence)), "silu")
    if cache is not None:
        cache.convolution = t.new((batch, channels, kernel), x.dtype, "convolution state", "kv cache")
        t.tick("convolution state")
    out = causal_convolution(t, ops.view(t, x), weight, None, longer)
    return activate(t, part(t, out, batch, channels, sequence), "silu")


def _per_head(
    t: Tape, mixer: DeltaShape, query: Tensor, key: Tensor, value: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Everything in fp32 and head by head; queries and keys of length one, queries scaled."""
    batch, sequence = query.dims[:2]
    heads = mixer.dim("value heads")
    if mixer.groups:
        spread: Dims = (batch, sequence, heads, query.dims[-1])
        query = ops.repeat(t, query, spread, "queries of all heads")
        key = ops.repeat(t, key, spread, "keys of all heads")
    query, key, value, beta = [
        ops.to(t, x, "fp32", f"{name} in fp32")
        for x, name in ((query, "queries"), (key, "keys"), (value, "values"), (beta, "beta"))
    ]
    query, key = _unit(t, query, "queries"), _unit(t, key, "keys")
    return ops.elementwise(t, query, "scaled queries"), key, value, beta


def _unit(t: Tape, x: Tensor, name: str) -> Tensor:
    """`l2norm`."""
    squares = total(t, ops.mul(t, x, x, "squares"), "sum of squares")
    inverse = ops.rsqrt(t, ops.shift(t, squares, "plus epsilon"))
    return ops.mul(t, x, inverse, f"{name} of length one")


def _chunks(
    t: Tape,
    mixer: DeltaShape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    *,
    keeps_state: bool,
) -> tuple[Tensor, Tensor | None]:
    """`torch_chunk_gated_delta_rule`: outputs (batch, sequence, heads, head dim) and the last state."""
    with t.module("chunk rule", f"{DELTA}: torch_chunk_gated_delta_rule"):
        dtype, given = value.dtype, value.dims
        query, key, value, beta = _per_head(t, mixer, query, key, value, beta)
        heads, head, width = mixer.dim("value heads"), mixer.dim("key head dim"), mixer.dim("value head dim")
        rows: Dims = ("batch", heads, "delta chunks", CHUNK)
        query, key, value = (pad(t, x, (*rows, x.dims[-1]), "padded to whole chunks") for x in (query, key, value))
        beta, decay = (pad(t, x, rows, "padded to whole chunks") for x in (beta, decay))
        of_token = ops.view(t, beta, *rows, 1)
        v_beta = reshape(t, ops.mul(t, value, of_token, "values times beta"))
        k_beta = reshape(t, ops.mul(t, key, of_token, "keys times beta"))
        with t.no_grad():
            ones = t.new((CHUNK, CHUNK), "bool", "ones")
            t.tick("ones")
            mask = t.new((CHUNK, CHUNK), "bool", "upper triangle")
            t.tick("upper triangle")
            del ones
        cum_decay = cumulative_sum(t, decay)
        square: Dims = (*rows, CHUNK)
        pairwise = differences(t, cum_decay, square)
        pairwise = masked_fill(t, pairwise, mask, square, "decays below the diagonal")
        pairwise = saves_output(t, pairwise, "pairwise decays")
        system = ops.mul(t, _product(t, k_beta, key, square, "keys times keys"), pairwise, "system")
        scores = ops.mul(t, _product(t, query, key, square, "queries times keys"), pairwise, "scores")
        decayed = ops.mul(t, k_beta, _exp(t, cum_decay), "decayed keys")
        new_values = solve_triangular(t, system, v_beta, "new values")
        keys_read = solve_triangular(t, system, decayed, "keys that read")
        state: Dims = ("batch", heads, head, width)
        with t.no_grad():
            start = t.new(state, "fp32", "state before the first chunk")
            t.tick("state before the first chunk")
            out = t.new(new_values.dims, "fp32", "outputs of chunks")
            t.tick("outputs of chunks")
        query = ops.mul(t, query, _exp(t, cum_decay), "decayed queries")
        to_end = subtract(t, part(t, cum_decay, *rows[:3], 1), cum_decay, "decay to the end of the chunk")
        key = ops.mul(t, key, _exp(t, to_end), "keys that write")
        del to_end
        whole = saves_output(t, part(t, cum_decay, *rows[:3]), "decay of whole chunks")
        over = Walk(new_values, keys_read, query, scores, key, whole, state, "delta chunks", new_values.dims)
        out, last, left = walk(t, over, out, start)
        state_after = last if keeps_state else None
        del start, last
        out = ops.contiguous(t, out, label="outputs, contiguous")
        out = part(t, out, *given)
        if dtype == "fp32":
            result = ops.contiguous(t, out, label="outputs, tokens first")
        else:
            result = ops.to(t, out, dtype, "outputs in the model's dtype")
        del left, mask, decay, v_beta, system, decayed, over, beta, of_token, value
        return result, state_after


def _product(t: Tape, a: Tensor, b: Tensor, dims: Dims, label: str) -> Tensor:
    if t.autocast:
        a, b = ops.to(t, a, t.autocast, "left operand cast"), ops.to(t, b, t.autocast, "right operand cast")
    return ops.matmul(t, a, b, dims, label)


def _exp(t: Tape, x: Tensor) -> Tensor:
    made = saves_output(t, x, "decay")
    return ops.view(t, made, *made.dims, 1)


def _one_token(
    t: Tape,
    mixer: DeltaShape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    *,
    keeps_state: bool,
) -> tuple[Tensor, Tensor | None]:
    """`torch_recurrent_gated_delta_rule` of one new token; the state is copied over the cached one after it."""
    with t.module("recurrent rule", f"{DELTA}: torch_recurrent_gated_delta_rule"):
        dtype, given = value.dtype, value.dims
        query, key, value, beta = _per_head(t, mixer, query, key, value, beta)
        shape: Dims = ("batch", mixer.dim("value heads"), mixer.dim("key head dim"), mixer.dim("value head dim"))
        out = ops.shift(t, value, "outputs")
        state = t.new(shape, "fp32", "state, decayed")
        t.tick("state, decayed")
        read = ops.shift(t, state, "state times key")
        del read
        written = ops.shift(t, state, "key times correction")
        new = ops.add(t, state, written, "new state")
        state = new
        del written, new
        read = ops.shift(t, state, "state times query")
        del read
        result = ops.to(t, ops.view(t, out, *given), dtype, "outputs in the model's dtype")
        del query, key, value, beta, decay
        return result, state if keeps_state else None


def _gated_norm(t: Tape, weight: Tensor, hidden_states: Tensor, gate: Tensor) -> Tensor:
    """`Qwen3NextRMSNormGated.forward`: the norm of each head, then the gate in fp32."""
    with t.module("norm", f"{DELTA}: Qwen3NextRMSNormGated.forward"):
        dtype = hidden_states.dtype
        hidden_states = ops.to(t, hidden_states, "fp32", "input in fp32")
        variance = ops.mean(t, ops.square(t, hidden_states))
        root = ops.rsqrt(t, ops.shift(t, variance, "plus epsilon"))
        hidden_states = ops.mul(t, hidden_states, root, "normalised")
        del root
        hidden_states = ops.mul(t, weight, ops.to(t, hidden_states, dtype, "normalised, cast back"), "weighted")
        opened = ops.activation(t, ops.to(t, gate, "fp32", "gate in fp32"), "silu")
        hidden_states = ops.mul(t, hidden_states, opened, "gated")
        del opened
        output = ops.to(t, hidden_states, dtype, "output")
        del variance
        return output
