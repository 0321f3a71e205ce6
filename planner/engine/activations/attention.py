"""Attention as transformers and PyTorch compute it: eager, or one of the fused kernels behind SDPA.

Sources: transformers 5.24 `integrations/sdpa_attention.py`, `models/llama/modeling_llama.py:
eager_attention_forward`; torch 2.13 `aten/src/ATen/native/transformers/attention.cpp`.
"""

from planner.engine.activations import ops
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.blocks import LLAMA, LayerWeights, layer_dims, linear, rms_norm, rotate
from planner.engine.activations.checkpoint import checkpoint
from planner.engine.activations.context_parallel import over_context
from planner.engine.activations.ops import Needs, Saved
from planner.engine.activations.ops_shape import spread
from planner.engine.activations.rotary import rotate_part
from planner.engine.activations.shape import LayerShape
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.virtual import with_prefix

TORCH_SDPA = "torch 2.13, native/transformers/attention.cpp"


def self_attention(
    t: Tape,
    shape: LayerShape,
    weights: LayerWeights,
    hidden_states: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | None,
    cache: "Cache | None",
    held: list[Tensor] | None = None,
) -> Tensor:
    """`LlamaAttention.forward`; with norms over the heads, `Qwen3Attention.forward`. `held` as for `attend`."""
    with t.module("self_attn", f"{LLAMA}: LlamaAttention.forward"):
        half = layer_dims(shape, "half head dim")
        linears = weights.linears
        query = _heads(t, shape, weights, "q", hidden_states)
        key = _heads(t, shape, weights, "k", hidden_states)
        value = ops.view(t, linear(t, linears["v_proj"], hidden_states))
        query, key = (
            rotate(t, query, key, cos, sin, half) if shape.rotates_all else rotate_part(t, shape, query, key, cos, sin)
        )
        if shape.qk_norm_rotated:
            query = rms_norm(t, weights.norms["q"], query, "q_norm")
            key = rms_norm(t, weights.norms["k"], key, "k_norm")
        if cache is not None:
            key, value = cache.update(t, key, value)
        if t.techniques.virtual_tokens == "prefix":
            key, value = with_prefix(t, key, value)
        output = attend(t, shape, query, key, value, mask, held)
        return linear(t, linears["o_proj"], ops.view(t, output))


def _heads(t: Tape, shape: LayerShape, weights: LayerWeights, name: str, hidden_states: Tensor) -> Tensor:
    projected = linear(t, weights.linears[f"{name}_proj"], hidden_states)
    if name in weights.norms and not shape.qk_norm_rotated:
        projected = rms_norm(t, weights.norms[name], projected, f"{name}_norm")
    return ops.view(t, projected)


def attend(
    t: Tape,
    shape: LayerShape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    held: list[Tensor] | None = None,
) -> Tensor:
    """Query, key and value, (batch, sequence, heads, head dim) in memory, to (batch, sequence, heads, head dim).

    `held` takes the attention weights of eager mode, which a decoder layer that asks for no more than the output keeps
    in a name (`hidden_states, _ = self.self_attn(...)`) until it returns.
    Selective checkpointing runs just this again in backward (Megatron-LM's selective recomputation, arXiv:2205.05198).
    """

    def core(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return over_context(t, lambda q, k, v: _attend(t, shape, q, k, v, mask, held), query, key, value)

    if t.techniques.selective != "core-attention":
        return core(query, key, value)
    return checkpoint(t, core, query, key, value)


def _attend(
    t: Tape,
    shape: LayerShape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    held: list[Tensor] | None,
) -> Tensor:
    if shape.kernel == "eager":
        output, weights = _eager(t, shape, query, key, value, mask)
        if held is not None and t.techniques.selective != "core-attention":
            held.append(weights)
        return output
    if t.autocast:
        query, key, value = (
            ops.to(t, x, t.autocast, f"{n} cast by autocast") for x, n in ((query, "q"), (key, "k"), (value, "v"))
        )
    if shape.kernel == "math":
        return _math(t, shape, query, key, value)
    if shape.masked and shape.grouped_queries:
        key, value = _repeat(t, shape, key, "keys"), _repeat(t, shape, value, "values")
    output = _fused(t, shape, query, key, value, mask)
    if shape.heads_first and shape.kernel == "flash":
        output = ops.contiguous(t, output, label="attention output, contiguous")
    return output


def _repeat(t: Tape, shape: LayerShape, x: Tensor, name: str) -> Tensor:
    """`repeat_kv`: keys or values copied once per query head of their group."""
    dims = (*x.dims[:2], layer_dims(shape, "heads"), x.dims[-1])
    if shape.single_kv_head:
        return spread(t, x, dims, copies=False, label=name)
    return ops.repeat(t, x, dims, f"{name} repeated to all heads")


def _eager(
    t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    with t.module("eager", f"{LLAMA}: eager_attention_forward"):
        dtype = query.dtype
        if shape.grouped_queries:
            key_states, value_states = _repeat(t, shape, key, "keys"), _repeat(t, shape, value, "values")
        else:
            key_states, value_states = key, value
        scores_dims = (query.dims[0], layer_dims(shape, "heads"), query.dims[1], key.dims[1])
        # Latent attention joins queries and keys of all heads in new tensors, head by head.
        joined = shape.latent is not None
        weights = ops.elementwise(
            t,
            _batched(t, query, key_states, scores_dims, "scores", shape.grouped_queries or joined, not joined),
            "scaled scores",
        )
        if mask is not None:
            weights = ops.add(t, weights, mask, "masked scores")
        wide = dtype if shape.narrow_softmax and not t.autocast else "fp32"
        weights = ops.softmax(t, ops.to(t, weights, wide, "scores in fp32"), wide)
        weights = ops.to(t, weights, dtype, "attention weights")
        if shape.attention_dropout:
            weights = ops.dropout(t, weights)
        output_dims = (*query.dims[:-1], value.dims[-1])
        output = _batched(t, weights, value_states, output_dims, "attention output", shape.grouped_queries, False)
        return ops.contiguous(t, output, label="attention output, contiguous"), weights


def _batched(
    t: Tape, a: Tensor, b: Tensor, dims: Dims, label: str, b_contiguous: bool, a_strided: bool = True
) -> Tensor:
    """`torch.matmul` of four dimensions: operands whose heads are not contiguous are copied first."""
    if t.autocast:
        a, b = ops.to(t, a, t.autocast), ops.to(t, b, t.autocast)
    left = ops.contiguous(t, a, label="left operand, contiguous") if a_strided else ops.view(t, a)
    right = ops.view(t, b) if b_contiguous else ops.contiguous(t, b, label="right operand, contiguous")
    return ops.view(t, ops.matmul(t, left, right, dims, label))


def _math(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`_scaled_dot_product_attention_math`: 16-bit inputs are computed in fp32."""
    with t.module("sdpa (math)", f"{TORCH_SDPA}: _scaled_dot_product_attention_math"):
        dtype = query.dtype
        heads = layer_dims(shape, "heads")
        query, key, value = (ops.to(t, x, "fp32") for x in (query, key, value))
        output_dims = (*query.dims[:-1], value.dims[-1])
        scaled = ops.elementwise(t, query, "scaled q")
        with t.no_grad():
            bias = t.new((scaled.dims[1], key.dims[1]), "fp32", "causal bias")
            t.tick("causal bias")
        key, value = _repeat(t, shape, key, "keys"), _repeat(t, shape, value, "values")
        left = ops.contiguous(t, scaled, label="scaled q, contiguous")
        right = ops.elementwise(t, key, "scaled k")
        scores_dims = (query.dims[0], heads, query.dims[1], key.dims[1])
        weights = ops.view(t, ops.matmul(t, left, ops.view(t, right), scores_dims, "scores"))
        del left, right
        t.tick("causal bias added in place")
        weights = ops.softmax(t, weights)
        output = ops.to(t, ops.view(t, ops.matmul(t, ops.view(t, weights), value, output_dims, "output")), dtype)
        del bias
        return ops.contiguous(t, output, label="attention output, contiguous")


def _aligned(mask: Dims) -> Dims:
    """Rows of a bias are padded to the kernel's alignment (`attention.cpp: pad_bias`), which most sequences have."""
    return (*mask[:-1], f"{mask[-1]} rounded up to 16") if mask[-1] == "prefix and sequence" else mask


def _fused(t: Tape, shape: LayerShape, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Flash or memory-efficient attention: the output and one fp32 logarithm per row, instead of the scores."""
    name = f"sdpa ({shape.kernel})"
    with t.module(name, f"{TORCH_SDPA}: _scaled_dot_product_{shape.kernel}_attention"):
        keep = [query, key, value]
        if mask is not None:
            with t.no_grad():
                bias = t.new(_aligned(mask.dims), query.dtype, "mask as a bias")
                t.tick("mask as a bias")
            keep.append(bias)
        rows = query.dims[1] if shape.kernel == "flash" else f"{query.dims[1]} rounded up to 32"
        if shape.kernel == "efficient" and not t.grad_enabled:
            rows = 0

        def make() -> tuple[Tensor, ...]:
            output = t.new((*query.dims[:-1], value.dims[-1]), query.dtype, "output")
            logsumexp = t.new((query.dims[0], layer_dims(shape, "heads"), rows), "fp32", "log-sum-exp")
            t.tick(name)
            return output, logsumexp

        output, logsumexp = make() if t.frame is None else t.frame.once(t, "attention", make)
        record(t, name, [query, key, value], [output], _fused_backward, [*keep, output, logsumexp])
        return output


def _fused_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    made: Gradients = [
        t.new(source.dims, source.dtype, f"gradient of {name}") for source, name in zip(saved, "qkv", strict=False)
    ]
    t.tick("attention backward")
    return made


class Cache:
    """`DynamicCache` of one layer: every update joins what is held (nothing, at first) with the new tokens."""

    def __init__(self, held: tuple[Tensor, Tensor] | None) -> None:
        self.held: list[Tensor] = list(held or ())

    def update(self, t: Tape, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The joined keys and values; `held` is dropped key by key, as the assignments to `self.keys` do."""
        joined = [self._join(t, index, new) for index, new in enumerate((key, value))]
        return joined[0], joined[1]

    def _join(self, t: Tape, index: int, new: Tensor) -> Tensor:
        name = "values" if index else "keys"
        filled = index < len(self.held)
        length = "context and new token" if filled else new.dims[1]
        out = t.new((new.dims[0], length, *new.dims[2:]), new.dtype, f"cached {name}", "kv cache")
        t.tick(f"{name} joined to the cache")
        record(t, "cat", [new], [out], _narrow)
        self.held[index : index + 1] = [out.handle()]
        return out


def _narrow(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = gradients[0]
    assert gradient is not None
    return [gradient.handle(view=True)]
